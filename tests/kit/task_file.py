"""The file of a small task of one's own, as a string, sound or with a fault; and trainings of it that take a second."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from embodied.env.registry import join_content

SOUND = '''"""A mass on a rail is pushed to the middle."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import TaskConfig, Timing
from embodied.core.randomization import Range, Term
from embodied.core.task import Task
from embodied.core.world import Outcome, ResetState


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    goal: Array
    steps: Array
    start: Array


class Sound(Task[State]):
    """Push a mass to a goal. Success: it is there. Failure: it is far away."""

    language = Language.of("Push the mass to the goal.")
    timing = Timing(physics_dt=0.01, substeps=2, episode_seconds=1.0)
    action_size = 1
    engines = ("mujoco",)
    reward_weights = {"near": 1.0}

    def build_spec(self):
        spec = mujoco.MjSpec()
        mass = spec.worldbody.add_body(name="mass")
        mass.add_joint(name="rail", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0])
        mass.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.1, 0, 0], mass=1.0)
        spec.worldbody.add_camera(name="track", pos=[0, -3, 1])
        spec.add_actuator(name="motor", trntype=mujoco.mjtTrn.mjTRN_JOINT, target="rail")
        return spec

    def reset(self, key):
        place, goal = jax.random.uniform(key, (2,), minval=-1.0)
        return ResetState(place[None], jnp.zeros(1), State(goal, jnp.zeros((), jnp.int32), place))

    def post_step(self, world, state, action, key):
        return dataclasses.replace(state, steps=state.steps + 1)

    def observe(self, world, state, key):
        """`policy`: place (1) m, speed (1) m/s, to_goal (1) m."""
        return {"policy": {"place": world.qpos, "speed": world.qvel, "to_goal": state.goal - world.qpos}}

    def rewards(self, world, state, action):
        return {"near": jnp.exp(-jnp.abs(world.qpos[0] - state.goal))}

    def outcome(self, world, state):
        return Outcome(jnp.abs(world.qpos[0] - state.goal) < 0.1, jnp.abs(world.qpos[0]) > 5.0)
'''

QUICK = ("--num-envs", "8", "--ppo.unroll", "8", "--ppo.minibatches", "2", "--ppo.epochs", "1")
STEP = 8 * 8  # environment steps per iteration
TRAINED = (*QUICK, "--evaluate-episodes", "0", "--steps", str(STEP))
"""One iteration, not evaluated."""

WITH_EXPERT = (
    SOUND
    + """
    def expert(self, observation, state):
        return jnp.sign(observation["policy"][2:])
"""
)
"""It comes in time where the goal is near enough."""

WITH_OPTION = (
    SOUND
    + '''

@dataclasses.dataclass(frozen=True)
class Options(TaskConfig):
    """Options of the mass."""

    stiff: bool = False
    """Whether it stands at once."""


class Optional(Sound):
    """Push a mass to a goal, with an option."""

    config_type = Options
'''
)
BALL = '''"""A toy on the engine that is one program of JAX's."""

from tests.kit.toy_tasks import Speck


class Ball(Speck):
    """Move a ball. Success: it is ahead. Failure: its time is up."""

    engines = ("rigid",)

    def push(self, command):
        return super().push(0.5 * command)  # whoever explores must not make it explode
'''


def mass(folder: Path) -> str:
    """Write the mass's file; returns the task's name, which is its path."""
    (folder / "mass.py").write_text(SOUND)
    return str(folder / "mass.py")


@contextlib.contextmanager
def registered(file: Path, **names: str) -> Iterator[None]:
    """Register classes of a file, such as `mass="Sound"`, as tasks of the family `toys`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in names.items():
            entry = dataclasses.replace(join_content()[f"{file}:{kind}"], name=f"toys/{name}")
            patch.setitem(join_content()._tasks, entry.name, entry)
        yield
