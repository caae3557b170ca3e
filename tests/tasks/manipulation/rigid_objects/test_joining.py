"""Nut, peg, plug and stick: what success measures, what fits, and how firmly things sit."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tasks.manipulation.rigid_objects.tools import AT_GOAL, DRIVEN, NAIL_TRAVEL, REACHED, STICK_HALF
from tests.kit.tabletop import CORNERS, FACTS, REFERENCE, begun, holds, idle, judged, tabletop


@pytest.mark.parametrize(
    ("name", "point", "sensor", "within"),
    [("assembly", "site:RoundNut", "ring", 0.04), ("peg-insert-side", "site:pegHead", "peg_head", 0.1)],
)
def test_success_is_metaworlds_where_it_measures_what_nobody_observes(
    name: str, point: str, sensor: str, within: float
) -> None:
    """The ring's middle, where the handle is observed; the peg's head."""
    at = begun(name)
    goal = at.start.task_state.goal
    places = goal + np.random.default_rng(0).uniform(-within, within, (2000, 3))
    expected = np.logical_and.reduce([holds(term, {point: places}, goal) for term in FACTS[name]["success"]])
    assert 20 < expected.sum() < 1900
    assert (judged(at, readings={sensor: places}).success != expected).sum() <= 1


# Nut.


def test_the_ring_is_a_handle_away_from_what_is_observed() -> None:
    data = begun("assembly").data
    expected = FACTS["assembly"]["canonical"]["obj1_from_roots"]["RoundNut"]
    np.testing.assert_allclose(data.sensor("object1_pos").data - data.sensor("ring").data, expected, atol=1e-4)


@pytest.mark.parametrize(("beside", "free"), [(0.0, True), (0.008, True), (0.012, False)])
def test_the_ring_has_nine_millimetres_of_room_around_the_peg(beside: float, free: bool) -> None:
    contacts = 0
    for turn in np.linspace(0.0, np.pi / 3, 5):
        task, start, data = begun("assembly")
        place = start.task_state.goal[:2] + beside * np.array([np.cos(turn), np.sin(turn)])
        data.joint("nut").qpos[:3] = [*place, 0.06]
        mujoco.mj_forward(task.model, data)
        contacts = data.ncon
        assert (contacts == 0) or not free
    assert free or contacts > 0


# Peg and plug.


def test_the_pegs_points_are_metaworlds() -> None:
    bodies = REFERENCE["scenes"]["sawyer_peg_insertion_side"]["bodies"]
    sites = next(body["sites"] for body in bodies if body["name"] == "peg")
    data = begun("peg-insert-side").data
    ahead = data.sensor("peg_head").data - data.sensor("object1_pos").data
    np.testing.assert_allclose(ahead, np.subtract(sites["pegHead"], sites["pegGrasp"]), atol=1e-6)


def test_the_peg_fits_into_the_hole_and_not_through_the_box() -> None:
    """With its head at the goal it touches nothing; a hole's breadth beside it, it is inside the box."""
    for beside, free in ((0.0, True), (0.06, False)):
        task, start, data = begun("peg-insert-side")
        data.joint("peg").qpos[:3] = np.add(start.task_state.goal, [0.1, beside, 0.0])
        mujoco.mj_forward(task.model, data)
        assert (data.ncon == 0) == free


@pytest.mark.parametrize(("pull", "moves"), [(0.5, False), (4.0, True)])
def test_the_plug_sits_in_its_socket_until_it_is_pulled(pull: float, moves: bool) -> None:
    """Newtons along the socket's axis for a second."""
    task, _, data = begun("peg-unplug-side")
    start = data.sensor("object1_pos").data[0]
    data.xfrc_applied[task.model.body("plug").id, 0] = pull
    idle(data, 1.0)
    moved = data.sensor("object1_pos").data[0] - start
    assert moved > 0.1 if moves else abs(moved) < 0.002


# Hammer and nail.


def test_a_nail_is_in_where_metaworld_says_so_and_can_go_deeper() -> None:
    (term,) = FACTS["hammer"]["success"]
    assert (term["kind"], term["op"], term["threshold"]) == ("joint", ">", DRIVEN)
    found = judged(begun("hammer"), {"nail": [0.0, DRIVEN - 1e-4, DRIVEN + 1e-4, NAIL_TRAVEL]})
    assert found.success.tolist() == [False, False, True, True]
    assert tabletop("hammer").model.joint("nail").range[1] == NAIL_TRAVEL


