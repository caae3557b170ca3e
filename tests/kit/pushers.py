"""A task file of a team that compiles in a second, with a script: three masses, each pushed to a goal of its own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language, Operator, Team
from embodied.core.hooks import Observation, Timing
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World

AGENTS = 3
FLOOR = -0.4  # m


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Of a team of pushers."""

    goal: Array
    """(3, 3) m."""


class Pushers(Task[State]):
    """Push masses to their goals. Success: they are there. Failure: one is on the floor."""

    language = Language.of("Push the masses to their goals.")
    timing = Timing(physics_dt=0.01, substeps=2, episode_seconds=0.4)
    action_size = 4
    engines = ("mujoco",)

    @functools.cached_property
    def operator(self) -> Operator:
        return Operator(setpoints=("x, N", "y, N", "z, N", "turn, Nm"))

    @functools.cached_property
    def team(self) -> Team:
        return Team(AGENTS)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        return {"near": 1.0}

    def build_spec(self) -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        spec.option.gravity = [0, 0, 0]
        for agent in range(AGENTS):
            body = spec.worldbody.add_body(name=f"mass{agent}")
            body.add_geom(size=[0.05, 0, 0], mass=0.1, contype=0, conaffinity=0)
            for number, axis in enumerate([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]):
                kind = mujoco.mjtJoint.mjJNT_SLIDE if number < 3 else mujoco.mjtJoint.mjJNT_HINGE
                name = f"joint{agent}{number}"
                body.add_joint(name=name, type=kind, axis=axis, damping=0.01)
                spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
        return spec

    def reset(self, key: Array) -> ResetState[State]:
        place, goal = jax.random.uniform(key, (2, AGENTS, 4), minval=-0.3, maxval=0.3)
        return ResetState(place.reshape(-1), jnp.zeros(4 * AGENTS), State(goal[:, :3]))

    def apply_action(self, world: World, state: State, command: Array) -> tuple[Control, State]:
        del world
        return Control(ctrl=command.reshape(-1)), state

    def to_goal(self, world: World, state: State) -> Array:
        """(3, 3) m."""
        return state.goal - world.qpos.reshape(AGENTS, 4)[:, :3]

    def observe(self, world: World, state: State, key: Array) -> Observation:
        """`policy`: to_goal (3) m, speed (4) m/s, rad/s; `critic` also place (4) m, rad."""
        del key
        place, speed = (part.reshape(AGENTS, 4) for part in (world.qpos, world.qvel))
        own = {"to_goal": self.to_goal(world, state), "speed": speed}
        return {"policy": own, "critic": {**own, "place": place}}

    def expert(self, observation: Mapping[str, Array], state: State) -> Array:
        """A spring to the goal, and a damper."""
        del state
        seen = observation["policy"]
        return jnp.clip(seen[:, :4].at[:, 3].set(0.0) - 0.3 * seen[:, 3:], -1.0, 1.0)

    def rewards(self, world: World, state: State, action: Array) -> Mapping[str, Array]:
        del action
        return {"near": jnp.exp(-jnp.linalg.norm(self.to_goal(world, state), axis=1))}

    def outcome(self, world: World, state: State) -> Outcome:
        off = jnp.linalg.norm(self.to_goal(world, state), axis=1)
        return Outcome((off < 0.05).all(), (world.qpos.reshape(AGENTS, 4)[:, 2] < FLOOR).any())


TEAM = f"{__file__}:Pushers"
"""Its name."""
__all__ = ["TEAM", "Pushers"]
