"""Grasps turn with the object, have its widths, stay off the table, and are none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import matrix
from tasks.grasping.planner.force_closure import Grip, grasps
from tasks.grasping.planner.superquadrics import Superquadric, placed

BOX = Superquadric((0.02, 0.045, 0.09), (0.1, 0.1), (0.3, 0.1, 0.09))
CAN = Superquadric((0.033, 0.033, 0.05), (0.1, 1.0), (0.0, 0.0, 0.05))
FLAT = Superquadric((0.04, 0.04, 0.012), (0.1, 1.0), (0.0, 0.0, 0.012))


def corners(grip: Grip) -> np.ndarray:
    half = grip.width / 2 + grip.finger
    return np.array(
        [(x, y, z) for x in (-half, half) for y in (-grip.palm, grip.palm) for z in (-grip.back, grip.depth)]
    )


@pytest.mark.parametrize("shape", [BOX, CAN, FLAT])
def test_the_hand_stays_off_the_table_on_its_whole_way(shape: Superquadric) -> None:
    grip = Grip(0.10)
    found = grasps(shape, grip, table=0.0).grasps
    assert found
    for grasp in found:
        for distance in (0.0, 0.05, 0.10):
            pos, quat = grasp.back(distance)
            assert (corners(grip) @ matrix(quat).T + pos)[:, 2].min() > grip.clearance - 1e-9


@pytest.mark.parametrize("shape", [BOX, CAN, FLAT])
def test_the_palm_is_outside_and_faces_the_object(shape: Superquadric) -> None:
    for grasp in grasps(shape, Grip(0.10), table=0.0).grasps:
        turn = matrix(grasp.quat)
        assert grasp.approach == pytest.approx(turn[:, 2])
        assert shape.gauge(np.array(grasp.pos)[None])[0] > 1
        assert (np.array(shape.pos) - np.array(grasp.pos)) @ grasp.approach > 0
        assert shape.gauge(grasp.contacts) == pytest.approx(1, abs=1e-6)
        # Contacts are apart along the palm's x, before the palm, within the fingers' reach.
        local = (grasp.contacts - np.array(grasp.pos)) @ turn
        assert local[:, 0] == pytest.approx([-grasp.width / 2, grasp.width / 2], abs=0.01)
        assert (local[:, 2] > 0).all()
        assert (local[:, 2] < 0.09 + 1e-9).all()
        pos, quat = grasp.back(0.05)
        assert np.array(grasp.pos) - pos == pytest.approx(0.05 * grasp.approach)
        assert quat == pytest.approx(grasp.quat)


def test_widths_are_those_of_boxes_and_cylinders() -> None:
    widths = {round(grasp.width, 3) for grasp in grasps(BOX, Grip(0.12), limit=100).grasps}
    assert widths == {0.04, 0.09}
    assert {round(grasp.width, 3) for grasp in grasps(BOX, Grip(0.08), limit=100).grasps} == {0.04}
    level = [g for g in grasps(CAN, Grip(0.12), limit=100).grasps if abs(g.approach[2]) < 0.1]
    across = [g for g in level if abs(matrix(g.quat)[2, 0]) < 0.1]
    assert across
    assert [g.width for g in across] == pytest.approx([0.066] * len(across), abs=1e-3)


def test_the_best_grasp_of_a_tall_box_is_across_its_thin_side() -> None:
    ranking = grasps(BOX, Grip(0.10), table=0.0)
    scores = [grasp.score for grasp in ranking.grasps]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert np.abs(matrix(ranking.grasps[0].quat)[:, 0]) == pytest.approx([1, 0, 0], abs=1e-6)


def test_no_approach_from_below_and_none_level_at_a_flat_thing() -> None:
    for grasp in grasps(FLAT, Grip(0.10), table=0.0, limit=100).grasps:
        assert grasp.approach[2] < -0.9
    assert any(abs(g.approach[2]) < 0.1 for g in grasps(BOX, Grip(0.10), table=0.0, limit=100).grasps)


def test_grasps_move_with_the_object() -> None:
    turn, shift = matrix((0.8, 0.3, -0.1, 0.5)), np.array([0.2, 0.1, -0.3])
    up = turn[:, 2]
    here = grasps(BOX, Grip(0.10), table=0.0, limit=100).grasps
    there = grasps(BOX.moved(shift, turn), Grip(0.10), table=float(up @ shift), up=up.tolist(), limit=100).grasps
    assert len(here) == len(there)
    for first, second in zip(here, there, strict=True):
        assert second.score == pytest.approx(first.score, abs=1e-6)
    # Equal scores may change places: each grasp has its image among the others.
    images = {tuple(np.round(turn @ np.array(g.pos) + shift, 5) + 0.0) for g in here}
    assert images == {tuple(np.round(g.pos, 5) + 0.0) for g in there}


def test_too_wide_is_no_grasp() -> None:
    ranking = grasps(Superquadric((0.06, 0.06, 0.06), (0.1, 0.1)), Grip(0.10))
    assert ranking.grasps == ()
    assert ranking.reason == "too wide: 0.120 m where it is narrowest, the hand takes 0.090 m"


def test_sunk_into_the_table_is_no_grasp() -> None:
    ranking = grasps(placed(FLAT.axes, FLAT.exponents, (0, 0, 0.012), np.eye(3)), Grip(0.10), table=0.5)
    assert ranking.grasps == ()
    assert ranking.reason.startswith("out of reach")


def test_a_lying_cylinder_is_gripped_from_above_however_its_round_section_is_turned() -> None:
    for angle in (0.0, 0.4, np.pi / 4):
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[0, 0, 1.0], [cos, -sin, 0], [sin, cos, 0]])
        marker = placed((0.009, 0.009, 0.06), (0.2, 1.0), (0, 0, 0.009), turn)
        best = grasps(marker, Grip(0.10), table=0.0).grasps[0]
        assert best.approach == pytest.approx([0, 0, -1], abs=1e-6)
        assert best.width == pytest.approx(0.018, abs=1e-3)


def test_fingers_that_hardly_reach_hold_less() -> None:
    deep, shallow = (
        max(g.quality.enclosure for g in grasps(BOX, Grip(0.10, depth=depth), limit=100).grasps if g.approach[2] < -0.9)
        for depth in (0.12, 0.04)
    )
    assert deep == pytest.approx(1)
    assert shallow < 0.6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grip(0.0), "expected lengths in m, width and depth above 0"),
        (lambda: Grip(0.1, depth=float("nan")), "expected lengths in m"),
        (lambda: grasps(BOX, Grip(0.1), up=(0, 0, 0)), "expected a direction of three finite numbers"),
        (lambda: grasps(BOX, Grip(0.1), limit=0), "limit=0, table=None; expected at least 1"),
        (lambda: grasps(BOX, Grip(0.1), table=float("inf")), "expected at least 1, and a height in m or None"),
    ],
)
def test_errors_name_what_was_given(make, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        make()
