"""Fingertips stand where an opening asks for, face each other, and reach what the whole hand does not."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec
from tasks.grasping.hands.hand import spec_of
from tasks.grasping.hands.models import hand_named
from tasks.grasping.objects.shapes import matrix
from tasks.grasping.planner.fingertips import NEAR, TIP, Fingertips, fingertips_of, pressing_of
from tasks.grasping.planner.force_closure import Grip, grasps
from tasks.grasping.planner.grasp_trajectory import ROOM, GraspType, fingertips, pinch, wrap
from tasks.grasping.planner.planner import fingertip_grasps, parts
from tasks.grasping.planner.superquadrics import Superquadric

LEAP = hand_named("leap")
FLAT = Superquadric((0.095, 0.0475, 0.029), (0.1, 0.1), (0.1, 0.5, 0.029), (0.9239, 0.0, 0.0, 0.3827))
"""A bottle that lies on its broad side, 95 mm wide and 58 mm high, turned by 45 degrees."""


@pytest.fixture(scope="module")
def tips() -> Fingertips:
    return fingertips_of(LEAP)


@pytest.mark.parametrize("opening", [0.01, 0.035, 0.08, 0.115])
def test_tips_are_so_far_apart_and_face_each_other(tips: Fingertips, opening: float) -> None:
    model = compile_spec(spec_of(LEAP))
    data = mujoco.MjData(model)
    pose = tips.pose(opening)
    data.qpos[LEAP.layout(model).qpos] = pose.joints
    mujoco.mj_forward(model, data)
    pos = np.array([data.sensor(f"{finger}_tip_pos").data for finger in LEAP.fingers])
    assert np.ptp(pos[:-1, 0]) < 2 * NEAR
    assert pos[:-1, 0].mean() - pos[-1, 0] == pytest.approx(opening + 2 * TIP, abs=2 * NEAR)
    assert np.abs(pos[:, 2] - tips.middle[2]).max() < NEAR
    pads = np.array([data.site(f"{finger}_tip").xmat.reshape(3, 3)[:, 2] for finger in LEAP.fingers])
    # Within 45 degrees.
    assert pads[:-1, 0].max() < -0.7
    assert pads[-1, 0] > 0.7
    # Fingers meet neither each other nor the thumb, and the servos hold just this shape.
    assert data.ncon == 0
    assert pose.targets == pytest.approx(pose.joints, abs=1e-6)


def test_leap_opens_from_nothing_to_twelve_centimetres(tips: Fingertips) -> None:
    assert tips.reached == (0.0, 0.12)
    assert np.array_equal(tips.pose(0.5).joints, tips.pose(0.12).joints)


def test_what_is_too_wide_to_wrap_is_taken_from_above(tips: Fingertips) -> None:
    assert "hand" in grasps(FLAT, Grip(width=LEAP.width), table=0.0).reason
    found = fingertip_grasps(LEAP, FLAT)
    assert found
    for trajectory, grasp in found:
        assert trajectory.type is GraspType.FINGERTIPS
        assert grasp.approach == pytest.approx([0, 0, -1], abs=1e-6)
        assert grasp.width == pytest.approx(0.095, abs=1e-3)
        # Between the tips is the object's middle plane; palm and tips stay off object and table.
        middle = np.array(grasp.pos) + matrix(grasp.quat) @ tips.middle
        across = matrix(FLAT.quat)[:, 1]
        assert across @ (middle - np.array(FLAT.pos)) == pytest.approx(0, abs=1e-6)
        assert TIP <= middle[2] <= 2 * FLAT.pos[2] < grasp.pos[2]


def test_where_servos_push_is_shifted_towards_the_fingers(tips: Fingertips) -> None:
    shifted = pressing_of(LEAP, 0.01)
    assert shifted.middle - tips.middle == pytest.approx([0.01, 0, 0])
    # The thumb's tip goes farther, the others' less far.
    assert np.abs(shifted.pose(0.04).joints - tips.pose(0.04).joints).max() > 0.05


def test_nothing_is_opened_wider_than_the_hand_can() -> None:
    wide = Superquadric((0.1, 0.08, 0.03), (0.1, 0.1), (0.0, 0.5, 0.03), (1.0, 0.0, 0.0, 0.0))
    assert fingertip_grasps(LEAP, wide) == []


def test_fingers_close_from_one_shape_to_the_other(tips: Fingertips) -> None:
    for trajectory in (wrap(LEAP), pinch(LEAP), fingertips(LEAP, 0.05)):
        assert np.array_equal(trajectory.targets(0.0), trajectory.preshape.targets)
        assert trajectory.targets(-1.0) == pytest.approx(trajectory.preshape.targets)
        assert trajectory.targets(1.0) == pytest.approx(trajectory.closed.targets)
        assert trajectory.targets(2.0) == pytest.approx(trajectory.closed.targets)
        assert trajectory.targets(0.5) == pytest.approx(
            (trajectory.preshape.targets + trajectory.closed.targets) / 2, abs=1e-6
        )
    assert np.array_equal(fingertips(LEAP, 0.05).preshape.joints, tips.pose(0.05 + 2 * ROOM).joints)


def test_parts_of_an_angle_are_its_arms() -> None:
    random = np.random.default_rng(0)
    arm = random.uniform(-1, 1, (200, 3)) * (0.09, 0.02, 0.02)
    handle = random.uniform(-1, 1, (200, 3)) * (0.02, 0.07, 0.02) + (0.07, -0.09, 0.0)
    first, second = parts(np.concatenate([arm, handle]))
    assert len(first) + len(second) == 400
    # Each arm is on one side, but for the corner where they meet.
    shares = [np.mean([(arm == point).all(1).any() for point in half]) for half in (first, second)]
    assert min(shares) < 0.3
    assert max(shares) > 0.9
