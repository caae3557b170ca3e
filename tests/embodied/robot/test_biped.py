"""A stranger's biped: what its joints are for, and servo targets that balance it."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import Robot
from embodied.robot.prepared.legged import SOFT, LeggedModel, legged_model
from embodied.robot.prepared.roles import Role, roles
from tests.kit.robots import biped, quadruped

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    file = tmp_path_factory.mktemp("biped") / "biped.urdf"
    file.write_text(biped())
    return Robot.load(file)


@pytest.fixture(scope="module")
def prepared(robot: Robot) -> LeggedModel:
    return legged_model(robot)


def test_every_joint_has_the_role_that_its_name_says(robot: Robot) -> None:
    expected = {
        "waist_yaw": Role.TRUNK_YAW,
        "hip_roll": Role.LEG,
        "hip_pitch": Role.HIP,
        "knee": Role.KNEE,
        "ankle_pitch": Role.ANKLE_PITCH,
        "ankle_roll": Role.ANKLE,
        "shoulder": Role.ARM_PITCH,
        "elbow": Role.ARM,
    }
    for joint, role in zip(robot.joints, roles(robot), strict=True):
        assert role is expected[joint.name.removeprefix("left_").removeprefix("right_")], joint.name


def test_quadrupeds_bend_their_knees_and_have_no_ankles(load: Callable[..., Robot]) -> None:
    assert set(roles(load(quadruped()))) == {Role.HIP, Role.KNEE}


def test_the_home_pose_is_in_balance(robot: Robot, prepared: LeggedModel) -> None:
    """At rest on a floor nothing accelerates at first, though it would fall in the end."""
    spec = prepared.spec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    while data.time < 0.2:
        mujoco.mj_step(model, data)
    assert data.sensor("upvector").data[2] > 0.995
    np.testing.assert_allclose(data.qpos[7:], model.key("home").qpos[7:], atol=0.05)
    touch = sum(float(data.sensor(f"{foot}_touch").data[0]) for foot in prepared.feet)
    assert touch == pytest.approx(9.81 * robot.mass, rel=0.25)


def test_soles_are_level_and_on_the_ground(prepared: LeggedModel) -> None:
    model = prepared.spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    for foot in prepared.feet:
        np.testing.assert_allclose(data.sensor(f"{foot}_upvector").data, [0, 0, 1], atol=1e-6)
        assert data.sensor(f"{foot}_pos").data[2] == pytest.approx(prepared.foot_radius, abs=1e-3)
    assert prepared.feet_apart == pytest.approx(0.2, abs=0.03)


def test_ankles_are_too_soft_to_stand_on_alone(robot: Robot, prepared: LeggedModel) -> None:
    model = prepared.spec().compile()
    most = SOFT * robot.mass * 9.81 * robot.height
    for joint, role in zip(robot.joints, prepared.roles, strict=True):
        stiffness = model.actuator(joint.name).gainprm[0]
        soft = role in (Role.ANKLE, Role.ANKLE_PITCH)
        assert stiffness == pytest.approx(min(joint.servo.kp, most) if soft else joint.servo.kp, rel=1e-4)


def test_a_biped_too_weak_to_stand_names_the_joint(load: Callable[..., Robot]) -> None:
    with pytest.raises(EmbodiedError, match="to stand, left_knee must give all of its 2 N m or more; say another home"):
        legged_model(load(biped(), 'effort = { "*knee" = 2 }'))
