"""Latency: commands that reach the motors less than a control step late."""

from __future__ import annotations

import dataclasses

import jax
from jax import Array

from embodied.core.randomization import Range, Term, require_ranges
from embodied.math.sampling import between


@dataclasses.dataclass(frozen=True)
class Latency:
    """The range of a delay, drawn for every episode, which the task keeps in the field `latency` of its state."""

    low: float = 0.0
    """s."""
    high: float = 0.015
    """s, at most one control step."""
    name: str = "latency"
    """Of the variation, and of the field."""

    def __post_init__(self) -> None:
        require_ranges("Latency", {self.name: (self.low, self.high)})

    def term(self) -> Term:
        """The variation that a task declares."""
        ranges = (Range("delay", self.low, self.high, "s"),)
        return Term(self.name, "targets reach the motors late", state_field=self.name, ranges=ranges)

    def draw(self, key: Array, varied: frozenset[str]) -> Array:
        """() s for an episode; 0 where the task does not vary it."""
        return self.drawn(jax.random.uniform(key), varied)

    def drawn(self, uniform: Array, varied: frozenset[str]) -> Array:
        """The same from a number () in [0, 1) that the task drew."""
        return between((self.low, self.high), uniform) * (self.name in varied)


def delayed(action: Array, last: Array, latency: Array, control_dt: float) -> Array:
    """Mean action at the motors over a control step in which `action` (n,) arrives `latency` () s after `last`.

    With the mean, no task has to act at every physics step.
    """
    return action + latency / control_dt * (last - action)
