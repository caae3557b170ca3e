"""Mocap bodies stand where the start says, from the first observation on, and what hangs on them goes along."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import Array

from embodied.core.hooks import Timing
from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from tests.kit.budget import sharing
from tests.kit.physics import held, readings
from tests.kit.toy_tasks import Ball, TaskState
from tests.kit.worlds import build_env

pytestmark = pytest.mark.timeout(280)

SPEED = 2.0  # rad/s of the hinge
DOOR = """
<mujoco>
  <worldbody>
    <body name="frame" mocap="true">
      <body name="leaf" pos="0 0 .1">
        <joint name="hinge" axis="0 0 1"/>
        <geom size=".05" pos=".2 0 0" mass="1"/>
        <site name="handle" pos=".2 0 0"/>
      </body>
    </body>
  </worldbody>
  <sensor><framepos name="position" objtype="site" objname="handle"/></sensor>
</mujoco>
"""


class Door(Ball):
    """A leaf that turns by itself, on a frame that stands elsewhere in every episode: at x = `TaskState.spin`."""

    timing = Timing(0.002, 4, 1.0)
    applies_every_substep = False
    xml = DOOR

    def reset(self, key: Array) -> ResetState[TaskState]:
        zero = jnp.zeros((), jnp.int32)
        state = TaskState(life=zero + 1000, age=zero, spin=jax.random.uniform(key), level=zero)
        return ResetState(jnp.zeros(1), jnp.full(1, SPEED), state, mocap_pos=self.frame(state))

    def frame(self, state: TaskState) -> Array:
        return jnp.zeros((1, 3)).at[0, 0].set(state.spin)

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del world, action, key
        return state

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world, command
        return Control(mocap_pos=self.frame(state)), state


def begun(task: Door) -> ResetState[TaskState]:
    """Three starts, the frame of each elsewhere."""
    starts = jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.PRNGKey(0), 3))
    assert len(np.unique(starts.task_state.spin)) == 3
    return starts


@pytest.mark.parametrize("engine", ["mujoco", "pybullet", pytest.param("mjx-jax", marks=pytest.mark.slow)])
def test_a_hinged_child_goes_along_with_its_mocap_body(engine: str) -> None:
    """Brax and Warp do so in programs that other tests compile: `test_overflow.py`, `brax/test_engine.py`."""
    task = Door()
    starts = begun(task)
    place, turned = np.asarray(starts.task_state.spin), 0.0
    controls = held(mocap_pos=np.tile(np.asarray(starts.mocap_pos), (2, 1, 1, 1)))
    for world in readings(task, engine, starts, controls, task.timing.substeps):
        expected = np.stack([place + 0.2 * np.cos(turned), np.full(3, 0.2 * np.sin(turned)), np.full(3, 0.1)], axis=1)
        np.testing.assert_allclose(np.asarray(world["position"]), expected, atol=1e-5)
        assert np.asarray(world.qpos) == pytest.approx(turned, abs=1e-5)
        turned += SPEED * task.timing.control_dt


def test_a_hinged_child_begins_where_the_start_has_its_mocap_body() -> None:
    task = Door()
    starts = begun(task)
    with sharing("starts of a door on brax"):
        engine: Any = make_engine("brax", task, 3)
        world = jax.jit(jax.vmap(lambda start: engine.world(engine.start(start))))(starts)
    np.testing.assert_allclose(world["position"][:, 0], starts.task_state.spin + 0.2, atol=1e-5)


def test_an_episode_s_mocap_bodies_stand_where_its_start_says() -> None:
    """Also those of an episode that follows, among others that go on."""
    env = build_env(Door(), "mujoco", 3)
    env.reset(0)
    env.episode_length = torch.tensor([0, env.max_episode_steps - 1, 0])
    for turned in (0.0, SPEED * env.control_dt):
        place = np.asarray(env.task_state.spin)
        assert len(np.unique(place)) == 3
        angle = np.where(np.asarray(env.episode.steps) > 0, turned, 0.0)
        np.testing.assert_allclose(np.asarray(env.world()["position"])[:, 0], place + 0.2 * np.cos(angle), atol=1e-5)
        env.step(torch.zeros(env.action_shape))
