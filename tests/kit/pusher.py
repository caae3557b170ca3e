"""A task file that compiles in a second, with cameras and a script: a mass on a rail is pushed to a goal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation, Timing
from embodied.core.task import Task
from embodied.core.world import Outcome, ResetState, World

XML = """
<mujoco>
  <worldbody>
    <light pos="0 -1 3"/>
    <camera name="view" pos="0 -3 1" xyaxes="1 0 0 0 .3 .9"/>
    <camera name="wrist" pos="0 0 3"/>
    <geom type="plane" size="2 2 .1" rgba=".3 .5 .3 1" contype="0" conaffinity="0"/>
    <body name="mass" pos="0 0 .1">
      <joint name="mass" type="slide" axis="1 0 0"/>
      <geom size=".1" mass="1" rgba=".9 .2 .2 1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="mass" name="motor"/></actuator>
</mujoco>
"""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Of a pusher."""

    goal: Array
    """() m along the rail."""


class Pusher(Task[State]):
    """Push a mass to a goal. Success: it is there. Failure: it is far away."""

    language = Language.of("Push the mass to the goal.")
    timing = Timing(physics_dt=0.01, substeps=2, episode_seconds=0.4)
    action_size = 1
    engines = ("mujoco",)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        return {"near": 1.0}

    def build_spec(self) -> mujoco.MjSpec:
        return mujoco.MjSpec.from_string(XML)

    def reset(self, key: Array) -> ResetState[State]:
        place, goal = jax.random.uniform(key, (2,), minval=-1.0)
        return ResetState(place[None], jnp.zeros(1), State(goal))

    def observe(self, world: World, state: State, key: Array) -> Observation:
        """`policy`: place (1) m, speed (1) m/s, to_goal (1) m; `proprio` without the goal."""
        del key
        own = {"place": world.qpos, "speed": world.qvel}
        return {"policy": {**own, "to_goal": state.goal - world.qpos}, "proprio": own}

    def expert(self, observation: Mapping[str, Array], state: State) -> Array:
        """A spring to the goal, and a damper."""
        del state
        _, speed, to_goal = observation["policy"]
        return jnp.clip(to_goal - speed, -1.0, 1.0)[None]

    def rewards(self, world: World, state: State, action: Array) -> Mapping[str, Array]:
        del action
        return {"near": jnp.exp(-jnp.abs(world.qpos[0] - state.goal))}

    def outcome(self, world: World, state: State) -> Outcome:
        return Outcome(jnp.abs(world.qpos[0] - state.goal) < 0.1, jnp.abs(world.qpos[0]) > 5.0)


__all__ = ["Pusher"]
