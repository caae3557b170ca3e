"""The hand on the arm: where its palm is, and what the arm reaches."""

import functools

import jax
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
from tests.kit.worlds import jitted

LEAP = hand_named("leap")


@functools.cache
def model_of(name: str) -> mujoco.MjModel:
    """The arm with a hand."""
    spec = arm_scene(hand_named(name))
    add_palm_sensors(spec)
    return compile_spec(spec)


def sensed(model: mujoco.MjModel, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    data = mujoco.MjData(model)
    for name, value in zip(panda.ARM_JOINTS, joints, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    return data.sensor("palm_pos").data.copy(), data.sensor("palm_quat").data.copy()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HANDS)
def test_the_palm_is_where_the_model_has_it(name, seed):
    hand, model = hand_named(name), model_of(name)
    low, high = panda.JOINT_LIMITS.T
    joints = np.random.default_rng(seed).uniform(low, high)
    pos, quat = jitted(palm_frame(hand).palm)(joints.astype(np.float32))
    measured_pos, measured_quat = sensed(model, joints)
    assert np.asarray(pos) == pytest.approx(measured_pos, abs=2e-5)
    assert float(quat_angle(quat, jnp.asarray(measured_quat))) < 1e-3


FAR, NEAR = np.array([0.0, 1.6, 0.1]), np.array([0.05, 0.6, 0.15])


@pytest.fixture(
    scope="module", params=["leap", *(pytest.param(h, marks=pytest.mark.slow) for h in HANDS if h != "leap")]
)
def solved(request):
    """A hand, and the joints that put its palm at two places."""
    hand = hand_named(request.param)
    return hand, inverse_kinematics(hand, np.array([FAR, NEAR]), np.array([PALM_DOWN] * 2))


def test_inverse_kinematics_takes_the_palm_to_where_the_model_then_has_it(solved):
    hand, found = solved
    assert found.reached.shape == (2, len(STARTS))
    joints = found.joints[1, np.argmax(found.reached[1])]
    assert sensed(model_of(hand.name), joints)[0] == pytest.approx(NEAR, abs=4e-3)
    assert (joints >= panda.JOINT_LIMITS[:, 0]).all()
    assert (joints <= panda.JOINT_LIMITS[:, 1]).all()


def test_what_is_out_of_reach_is_not_reached_from_anywhere(solved):
    _, found = solved
    assert not found.reached[0].any()
    assert found.reached[1].any()


def test_no_joint_is_led_faster_than_it_may_go():
    joints = np.asarray(STARTS[0], np.float32)
    move = jax.jit(lambda joints: follow(LEAP, joints, jnp.array([0.4, 0.4, 0.5]), jnp.array(PALM_DOWN), joints, 0.05))
    moved = np.asarray(move(joints))
    assert (np.abs(np.asarray(moved - joints)) <= panda.SPEED_LIMITS * 0.05 + 1e-6).all()
