"""A task file that compiles in a second, with cameras, a group `proprio` and a script: the speck is pushed home."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array

from embodied.core.hooks import Observation
from embodied.core.world import World
from tests.kit.toy_tasks import Speck, TaskState

EYES = '<camera name="view" pos="0 -3 1" xyaxes="1 0 0 0 .3 .9"/><camera name="wrist" pos="0 0 3"/>'


class Pusher(Speck):
    """Push a ball. Success: it is ahead. Failure: its time is up."""

    engines = ("mujoco",)
    xml = Speck.xml.replace("<worldbody>", f"<worldbody><light pos='0 -1 3'/>{EYES}")

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        return {**super().observe(world, state, key), "proprio": {"position": world["position"]}}

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """A spring."""
        del state
        return jnp.clip(-observation["policy"][:3], -0.5, 0.5)


__all__ = ["Pusher"]
