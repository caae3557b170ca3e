"""Action history: the last action and its change, to observe and to reward."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ActionHistory:
    """The last action, a field of the task's state."""

    last: Array
    """(n,) the last action; zero when an episode begins."""
    change: Array
    """(n,) the last action minus the one before."""

    @classmethod
    def zeros(cls, size: int) -> ActionHistory:
        """Of an episode that begins, for actions of `size` numbers."""
        return cls(jnp.zeros(size), jnp.zeros(size))

    def after(self, action: Array) -> ActionHistory:
        """With one more action (n,): in `process_action`, or in `post_step`."""
        return ActionHistory(action, action - self.last)
