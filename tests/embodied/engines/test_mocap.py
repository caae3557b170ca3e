"""Mocap bodies stand where the start says, from the first observation on, and what hangs on them goes along."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import Array

from embodied.core.hooks import Timing
from embodied.core.world import Control, ResetState, World
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


@pytest.mark.parametrize(
    "engine", ["mujoco", pytest.param("mjx-jax", marks=pytest.mark.slow), "mjx-warp", "pybullet", "brax"]
)
def test_a_hinged_child_goes_along_with_its_mocap_body(engine: str) -> None:
    env = build_env(Door(), engine, 3)
    env.reset(0)
    turned = 0.0
    for _ in range(3):
        world, place = env.world(), np.asarray(env.task_state.spin)
        assert len(np.unique(place)) == 3
        expected = np.stack([place + 0.2 * np.cos(turned), np.full(3, 0.2 * np.sin(turned)), np.full(3, 0.1)], axis=1)
        np.testing.assert_allclose(np.asarray(world["position"]), expected, atol=1e-5)
        assert np.asarray(world.qpos) == pytest.approx(turned, abs=1e-5)
        env.step(torch.zeros(env.action_shape))
        turned += SPEED * env.control_dt
