"""A user's arm, as tasks get it: it holds its home pose, its sensors mean what they say, its gripper is found."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import NAME, Robot
from embodied.robot.prepared.arm import ArmModel, arm_model
from embodied.storage.paths import asset
from tests.kit.robots import LINK, SHAPE, arm, fingers, joint, quadruped, six_axes

pytestmark = pytest.mark.timeout(120)


def prepared(folder: Path, urdf: str, said: str = "") -> tuple[Robot, ArmModel]:
    (folder / "arm.urdf").write_text(urdf)
    if said:
        (folder / NAME).write_text(said)
    robot = Robot.load(folder / "arm.urdf")
    return robot, arm_model(robot)


def at_home(arm: ArmModel) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(arm.xml)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    return model, data


def test_an_arm_holds_its_home_pose_by_its_motors(tmp_path: Path) -> None:
    _, arm = prepared(tmp_path, six_axes())
    model, data = at_home(arm)
    begin = data.qpos.copy()
    while data.time < 2.0:
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, begin, atol=1e-3)
    weights = [data.sensor(f"{name}_torque").data[0] for name in arm.joint_names]
    np.testing.assert_allclose(weights, data.qfrc_bias, atol=0.05)
    assert np.abs(weights).max() > 5.0  # N m


def test_it_is_bent_with_its_tip_ahead_and_below_its_elbow(tmp_path: Path) -> None:
    robot, arm = prepared(tmp_path, six_axes())
    _, data = at_home(arm)
    tip, elbow = data.site("tcp").xpos, data.joint("j3").xanchor
    assert tip[0] > 0.25
    assert abs(tip[1]) < 0.02
    assert 0.1 < tip[2] < elbow[2]
    assert data.site("tcp").xmat.reshape(3, 3)[2, 2] < -0.5
    assert not robot.warnings


def test_a_weak_arm_is_refused_with_what_mends_it(tmp_path: Path) -> None:
    with pytest.raises(EmbodiedError, match=r"its servos do not hold it: after 0.5 s 'j\d' is .* larger kp or effort"):
        prepared(tmp_path, six_axes(effort="2"))


def test_what_is_no_arm_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(EmbodiedError, match=r"arm.urdf is understood as a legged robot; expected an arm"):
        prepared(tmp_path, quadruped())


@pytest.mark.parametrize("mimic", [False, True], ids=["two motors", "one motor and a mimic"])
def test_the_middle_between_two_fingers_is_found(tmp_path: Path, mimic: bool) -> None:
    robot, arm = prepared(tmp_path, six_axes(fingers(mimic=mimic)))
    assert robot.tip == "link6"
    assert arm.joint_names == tuple(f"j{index}" for index in range(1, 7))
    gripper = arm.gripper
    assert gripper is not None
    assert gripper.joints == (("fa",) if mimic else ("fa", "fb"))
    assert gripper.sides == ("finger_a", "finger_b")
    assert gripper.open == (0.04,) * len(gripper.joints)
    np.testing.assert_allclose(gripper.tcp, [0, 0, 0.1], atol=1e-6)  # 1 cm behind the fingertips
    np.testing.assert_allclose(gripper.axes, np.eye(3), atol=1e-9)
    model, data = at_home(arm)
    opening = data.body("finger_a").xpos - data.body("finger_b").xpos
    assert np.linalg.norm(opening) == pytest.approx(0.09, abs=1e-6)
    middle = (data.body("finger_a").xpos + data.body("finger_b").xpos) / 2
    np.testing.assert_allclose(
        np.cross(data.site("tcp").xpos - middle, data.site("tcp").xmat.reshape(3, 3)[:, 2]), 0, atol=1e-6
    )
    assert {model.sensor(index).name for index in range(model.nsensor)} >= {"tcp_pos", "hand_pos", "j1_torque"}


def test_one_jaw_closes_on_a_fixed_one(tmp_path: Path) -> None:
    jaw = LINK.format(name="moving", mass=0.05, shape=SHAPE.format(at="0 0 .04", kind='<box size=".02 .01 .08"/>'))
    stator = (
        '<link name="stator"><collision><origin xyz="0 -.02 .04"/><geometry><box size=".02 .01 .08"/></geometry>'
        '</collision></link><joint name="fixed" type="fixed"><parent link="link6"/><child link="stator"/></joint>'
    )
    turn = joint("gripper", "stator", "moving", at="0 .02 0", axis="1 0 0", low="-.8", high=".2", effort="5")
    robot, arm = prepared(tmp_path, six_axes(stator + jaw + turn))
    assert robot.tip == "stator"
    assert arm.gripper is not None
    assert arm.gripper.joints == ("gripper",)
    assert arm.gripper.open == (-0.8,)
    assert arm.joint_names == tuple(f"j{index}" for index in range(1, 7))


def test_the_pandas_own_numbers_are_found() -> None:
    """Against what `panda.xml` states: the tcp 103.4 mm along the hand, fingers along y, 3000 N m/rad in joint 1."""
    file = asset("robots/panda/panda.xml")
    arm = arm_model(Robot.load(file))
    assert arm.gripper is not None
    np.testing.assert_allclose(arm.gripper.tcp, [0, 0, 0.1034], atol=0.003)
    np.testing.assert_allclose(arm.gripper.axes, np.eye(3), atol=1e-9)
    original = mujoco.MjModel.from_xml_path(str(file))
    model, _ = at_home(arm)
    for name in arm.joint_names:
        np.testing.assert_allclose(model.actuator(name).gainprm, original.actuator(name).gainprm)
        np.testing.assert_allclose(model.actuator(name).forcerange, original.actuator(name).forcerange)
    assert model.body("link0").pos[2] == pytest.approx(0.0, abs=1e-6)


def test_the_arm_meets_the_world_and_not_itself(tmp_path: Path) -> None:
    _, arm = prepared(tmp_path, six_axes(fingers()))
    model, _ = at_home(arm)
    assert not model.geom_contype.any()
    assert model.geom_conaffinity.sum() >= 8


def test_speeds_are_the_files_and_no_more_than_tasks_ask(tmp_path: Path) -> None:
    _, arm = prepared(tmp_path, six_axes().replace('velocity="10"', 'velocity="1.5"', 1))
    np.testing.assert_allclose(arm.speeds, [1.5, 2, 2, 2, 2, 2])


def test_a_joint_without_a_motor_on_the_way_to_the_tip_is_refused(tmp_path: Path) -> None:
    copied = six_axes().replace("</joint>", '<mimic joint="j1"/></joint>', 2).replace('<mimic joint="j1"/>', "", 1)
    with pytest.raises(EmbodiedError, match=r"joint 'j2' lies between base and tip and has no motor; fix it"):
        prepared(tmp_path, copied)


def test_plain_arms_without_a_hand_have_no_gripper(tmp_path: Path) -> None:
    _, made = prepared(tmp_path, arm(joints=5))
    assert made.gripper is None
