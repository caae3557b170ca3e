"""More contacts than an engine has room for are an error that says what to do, never a line on the terminal."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied.core.hooks import Timing
from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.errors import SimulationError
from tests.kit.budget import sharing
from tests.kit.toy_tasks import Ball, TaskState
from tests.kit.worlds import build_env

pytestmark = pytest.mark.timeout(280)

SPHERES = 4
BODY = "<body pos='{x} 0 .09'><freejoint/><geom size='.1' mass='1' contype='0' conaffinity='1'/></body>"
CROWD = """
<mujoco>
  {room}
  <worldbody>
    <geom type="plane" size="0 0 1" contype="1" conaffinity="0"/>
    {bodies}
    <body name="frame" mocap="true" pos="0 0 5"><site name="mark" pos=".2 0 0"/></body>
  </worldbody>
  <sensor>
    <framepos name="mark" objtype="site" objname="mark"/>
    <framepos name="position" objtype="body" objname="first"/>
  </sensor>
</mujoco>
"""


class Crowd(Ball):
    """Spheres that all touch the floor, in a model with too little room for them, or enough."""

    timing = Timing(0.002, 2, 1.0)
    applies_every_substep = False

    def __init__(self, room: str) -> None:
        super().__init__()
        self.room = room

    def build_spec(self) -> mujoco.MjSpec:
        bodies = "".join(BODY.format(x=0.5 * i) for i in range(SPHERES)).replace("<body", "<body name='first'", 1)
        return mujoco.MjSpec.from_string(CROWD.format(room=self.room, bodies=bodies))

    def reset(self, key: jax.Array) -> ResetState[TaskState]:
        zero = jnp.zeros((), jnp.int32)
        state = TaskState(life=zero + 1000, age=zero, spin=jax.random.uniform(key), level=zero)
        place, qpos = jnp.full((1, 3), state.spin), jnp.asarray(self.model.qpos0, jnp.float32)
        return ResetState(qpos, jnp.zeros(self.model.nv), state, mocap_pos=place)


ROOM = "<custom><numeric name='max_contacts' data='{}'/></custom>"


def crowded(room: str) -> Env:
    """Environments on C MuJoCo after three steps."""
    with sharing("crowd on mujoco"):
        env = build_env(Crowd(room), "mujoco", 2)
        env.reset()
        for _ in range(3):
            env.step(torch.zeros(2, 3))
    return env


def test_too_little_room_is_an_error_and_enough_is_not() -> None:
    with pytest.raises(SimulationError, match=r"overflowed the engine.s buffers \d+ times; give the model more room"):
        crowded("<size memory='3K'/>").statistics()
    assert crowded("<size memory='1M'/>").statistics()["diverged"] == 0


@pytest.mark.parametrize("room", [1, pytest.param(SPHERES, marks=pytest.mark.slow)])
def test_warp_knows_when_its_room_was_too_little(room: int) -> None:
    """And has mocap bodies where a start and a control say, with what hangs on them."""
    task, places = Crowd(ROOM.format(room)), np.array([[[1.0, 2.0, 6.0]], [[3.0, 4.0, 7.0]]], np.float32)
    with sharing("imports of mjx-warp"):
        engine: Any = make_engine("mjx", task, 2, impl="warp")

    def moved(start: ResetState[TaskState], place: jax.Array) -> tuple[jax.Array, World, World]:
        begun = engine.start(start)
        physics = engine.step(begun, Control(mocap_pos=place), 2)
        return engine.overflow(physics), engine.world(begun), engine.world(physics)

    starts = jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.key(0), 2))
    with sharing("crowd on mjx-warp"):
        overflow, begun, world = jax.tree.map(np.asarray, jax.jit(jax.vmap(moved))(starts, places))
    assert bool(overflow.any()) == (room < SPHERES)
    aside = np.array([0.2, 0, 0])
    np.testing.assert_allclose(begun["mark"], np.asarray(starts.mocap_pos)[:, 0] + aside, atol=1e-5)
    np.testing.assert_allclose(world["mark"], places[:, 0] + aside, atol=1e-5)
