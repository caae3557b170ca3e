"""Doors, locks, handles, drawers, windows and what is turned: what positions solve them, how they stay and swing."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import pytest

from tasks.manipulation.articulated import drawers, windows
from tasks.manipulation.articulated.doors import OPENED
from tasks.manipulation.articulated.handles import BAR_RADIUS, PIVOT, TRAVEL
from tests.kit.tabletop import CORNERS, begun, idle, judged, tabletop

PRESSED = [0.0, -0.04, -0.076, -0.078, -0.097, -0.116], [-0.118, -TRAVEL]


@pytest.mark.parametrize(
    ("name", "joint", "position"),
    [
        ("door-lock", "lever", 0.3),
        ("door-lock", "lever", 0.8),
        ("handle-pull", "handle", -0.03),
        ("handle-pull", "handle", -0.07),
    ],
)
def test_a_lever_or_a_handle_stays_where_it_is_left(name: str, joint: str, position: float) -> None:
    for corner in CORNERS:
        data = begun(name, corner, **{joint: position}).data
        assert min(data.contact.dist, default=0.0) > -2e-3
        idle(data, 1.0)
        assert data.joint(joint).qpos[0] == pytest.approx(position, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "joint", "way", "beyond"),
    [
        ("door-open", "hinge", [0.0, -0.7, -1.37, -1.39, -1.57, -1.8], [-1.84, OPENED]),
        ("door-close", "hinge", [-1.57, -0.8, -0.26, -0.15, 0.0], []),
        ("door-lock", "lever", [0.0, 0.6, 1.18, 1.21, 1.57, 1.7], []),
        ("door-unlock", "lever", [1.57, 0.8, 0.39, 0.36, 0.0, -0.1], []),
        ("handle-press", "handle", *PRESSED),
        ("handle-press-side", "handle", *PRESSED),
        ("handle-pull", "handle", [-0.1, -0.07, -0.043, -0.041, 0.0], []),
        ("handle-pull-side", "handle", [-0.1, -0.07, -0.044, -0.043, 0.0], []),
    ],
)
def test_what_positions_solve(name: str, joint: str, way: list[float], beyond: list[float]) -> None:
    """On the way to success the stage rises steadily to 1, which it reaches only with it."""
    found = judged(begun(name, 0), {joint: [*way, *beyond]})
    assert found.success.tolist() == [False] * 3 + [True] * (len(way) - 3) + [False] * len(beyond)
    shares = found.last
    assert shares[0] < 0.05
    assert (np.diff(shares[:4]) > 0).all()
    assert shares[2] < 1.0
    assert shares[3 : len(way)].tolist() == [1.0] * (len(way) - 3)


def test_the_leaf_swings_free_of_its_frame() -> None:
    """To a right angle; they would pass through each other, as fixtures do not collide with themselves."""
    task, _, data = begun("door-open", 0)
    model = task.model
    frame, leaf = (np.flatnonzero(model.geom_bodyid == model.body(name).id) for name in ("door", "leaf"))
    for angle in np.linspace(-np.pi / 2, 0.0, 25):
        data.joint("hinge").qpos = angle
        mujoco.mj_forward(model, data)
        assert min(mujoco.mj_geomDistance(model, data, a, b, 1.0, None) for a in frame for b in leaf) > -2e-3


@pytest.mark.parametrize("name", ["door-lock", "door-unlock"])
def test_the_levers_grip_is_beyond_the_hands_reach_to_the_door(name: str) -> None:
    """With a finger at the grip's middle, the hand's body passes before lever and door, however the lever stands."""
    task, _, data = begun(name, 0)
    model = task.model
    half = model.geom("hand_collision").size[1]
    tip = data.sensor("grip_pos").data[1] - (data.sensor("left_pad_pos").data[1] - data.sensor("tcp_pos").data[1])
    lever = np.flatnonzero(
        (model.geom_bodyid == model.body("lever").id) & (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX)
    )
    nearest = min(data.geom_xpos[g][1] - model.geom_size[g][1] for g in lever)
    assert tip + half < nearest


def test_the_handle_never_reaches_the_table() -> None:
    assert PIVOT[2] - TRAVEL - BAR_RADIUS > 0.0


@pytest.mark.parametrize("what", ["press", "pull"])
def test_the_tower_at_the_side_is_the_same_turned(what: str) -> None:
    """What is at (x, y) from the tower's middle there is at (-y, x) here."""
    places = []
    for name in (f"handle-{what}", f"handle-{what}-side"):
        task, _, data = begun(name, 0)
        model = task.model
        own = np.flatnonzero(np.isin(model.geom_bodyid, [model.body(body).id for body in ("stand", "handle")]))
        places.append(data.geom_xpos[own] - data.mocap_pos[0])
    np.testing.assert_allclose(places[1], places[0][:, [1, 0, 2]] * [-1, 1, 1], atol=1e-6)
    assert np.abs(places[0][:, 1]).max() > 0.1
    assert np.ptp(places[0], 0)[1] > np.ptp(places[0], 0)[0]


UPRIGHT = -math.pi / 2


