"""Draws of an episode: start and goal of an object or a fixture. Bounded, pure in the key.

Meta-World draws again until object and goal are far enough apart, which may take for ever. Here a fixed number of
candidates is drawn at once and the first valid one taken, which has exactly the same distribution; should none be valid
(once in 10^11 draws or less), a pair of corners that is known to be valid stands in.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.randomization import Range

Point: TypeAlias = tuple[float, float, float]

CANDIDATES = 64  # drawn at once; Meta-World's ranges reject two in three at most (box-close)


@dataclasses.dataclass(frozen=True)
class Box:
    """A range of positions, m, world frame; an axis without extent is not drawn."""

    low: Point
    high: Point

    def __post_init__(self) -> None:
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"low={self.low} must not exceed high={self.high}")

    @property
    def corners(self) -> np.ndarray:
        """(8, 3) m."""
        return np.array(list(itertools.product(*zip(self.low, self.high, strict=True))))

    def ranges(self, what: str) -> tuple[Range, ...]:
        """Range of each axis along which `what` is drawn."""
        axes = zip("xyz", self.low, self.high, strict=True)
        return tuple(Range(f"{what} {axis}", low, high, "m") for axis, low, high in axes if low < high)

    def at(self, uniform: Array) -> Array:
        """The position (..., 3) m at fractions (..., 3) in [0, 1) of the extent."""
        low, high = (jnp.asarray(end, jnp.float32) for end in (self.low, self.high))
        return jnp.minimum(low + uniform * (high - low), high)


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Ranges of the object's (or the fixture's) start, and of the goal, if it is drawn."""

    start: Box
    goal: Box | None = None
    apart: float = 0.0
    """m between start and goal along the table (x and y), at least."""

    def __post_init__(self) -> None:
        if self.apart and np.linalg.norm((self._fallback[0] - self._fallback[1])[:2]) < self.apart:
            raise ValueError(f"apart={self.apart} m: no start and goal are as far from each other")

    @property
    def _fallback(self) -> tuple[np.ndarray, np.ndarray]:
        """The corners that are farthest from each other along the table."""
        pairs = itertools.product(self.start.corners, (self.goal or self.start).corners)
        return max(pairs, key=lambda pair: float(np.linalg.norm((pair[0] - pair[1])[:2])))

    def draw(self, key: Array) -> tuple[Array, Array]:
        """Start and goal, each (3) m, at least `apart` from each other; without a goal the start twice."""
        if self.goal is None:
            start = self.start.at(jax.random.uniform(key, (3,)))
            return start, start
        uniform = jax.random.uniform(key, (CANDIDATES if self.apart else 1, 6))
        starts, goals = self.start.at(uniform[:, :3]), self.goal.at(uniform[:, 3:])
        if not self.apart:
            return starts[0], goals[0]
        valid = jnp.sum(jnp.square((starts - goals)[:, :2]), -1) >= self.apart**2
        chosen, found = jnp.argmax(valid), jnp.any(valid)
        corners = [jnp.asarray(corner, jnp.float32) for corner in self._fallback]
        return jnp.where(found, starts[chosen], corners[0]), jnp.where(found, goals[chosen], corners[1])


def scattered(key: Array, box: Box, count: int, apart: float) -> Array:
    """Positions (count, 3) m in a box, at least `apart` m from one another along the table.

    Should no candidate be valid, they stand in a row from the box's left to its right.

    Raises:
        ValueError: there is no such row.
    """
    middle = [(low + high) / 2 for low, high in zip(box.low, box.high, strict=True)]
    row = np.array([[x, *middle[1:]] for x in np.linspace(box.low[0], box.high[0], count)], np.float32)
    step = (box.high[0] - box.low[0]) / max(count - 1, 1)
    if count > 1 and step < apart:
        raise ValueError(f"apart={apart} m: in a row, {count} positions are {step:g} m apart in this box")
    points = box.at(jax.random.uniform(key, (CANDIDATES, count, 3)))
    offsets = (points[:, :, None] - points[:, None])[..., :2]
    far = jnp.sum(jnp.square(offsets), -1) >= apart**2
    valid = jnp.all(far | jnp.eye(count, dtype=bool), (1, 2))
    return jnp.where(jnp.any(valid), points[jnp.argmax(valid)], row)
