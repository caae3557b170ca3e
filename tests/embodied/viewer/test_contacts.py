"""Contacts: at rest the forces carry the weight; engines that do not tell forces tell places."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch
from jax import Array

from embodied.core.hooks import Timing
from embodied.core.world import Control, Outcome, World
from embodied.env.env import Env
from embodied.viewer.contacts import ContactReader, contacts_of
from tests.kit.toy_tasks import Speck, TaskState, Toy
from tests.kit.worlds import build_env, toy_world

BLOCK = """<mujoco><worldbody>{first}<body pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1" mass="3"/></body>
{last}</worldbody></mujoco>"""
FLOOR = '<body><geom type="box" size="1 1 .1" pos="0 0 -.1"/></body>'


@pytest.mark.parametrize("order", ["first", "last"])
def test_the_floor_carries_a_block_whichever_of_the_two_comes_first(order: str) -> None:
    xml = BLOCK.format(**{"first": "", "last": "", order: FLOOR})
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    for _ in range(500):
        mujoco.mj_step(model, data)
    found = contacts_of(model, data, forces=True)
    assert found.forces is not None
    np.testing.assert_allclose(found.forces.sum(0), [0.0, 0.0, 3 * 9.81], atol=0.05)
    np.testing.assert_allclose(found.positions[:, 2], 0.0, atol=1e-3)


class Brick(Toy):
    """A block that slides on a floor until it lies."""

    action_size = 1
    timing = Timing(physics_dt=0.002, substeps=10, episode_seconds=10.0)
    xml = (
        BLOCK.format(first=FLOOR, last="")
        .replace('<body pos="0 0 .1">', '<body name="brick" pos="0 0 .1">')
        .replace("</mujoco>", '<sensor><framepos name="position" objtype="xbody" objname="brick"/></sensor></mujoco>')
    )

    @property
    def spread(self) -> Array:
        return jnp.zeros(self.model.nq)

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world, command
        return Control(wrench=jnp.zeros((self.model.nbody, 6))), state

    def outcome(self, world: World, state: TaskState) -> Outcome:
        del world, state
        return Outcome(success=jnp.array(False), failure=jnp.array(False))


def test_each_environment_is_carried_by_its_own_weight() -> None:
    env = build_env(Brick(), "mujoco", 2)
    env.reset(0)
    for _ in range(120):
        env.step(torch.zeros(env.action_shape))
    found = [ContactReader(env).read(number).total_force for number in range(2)]
    weights = [9.81 * float(env.engine.data(number)[0].body_mass[2]) for number in range(2)]  # of this episode's block
    assert abs(weights[0] - weights[1]) > 1.0
    assert found == pytest.approx(weights, rel=0.05)


def test_other_engines_tell_where_and_not_how_hard() -> None:
    env = toy_world(Speck, "rigid", 8)
    env.reset(0)
    found = ContactReader(env).read(0)
    assert found.forces is None
    assert math.isnan(found.total_force)
    model = mujoco.MjModel.from_xml_string(BLOCK.format(first=FLOOR, last=""))
    places = np.array([[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.099, 1.0, 0.0, 0.0, 0.0]])
    told = SimpleNamespace(engine=None, task=SimpleNamespace(model=model), world=lambda: SimpleNamespace(qpos=places))
    reader = ContactReader(cast("Env", told))
    assert reader.read(0).positions.shape == (0, 3)
    np.testing.assert_allclose(reader.read(1).positions.mean(0), [0.5, 0.0, 0.0], atol=2e-3)