@pytest.mark.parametrize(("push", "moves"), [(2.0, False), (8.0, True)])
def test_a_nail_stays_where_it_is_until_it_is_pushed(push: float, moves: bool) -> None:
    """Newtons for half a second."""
    task, _, data = begun("hammer", nail=0.02)
    data.xfrc_applied[task.model.body("nail").id, 1] = push
    idle(data, 0.5)
    moved = float(data.joint("nail").qpos[0]) - 0.02
    assert moved > 0.03 if moves else abs(moved) < 2e-3


# Stick and thermos.


def test_a_stick_has_pushed_where_metaworld_says_so() -> None:
    """The thermos at the goal, both pads on the stick, which is off the table: each alone is not enough."""
    rng, n = np.random.default_rng(0), 4000
    task, start, _ = at = begun("stick-push")
    goal = start.task_state.goal
    thermos, sticks = goal + rng.uniform(-0.15, 0.15, (n, 3)), np.tile([0.3, 0.6, 0.0], (n, 1))
    sticks[:, 2] = rng.uniform(0.02, 0.06, n)
    touches = rng.choice([0.0, 0.01, 70.0], (2, n, 1))
    away = rng.choice([0.0, 0.2], n)
    readings = {"object2_pos": thermos, "object1_pos": sticks, "tcp_pos": sticks + np.outer(away, [1, 0, 0])}
    readings |= {"left_pad_touch": touches[0], "right_pad_touch": touches[1]}
    terms = {term["kind"]: term for term in FACTS["stick-push"]["success"]}
    near = holds(terms["distance"], {"obj2": thermos}, goal)
    lain = {"obj1": sticks, "stick_init_pos": start.qpos[task.model.joint("stick").qposadr[0] :][:3]}
    lifted = holds(terms["axis"], lain, goal)
    expected = near & lifted & np.all(touches > 0, axis=0)[:, 0] & (away == 0)
    assert 100 < expected.sum() < 2000
    assert (judged(at, readings=readings).success != expected).sum() <= 1


def test_a_stick_has_pulled_where_metaworld_says_so() -> None:
    rng, n = np.random.default_rng(0), 4000
    at = begun("stick-pull")
    goal = at.start.task_state.goal
    handles = goal + rng.uniform(-0.1, 0.1, (n, 3))
    ends = handles + rng.uniform(-0.07, 0.07, (n, 3))
    points = {"obj2": handles, "site:stick_end": ends}
    expected = np.logical_and.reduce([holds(term, points, goal) for term in FACTS["stick-pull"]["success"]])
    assert 100 < expected.sum() < 3000
    found = judged(at, readings={"object2_pos": handles, "stick_end": ends})
    assert (found.success != expected).sum() <= 2


@pytest.mark.parametrize("name", ["stick-push", "stick-pull"])
def test_the_thermos_can_be_slid_to_every_goal_and_stops_when_left_alone(name: str) -> None:
    task, _, data = begun(name)
    np.testing.assert_allclose(data.sensor("object2_pos").data, FACTS[name]["canonical"]["obs"][11:14], atol=1e-3)
    goals = task.ranges.goal.corners[:, :2]
    body = np.array(task.model.body("thermos").pos[:2])
    travel = np.array([task.model.joint(joint).range for joint in ("thermos_x", "thermos_y")])
    handle = np.array([0.0, task.point])
    assert (goals - body - handle > travel[:, 0]).all()
    assert (goals - body - handle < travel[:, 1] + AT_GOAL).all(), "the farthest as near as success asks"
    data.joint("thermos_x").qvel = 0.4
    idle(data, 1.0)
    assert 0.01 < data.joint("thermos_x").qpos[0] < 0.08
    assert abs(data.joint("thermos_x").qvel[0]) < 1e-3


def test_the_stick_fits_through_the_handle() -> None:
    """In the middle of the window and 1 cm beside it, nothing touches; 3 cm beside it, the upright is hit."""
    for beside, free in ((0.0, True), (-0.01, True), (-0.03, False)):
        task, _, data = begun("stick-pull")
        data.joint("stick").qpos[:3] = np.add(data.sensor("object2_pos").data, [0.02 - STICK_HALF[0], beside, 0.0])
        mujoco.mj_forward(task.model, data)
        assert (data.ncon == 0) == free


def test_the_goal_of_pulling_lies_below_the_handle() -> None:
    """So 4.3 cm are left along the table, which the script has to reach."""
    for corner in (None, *CORNERS):
        goal = begun("stick-pull", corner).start.task_state.goal
        assert np.sqrt(REACHED**2 - (float(goal[2]) - 0.132) ** 2) == pytest.approx(0.043, abs=1e-3)
        assert goal[2] == np.float32(0.02)
