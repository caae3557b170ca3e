"""Drawer, window, faucet, dial and lever: what travel solves them, and that they stay in their rails and as left."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import pytest

from tasks.manipulation.articulated import drawers, windows
from tests.kit.tabletop import begun, idle, judged, tabletop

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
