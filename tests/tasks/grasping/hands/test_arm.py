"""The hand on the arm: where its palm is, and what the arm reaches."""

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec
from embodied.math.rotations import quat_angle
from tasks.grasping.hands.arm import STARTS, add_palm_sensors, arm_scene, follow, inverse_kinematics, palm_frame
from tasks.grasping.hands.hand import PALM_DOWN
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.manipulation.common import panda

LEAP = hand_named("leap")


@pytest.fixture(scope="module", params=HANDS)
def on_arm(request):
    spec = arm_scene(hand_named(request.param))
    add_palm_sensors(spec)
    return hand_named(request.param), compile_spec(spec)


def sensed(model: mujoco.MjModel, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    data = mujoco.MjData(model)
    for name, value in zip(panda.ARM_JOINTS, joints, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    return data.sensor("palm_pos").data.copy(), data.sensor("palm_quat").data.copy()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_palm_is_where_the_model_has_it(on_arm, seed):
    hand, model = on_arm
    low, high = panda.JOINT_LIMITS.T
    joints = np.random.default_rng(seed).uniform(low, high)
    pos, quat = palm_frame(hand).palm(jnp.asarray(joints))
    measured_pos, measured_quat = sensed(model, joints)
    assert np.asarray(pos) == pytest.approx(measured_pos, abs=2e-5)
    assert float(quat_angle(quat, jnp.asarray(measured_quat))) < 1e-3


def test_inverse_kinematics_takes_the_palm_to_where_the_model_then_has_it(on_arm):
    hand, model = on_arm
    pos = np.array([0.05, 0.6, 0.15])
    solved = inverse_kinematics(hand, pos[None], np.array([PALM_DOWN]))
    assert solved.reached.any()
    joints = solved.joints[0, np.argmax(solved.reached[0])]
    assert sensed(model, joints)[0] == pytest.approx(pos, abs=4e-3)
    assert (joints >= panda.JOINT_LIMITS[:, 0]).all()
    assert (joints <= panda.JOINT_LIMITS[:, 1]).all()


def test_what_is_out_of_reach_is_not_reached_from_anywhere():
    solved = inverse_kinematics(LEAP, np.array([[0.0, 1.6, 0.1], [0.0, 0.6, 0.15]]), np.array([PALM_DOWN] * 2))
    assert solved.reached.shape == (2, len(STARTS))
    assert not solved.reached[0].any()
    assert solved.reached[1].any()


def test_no_joint_is_led_faster_than_it_may_go():
    joints = jnp.asarray(STARTS[0])
    moved = follow(LEAP, joints, jnp.array([0.4, 0.4, 0.5]), jnp.array(PALM_DOWN), joints, 0.05)
    assert (np.abs(np.asarray(moved - joints)) <= panda.SPEED_LIMITS * 0.05 + 1e-6).all()
