"""Drawer and window: what travel solves them, that both stay in their rails, and that nothing moves by itself."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.world import World
from embodied.engines.mjx.buffers import admitted_pairs
from tasks.manipulation.articulated import drawers, windows
from tests.tasks.manipulation.common.test_tabletop import task_of

DRAWERS, WINDOWS = ["drawer-open", "drawer-close"], ["window-open", "window-close"]
TURNED = ["faucet-open", "faucet-close", "dial-turn", "lever-pull"]


def start_at(name: str, corner: int = 0) -> tuple[Any, Any]:
    """The task, and its start from a corner of what it draws."""
    task = task_of(f"manipulation/{name}")
    drawn = jnp.asarray(task.ranges.start.corners[corner], jnp.float32)
    return task, task.begin(task.place(drawn, drawn))


def world_at(task: Any, start: Any, joint: str, position: float) -> World:
    """The world of a start, but for one joint (m or rad)."""
    qpos = np.array(start.qpos)
    qpos[task.model.joint(joint).qposadr[0]] = position
    return World.posed(task.model, qpos, start.qvel, start.mocap_pos)


def idle(task: Any, start: Any, qpos: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The deepest contact (m) of a pose, and positions and speeds after a second in which nobody does anything."""
    data = mujoco.MjData(task.model)
    data.qpos, data.mocap_pos = qpos, start.mocap_pos
    data.ctrl[:7], data.ctrl[7] = qpos[:7], -1.0
    mujoco.mj_forward(task.model, data)
    deepest = min(data.contact.dist, default=0.0)
    mujoco.mj_step(task.model, data, round(1.0 / task.model.opt.timestep))
    return deepest, data.qpos.copy(), data.qvel.copy()


@pytest.mark.parametrize("name", DRAWERS + WINDOWS + TURNED)
def test_nothing_sticks_in_anything_or_moves_by_itself(name: str) -> None:
    for corner in (0, 3, 4, 7):
        task, start = start_at(name, corner)
        deepest, qpos, qvel = idle(task, start, np.array(start.qpos))
        assert deepest > -2e-3
        np.testing.assert_allclose(qpos[9:], start.qpos[9:], atol=1e-3)
        assert np.abs(qvel[9:]).max() < 1e-2


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
    task, start = start_at(name)
    positions = [*solved, *unsolved]
    worlds = [world_at(task, start, joint, position) for position in positions]
    assert all(task.solved(world, start.task_state) for world in worlds[: len(solved)])
    assert not any(task.solved(world, start.task_state) for world in worlds[len(solved) :])
    last = list(task.stages)[-1]
    shares = [float(task.progress(world, start.task_state)[last]) for world in worlds]
    assert min(shares[: len(solved)]) == 1.0
    assert 0.9 < max(shares[len(solved) :]) < 1.0
    assert min(shares) < 0.1
    assert np.isclose(task.model.joint(joint).range[:, None], solved).any()


@pytest.mark.parametrize("name", WINDOWS)
def test_the_sash_stays_in_its_frame(name: str) -> None:
    """At both ends of its travel it reaches beyond no side of the window; and the window stands on the table."""
    task, start = start_at(name)
    for position in task.model.joint("window").range:
        low, high = extents(task, start, "window", position)
        moving_low, moving_high = extents(task, start, "window", position, "sash")
        assert (moving_low[[0, 2]] > low[[0, 2]] - 1e-9).all()
        assert (moving_high[[0, 2]] < high[[0, 2]] + 1e-9).all()
        assert low[2] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", DRAWERS)
def test_the_drawer_never_leaves_its_case(name: str) -> None:
    """Fully open, its back is still inside; closed, it does not stick out behind."""
    task, start = start_at(name)
    front = extents(task, start, "drawer", 0.0)[0][1]
    assert extents(task, start, "drawer", -drawers.TRAVEL, "box")[1][1] > front + 0.005
    assert extents(task, start, "drawer", 0.0, "box")[1][1] < extents(task, start, "drawer", 0.0)[1][1]


def extents(task: Any, start: Any, joint: str, position: float, body: str | None = None) -> tuple[Any, Any]:
    """Lowest and highest corner (3) m of what one sees of a body; by default of the fixture's own, what stands fast."""
    model = task.visual_model
    data = mujoco.MjData(model)
    data.qpos, data.mocap_pos = start.qpos, start.mocap_pos
    data.joint(joint).qpos = position
    mujoco.mj_forward(model, data)
    fixture = int(np.flatnonzero(model.body_mocapid >= 0)[0])
    geoms = np.flatnonzero(model.geom_bodyid == (fixture if body is None else model.body(body).id))
    half = np.array([np.abs(data.geom_xmat[g].reshape(3, 3)) @ model.geom_aabb[g, 3:] for g in geoms])
    return (data.geom_xpos[geoms] - half).min(0), (data.geom_xpos[geoms] + half).max(0)


@pytest.mark.parametrize(("name", "pairs", "contacts"), [("drawer-open", 25, 72), ("window-open", 15, 40)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
