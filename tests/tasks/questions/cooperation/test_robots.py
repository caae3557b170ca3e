"""The closed form agrees with the Panda's kinematics; the rings of reach are where it says."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.manipulation.common import panda
from tasks.questions.cooperation.robots import MEETING, Arm, joints_at, ring


def test_the_joints_put_the_tcp_there_with_the_hand_down() -> None:
    random = np.random.default_rng(0)
    points = np.column_stack([random.uniform(-0.8, 0.8, (300, 2)), random.uniform(0, 0.5, 300)])
    found = [(point, joints) for point in points if (joints := joints_at(point)) is not None]
    assert len(found) > 100
    pos, turn = jax.vmap(panda.tcp_pose)(jnp.array([joints for _, joints in found], jnp.float32))
    foot = (np.array(pos) - panda.BASE_POS) @ panda.BASE_ROT
    np.testing.assert_allclose(foot, [point for point, _ in found], atol=2e-5)
    np.testing.assert_allclose(np.array(turn)[:, :, 2], np.tile([0, 0, -1.0], (len(found), 1)), atol=2e-5)
    joints = np.array([joints for _, joints in found])
    assert ((joints >= panda.JOINT_LIMITS[:, 0]) & (joints <= panda.JOINT_LIMITS[:, 1])).all()


def test_the_home_pose_is_found_again() -> None:
    home = (0.6 - panda.BASE_POS[1], 0.0, 0.2 - panda.BASE_POS[2])
    found = joints_at(home)
    assert found is not None
    np.testing.assert_allclose(found, panda.HOME, atol=1e-5)


@pytest.mark.parametrize("height", [0.05, 0.3])
def test_what_is_reached_is_a_ring(height: float) -> None:
    least, most = ring(height, 0.005)
    for r in np.arange(0.0, 1.0, 0.005):
        assert (joints_at((r, 0, height)) is not None) == (least <= r <= most)
    assert joints_at((most * math.cos(2), most * math.sin(2), height)) is not None
    assert joints_at((-most, 0, height)) is None  # behind the arm, joint 1 has its limit


def test_arms_that_face_one_another_are_mirror_images() -> None:
    left, right = Arm("left", (-0.7, 0, 0), 0.0), Arm("right", (0.7, 0, 0), math.pi)
    for x, y in np.random.default_rng(1).uniform(-0.5, 0.5, (50, 2)):
        assert left.reaches((x, y, 0.1)) == right.reaches((-x, y, 0.1))
    assert left.meets()
    assert not Arm("far", (-0.85, 0, 0), 0.0).reaches(MEETING)
