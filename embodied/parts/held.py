"""Held condition: how long something has been so without a break, such as a tip at its goal."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Held:
    """A count of control steps, a field of the task's state."""

    steps: Array
    """() int32 control steps in a row for which the condition has held."""

    @classmethod
    def zero(cls) -> Held:
        """Of an episode that begins."""
        return cls(jnp.zeros((), jnp.int32))

    def after(self, condition: Array) -> Held:
        """After one more control step, in `post_step`; `condition` is () bool."""
        return Held(jnp.where(condition, self.steps + 1, 0))

    def seconds(self, control_dt: float) -> Array:
        """() s for which the condition has held."""
        return self.steps * control_dt
