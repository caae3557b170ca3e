"""Regions of a task's initial states, such as the one in which a person demonstrates."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from embodied.core.initial_states import InitialStateBuffer, InitialStates, first_reset_states
from embodied.core.task import Task
from embodied.errors import EmbodiedError, listing
from sim2real.failures.failure_map import Features, features_of

CONDITION = re.compile(r"^(?P<name>[^<>\s]+)\s*(?P<sign>[<>])\s*(?P<value>\S+)$")


def inside(features: Features, conditions: Sequence[str]) -> np.ndarray:
    """(K,) bool, which initial states meet all conditions, each `NAME<VALUE` or `NAME>VALUE`.

    Raises:
        EmbodiedError: a condition is not written so, or there is no such feature; lists what there is.
    """
    result = np.ones(len(features.values), bool)
    for condition in conditions:
        found = CONDITION.match(condition)
        if found is None or found["name"] not in features.names:
            raise EmbodiedError(
                f"--region {condition!r}: expected NAME<VALUE or NAME>VALUE of {listing(features.names)}"
            )
        column = features.values[:, features.names.index(found["name"])]
        try:
            value = float(found["value"])
        except ValueError:
            raise EmbodiedError(f"--region {condition!r}: {found['value']!r} is no number") from None
        result &= column < value if found["sign"] == "<" else column > value
    return result


@dataclasses.dataclass(frozen=True)
class Split:
    """A task's initial states, in a region and out of it."""

    task: Task[Any]
    drawn: InitialStateBuffer
    """Of the whole range."""
    within: np.ndarray
    """(K,) bool, which of them lie in the region."""

    @property
    def inside(self) -> InitialStateBuffer:
        """Those in the region."""
        return self.drawn.take(np.flatnonzero(self.within))

    @property
    def halves(self) -> InitialStateBuffer:
        """All, so weighted that half of the draws lie in the region."""
        share = np.where(self.within, 1 / self.within.sum(), 1 / (~self.within).sum())
        return InitialStateBuffer(self.drawn.reset_states, share)

    def first_within(self, conditions: Sequence[str], seed: int, count: int) -> np.ndarray:
        """(count,) bool, which environments begin in the region after `Env.reset(seed)`, drawn from `halves` alone."""
        first = first_reset_states(InitialStates(self.task, self.halves, 1.0), seed, count)
        return inside(features_of(first, self.task.model), conditions)


def split(task: Task[Any], conditions: Sequence[str], seed: int, count: int) -> Split:
    """Initial states in a region and out of it, of `count` that a task draws.

    Raises:
        EmbodiedError: as `inside`, or none lies in the region, or none out of it.
    """
    drawn = first_reset_states(task, seed, count)
    within = inside(features_of(drawn, task.model), conditions)
    if within.all() or not within.any():
        raise EmbodiedError(
            f"--region {' '.join(conditions)}: {int(within.sum())} of {count} initial states lie in it; expected some "
            "in it and some out of it"
        )
    return Split(task, InitialStateBuffer(drawn, np.ones(count)), within)
