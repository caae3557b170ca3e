"""Contacts: at rest the forces carry the weight; engines that do not tell forces tell places."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

import embodied
from embodied.env.steering import steered
from embodied.viewer.contacts import ContactReader, contacts_of

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


def test_a_robot_that_stands_is_carried_by_its_feet() -> None:
    env = embodied.make("locomotion/go1-joystick-flat", 2, "mujoco", wrappers=[steered])
    env.reset(0)
    reader, carried = ContactReader(env), []
    for number in range(100):
        env.step(torch.zeros(env.action_shape))
        if number >= 60:
            carried.append(reader.read(1).total_force)
    weight = 9.81 * float(env.engine.data(1)[0].body_subtreemass[0])  # of this episode's robot
    assert np.mean(carried) == pytest.approx(weight, rel=0.15)
    assert reader.read(0).positions.shape[0] >= 2


def test_other_engines_tell_where_and_not_how_hard() -> None:
    env = embodied.make("locomotion/hopper", 1, "brax", wrappers=[steered])
    env.reset(0)
    found = ContactReader(env).read(0)
    assert found.forces is None
    assert math.isnan(found.total_force)
