"""More contacts than an engine has room for are an error that says what to do, never a line on the terminal."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import pytest
import torch

from embodied.core.hooks import Timing
from embodied.core.world import ResetState
from embodied.errors import SimulationError
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
  </worldbody>
  <sensor><framepos name="position" objtype="body" objname="first"/></sensor>
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
        return ResetState(jnp.asarray(self.model.qpos0, jnp.float32), jnp.zeros(self.model.nv), state)


ROOM = "<custom><numeric name='max_contacts' data='{}'/></custom>"


@pytest.mark.parametrize(
    ("engine", "little", "enough"),
    [("mujoco", "<size memory='3K'/>", "<size memory='1M'/>"), ("mjx-warp", ROOM.format(1), ROOM.format(SPHERES))],
)
def test_too_little_room_is_an_error_and_enough_is_not(engine: str, little: str, enough: str) -> None:
    cramped = build_env(Crowd(little), engine, 2)
    cramped.reset()
    for _ in range(3):
        cramped.step(torch.zeros(2, 3))
    with pytest.raises(SimulationError, match=r"overflowed the engine.s buffers \d+ times; give the model more room"):
        cramped.statistics()

    roomy = build_env(Crowd(enough), engine, 2)
    roomy.reset()
    for _ in range(3):
        roomy.step(torch.zeros(2, 3))
    assert roomy.statistics()["diverged"] == 0