@pytest.mark.parametrize(
    ("name", "joint", "solved", "unsolved"),
    [
        ("drawer-open", "drawer", [-0.161, -0.19, -drawers.TRAVEL], [0.0, -0.159]),
        ("drawer-close", "drawer", [0.0, -0.031], [-0.032, -0.15]),
        ("window-open", "window", [0.191, windows.TRAVEL], [0.0, 0.189]),
        ("window-close", "window", [0.0, 0.039], [0.041, 0.2]),
    ],
)
def test_what_travel_solves(name: str, joint: str, solved: list[float], unsolved: list[float]) -> None:
    """Nothing short of success counts as all of a stage, and the joint's own end solves the task."""
    at = begun(name, 0)
    found = judged(at, {joint: [*solved, *unsolved]})
    assert found.success.tolist() == [True] * len(solved) + [False] * len(unsolved)
    assert found.last[found.success].min() == 1.0
    assert 0.9 < found.last[~found.success].max() < 1.0
    assert found.last.min() < 0.1
    assert np.isclose(at.task.model.joint(joint).range[:, None], solved).any()


@pytest.mark.parametrize(
    ("name", "solved", "unsolved"),
    [
        ("faucet-open", [1.40, 1.90], [0.0, 1.35, 1.97, -1.6]),
        ("faucet-close", [-1.28, -2.03], [0.0, -1.22, -2.08, 1.6]),
        ("dial-turn", [1.38, -1.38, 2.5, -2.5, math.pi], [0.0, 1.36, -1.36]),
        ("lever-pull", [UPRIGHT + 0.13, UPRIGHT, UPRIGHT - 0.13], [0.0, UPRIGHT + 0.132, UPRIGHT - 0.132]),
    ],
)
def test_what_angles_solve(name: str, solved: list[float], unsolved: list[float]) -> None:
    """All within the hinge's travel; and the turning counts in full no earlier than success."""
    at = begun(name, 0)
    low, high = at.task.model.joint("hinge").range
    assert low - 1e-6 < min(solved + unsolved) < max(solved + unsolved) < high + 1e-6
    found = judged(at, {"hinge": [*solved, *unsolved]})
    assert found.success.tolist() == [True] * len(solved) + [False] * len(unsolved)
    turned = judged(at, {"hinge": [part * solved[0] for part in (0.0, 0.5, 1.0)]}).stages["turn"]
    assert turned[0] < 0.05 < turned[1] < 0.95 < turned[2]


@pytest.mark.parametrize("name", ["faucet-open", "faucet-close", "dial-turn", "lever-pull"])
def test_what_is_turned_stays_as_it_is_left(name: str) -> None:
    low, high = tabletop(name).model.joint("hinge").range
    for angle in np.linspace(low + 0.1, high - 0.1, 5):
        data = begun(name, 0, hinge=angle).data
        idle(data, 1.0)
        assert data.qpos[-1] == pytest.approx(angle, abs=2e-3)


def test_the_dials_point_runs_around_its_rim() -> None:
    """Meta-World computes it: 5 cm times sine and minus cosine of the angle, at the bottom of the axis."""
    for angle in (-2.0, 0.3, 1.0, 3.0):
        _, start, data = begun("dial-turn", 0, hinge=angle)
        expected = start.mocap_pos[0] + 0.05 * np.array([math.sin(angle), -math.cos(angle), 0.0])
        np.testing.assert_allclose(data.sensor("object1_pos").data, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["window-open", "window-close"])
def test_the_sash_stays_in_its_frame(name: str) -> None:
    """At both ends of its travel it reaches beyond no side of the window; and the window stands on the table."""
    for position in tabletop(name).model.joint("window").range:
        low, high = extents(name, "window", position)
        moving_low, moving_high = extents(name, "window", position, "sash")
        assert (moving_low[[0, 2]] > low[[0, 2]] - 1e-9).all()
        assert (moving_high[[0, 2]] < high[[0, 2]] + 1e-9).all()
        assert low[2] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["drawer-open", "drawer-close"])
def test_the_drawer_never_leaves_its_case(name: str) -> None:
    """Fully open, its back is still inside; closed, it does not stick out behind."""
    front = extents(name, "drawer", 0.0)[0][1]
    assert extents(name, "drawer", -drawers.TRAVEL, "box")[1][1] > front + 0.005
    assert extents(name, "drawer", 0.0, "box")[1][1] < extents(name, "drawer", 0.0)[1][1]


def extents(name: str, joint: str, position: float, body: str | None = None) -> tuple[Any, Any]:
    """Lowest and highest corner (3) m of what one sees of a body; by default of the fixture's own, what stands fast."""
    task, start, _ = begun(name, 0)
    model = task.visual_model
    data = mujoco.MjData(model)
    data.qpos, data.mocap_pos = start.qpos, start.mocap_pos
    data.joint(joint).qpos = position
    mujoco.mj_forward(model, data)
    fixture = int(np.flatnonzero(model.body_mocapid >= 0)[0])
    geoms = np.flatnonzero(model.geom_bodyid == (fixture if body is None else model.body(body).id))
    half = np.array([np.abs(data.geom_xmat[g].reshape(3, 3)) @ model.geom_aabb[g, 3:] for g in geoms])
    return (data.geom_xpos[geoms] - half).min(0), (data.geom_xpos[geoms] + half).max(0)
