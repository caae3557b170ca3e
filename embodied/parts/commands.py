"""Commands that change: target values of a robot, drawn anew at random times."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@dataclasses.dataclass(frozen=True)
class Commands:
    """Distribution of commands; the task keeps the present one, (n,), in a field of its state, and observes it."""

    low: tuple[float, ...]
    """(n,) smallest values."""
    high: tuple[float, ...]
    """(n,) largest values."""
    keep: float = 1.0
    """Probability that a number is not zero, each by itself."""
    interval: float = 5.0
    """s, mean time between commands (exponentially distributed); inf: one for the whole episode."""

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or any(a > b for a, b in zip(self.low, self.high, strict=True)):
            raise ValueError(f"commands from {self.low} to {self.high}: expected as many numbers, the smaller first")
        if not 0 <= self.keep <= 1 or self.interval <= 0:
            raise ValueError(f"keep={self.keep} must be in [0, 1] and interval={self.interval} s positive")

    def draw(self, key: Array) -> Array:
        """(n,) a command, in `reset`."""
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        values, kept = jnp.unstack(jax.random.uniform(key, (2, len(self.low))))
        drawn = low + values * (high - low)
        return jnp.where(kept < self.keep, drawn, jnp.zeros_like(drawn))

    def renewed(self, command: Array, control_dt: float, key: Array) -> Array:
        """The command after a control step, in `post_step`: the same, or a new one."""
        draw, change = jax.random.split(key)
        return jnp.where(jax.random.uniform(change) < control_dt / self.interval, self.draw(draw), command)
