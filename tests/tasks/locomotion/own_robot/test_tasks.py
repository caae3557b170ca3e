"""Bipeds, getting up and walking to points, with robots that the tests write."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

import embodied
from embodied.errors import EmbodiedError
from tasks.locomotion.g1 import G1Joystick
from tasks.locomotion.own_robot.getup import OwnGetup, OwnGetupConfig, touching
from tasks.locomotion.own_robot.reach import Reach, ReachConfig
from tasks.locomotion.own_robot.velocity import BipedVelocity, BipedVelocityConfig, Velocity, VelocityConfig
from tests.kit.robots import biped, quadruped

pytestmark = pytest.mark.timeout(280)


@pytest.fixture(scope="module")
def two_feet(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("biped") / "b.urdf"
    file.write_text(biped())
    return str(file)


@pytest.fixture(scope="module")
def four_feet(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("quadruped") / "q.urdf"
    file.write_text(quadruped())
    return str(file)


def test_g1_as_a_file_is_g1_to_within_its_ankles_damping() -> None:
    own, same = G1Joystick(), BipedVelocity()
    assert same.robot.joint_names == own.robot.joint_names
    assert same.robot.pose_weights[:12] == own.robot.pose_weights[:12]
    assert same.robot.reach is not None
    assert own.robot.reach is not None
    assert same.robot.reach[:12] == own.robot.reach[:12]
    assert same.effort_scale == pytest.approx(1.0, abs=0.01)
    for name in ("step_rate", "step_height", "feet_apart", "gait_width"):
        assert getattr(same, name) == pytest.approx(getattr(own, name), rel=0.01), name
    np.testing.assert_allclose(same.layout.home, own.layout.home, atol=1e-5)
    np.testing.assert_allclose(same.layout.stance, own.layout.stance, atol=0.01)


def test_a_strangers_biped_runs(two_feet: str) -> None:
    env = embodied.make("locomotion/velocity-biped", 4, engine="mujoco", robot=two_feet)
    env.reset(seed=0)
    for _ in range(5):
        step = env.step(torch.zeros(env.action_shape))
        assert torch.isfinite(step.obs["critic"]).all()
    assert env.observation_terms["policy"]["phase"] == (4,)


def test_each_number_of_feet_has_its_task(two_feet: str, four_feet: str) -> None:
    with pytest.raises(EmbodiedError, match=r"b.urdf stands on 2 feet .*: locomotion/velocity-biped is for it"):
        Velocity(VelocityConfig(robot=two_feet))
    with pytest.raises(EmbodiedError, match=r"q.urdf stands on 4 feet .*: locomotion/velocity is for it"):
        BipedVelocity(BipedVelocityConfig(robot=four_feet))


def test_small_robots_are_told_to_go_slower_unless_asked_otherwise(two_feet: str) -> None:
    task = BipedVelocity(BipedVelocityConfig(robot=two_feet))
    expected = 1.0 * np.sqrt(task.robot.height / 0.7842)
    assert task.config.command.limits[0] == pytest.approx(expected)
    asked = BipedVelocity(BipedVelocityConfig(robot=two_feet, froude=False))
    assert asked.config.command.limits == (1.0, 0.4, 0.8)


def test_getup_falls_from_its_height_and_parts_meet_but_for_those_that_touch_at_home(four_feet: str) -> None:
    task = OwnGetup(OwnGetupConfig(robot=four_feet))
    model = task.model
    robot = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] and model.geom_conaffinity[geom]]
    assert robot
    assert all(model.geom_contype[geom] for geom in robot)
    assert not touching(model)
    assert task.drop == pytest.approx(0.5 * task.robot.height / 0.278)
    stiffness = model.actuator_gainprm[task.layout.actuators, 0]
    np.testing.assert_allclose(task.lead * stiffness, 1.2 * 30.0, rtol=1e-5)


def test_bodies_that_overlap_at_home_do_not_push_each_other(tmp_path: Path) -> None:
    (tmp_path / "q.urdf").write_text(quadruped().replace('radius=".02"', 'radius=".3"'))  # feet as large as the robot
    model = OwnGetup(OwnGetupConfig(robot=str(tmp_path / "q.urdf"))).model
    assert model.nexclude
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_forward(model, data)
    assert all(0 in model.geom_bodyid[contact.geom] for contact in data.contact)


@pytest.fixture(scope="module")
def reach(four_feet: str) -> Reach:
    return Reach(ReachConfig(robot=four_feet, froude=False))


def test_commands_lead_to_the_target(reach: Reach) -> None:
    """A point that moves exactly as told arrives, from any side, and stops there."""
    guide = jax.jit(reach._guide)
    target = jnp.array([3.0, -2.0])
    for yaw in (0.0, 2.0, -2.5):
        place, heading = np.zeros(2), yaw
        for _ in range(600):
            quat = jnp.array([np.cos(heading / 2), 0.0, 0.0, np.sin(heading / 2)])
            command = np.asarray(guide(jnp.array([*place, 0.3]), quat, target))
            assert (np.abs(command) <= np.array(reach.config.command.limits) + 1e-5).all()
            cos, sin = np.cos(heading), np.sin(heading)
            place = place + 0.02 * np.array([cos * command[0] - sin * command[1], sin * command[0] + cos * command[1]])
            heading += 0.02 * command[2]
        assert np.linalg.norm(place - np.asarray(target)) < 0.05


def test_a_reached_target_is_replaced_and_counted(reach: Reach) -> None:
    env = embodied.make("locomotion/reach", 1, engine="mujoco", config=reach.config)
    env.reset(seed=0)
    world = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), env.world())
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), env.task_state)
    there = dataclasses.replace(state, target=world["position"][:2] + 0.1)
    after = reach.post_step(world, there, jnp.zeros(reach.action_size), jax.random.key(0))
    assert float(after.reached) == 1.0
    assert 2.0 <= float(jnp.linalg.norm(after.target - world["position"][:2])) <= 6.0
    assert not np.allclose(after.command, there.command)
    away = reach.post_step(world, state, jnp.zeros(reach.action_size), jax.random.key(0))
    assert float(away.reached) == 0.0
    np.testing.assert_array_equal(away.target, state.target)
