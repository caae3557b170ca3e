"""`ActionMap`: the rule by which targets follow from actions, found by trying actions in a control step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

STEPS = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)
"""Actions that are tried; a target may end at a limit before the action is 1."""
DIFFERENT = 1e-3  # relative, of slopes that are not the same
ROUNDING = 1e-5  # of the larger of 1 and a target
DIGITS = 6  # of slopes, which float32 gives

Run = Callable[[np.ndarray], np.ndarray]
"""Action (k,) -> targets (A,)."""


@dataclasses.dataclass(frozen=True)
class ActionMap:
    """target = offset + up * max(action, 0) + down * min(action, 0), where that holds."""

    offset: np.ndarray
    """(A,) target at action 0 where an episode begins."""
    fixed: np.ndarray
    """(A,) bool, whether that is the same at any time."""
    up: np.ndarray
    """(A,) per unit of a positive action."""
    down: np.ndarray
    """(A,)."""
    tried: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Actions (k,), and the targets (A,) that came of them."""

    @classmethod
    def of(cls, start: Run, later: Run, size: int) -> ActionMap:
        """Try actions.

        Args:
            start: The step where an episode begins.
            later: The step with other measurements and another state.
            size: k, numbers of an action.
        """
        offset = start(np.zeros(size))
        fixed = np.abs(later(np.zeros(size)) - offset) <= ROUNDING * np.maximum(1.0, np.abs(offset))
        rng = np.random.default_rng(0)
        drawn = rng.uniform(-1, 1, (3, size))
        tried = tuple((action, run(action)) for action in drawn for run in (start, later))
        if len(offset) != size:
            return cls(offset, fixed, np.zeros_like(offset), np.zeros_like(offset), tried)
        up, down = (_slope(start, offset, sign) for sign in (1.0, -1.0))
        return cls(offset, fixed, up, down, tried)

    def holds(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """(A,) bool, where the rule gives what was tried, within limits (A,)."""
        right = self.fixed & (self.up != 0) & (self.down != 0)
        for action, target in self.tried:
            if len(action) != len(target):
                return np.zeros(len(target), bool)
            moved = self.offset + self.up * np.maximum(action, 0) + self.down * np.minimum(action, 0)
            off = np.abs(np.clip(moved, lower, upper) - np.clip(target, lower, upper))
            right &= off <= ROUNDING * np.maximum(1.0, np.abs(target))
        return right


def _slope(run: Run, offset: np.ndarray, sign: float) -> np.ndarray:
    """(A,) change of each target per unit of the action: over the largest step on which it is what it is at 0."""
    slopes = [sign * (run(np.full(len(offset), sign * step)) - offset) / step for step in STEPS]
    chosen = slopes[-1]
    for slope in reversed(slopes):
        same = np.abs(slope - slopes[-1]) <= DIFFERENT * np.abs(slopes[-1])
        chosen = np.where(same, slope, chosen)
    return np.array([float(f"{value:.{DIGITS}g}") for value in chosen])
