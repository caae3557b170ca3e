"""Doors and locks: what angles solve them, that the leaf swings free, and that nothing moves by itself."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.world import World
from tasks.manipulation.doors import OPENED
from tests.tasks.manipulation.sensed import cost
from tests.tasks.manipulation.test_tabletop import task_of

OPEN_CLOSE, LOCKS = ["door-open", "door-close"], ["door-lock", "door-unlock"]


def start_at(name: str, corner: int = 0) -> tuple[Any, Any, mujoco.MjData]:
    """The task, its start from a corner of what it draws, and the world there with the arm's servos at rest."""
    task = task_of(f"manipulation/{name}")
    drawn = jnp.asarray(task.ranges.start.corners[corner], jnp.float32)
    start = task.begin(task.place(drawn, drawn))
    data = mujoco.MjData(task.model)
    data.qpos, data.mocap_pos = start.qpos, start.mocap_pos
    data.ctrl[:7], data.ctrl[7] = data.qpos[:7], -1.0
    mujoco.mj_forward(task.model, data)
    return task, start, data


def stays(name: str, joint: str, position: float | None = None) -> bool:
    """Whether hand and fixture are apart at the start, wherever it is drawn, and a joint keeps its place for 1 s."""
    for corner in (0, 3, 4, 7):
        task, _, data = start_at(name, corner)
        if position is not None:
            data.joint(joint).qpos = position
        mujoco.mj_forward(task.model, data)
        apart, before = min(data.contact.dist, default=0.0) > -2e-3, data.joint(joint).qpos[0]
        mujoco.mj_step(task.model, data, round(1.0 / task.model.opt.timestep))
        if not (apart and abs(data.joint(joint).qpos[0] - before) < 1e-4):
            return False
    return True


def angles_that_solve(name: str, joint: str, angles: list[float]) -> tuple[list[bool], list[float]]:
    """Success, and the last stage's share, with a joint at some positions (m or rad)."""
    task, start, data = start_at(name)
    worlds = []
    for angle in angles:
        data.joint(joint).qpos = angle
        worlds.append(World.posed(task.model, data.qpos.astype(np.float32), start.qvel, start.mocap_pos))
    last = list(task.stages)[-1]
    solved = [bool(task.solved(world, start.memory)) for world in worlds]
    return solved, [float(task.progress(world, start.memory)[last]) for world in worlds]


@pytest.mark.parametrize(
    ("name", "joint"),
    [("door-open", "hinge"), ("door-close", "hinge"), ("door-lock", "lever"), ("door-unlock", "lever")],
)
def test_nothing_sticks_in_anything_or_moves_by_itself(name: str, joint: str) -> None:
    assert stays(name, joint)


@pytest.mark.parametrize("angle", [0.3, 0.8])
def test_a_lever_stays_where_it_is_left(angle: float) -> None:
    assert stays("door-lock", "lever", angle)


@pytest.mark.parametrize(
    ("name", "joint", "way", "beyond"),
    [
        ("door-open", "hinge", [0.0, -0.7, -1.37, -1.39, -1.57, -1.8], [-1.84, OPENED]),
        ("door-close", "hinge", [-1.57, -0.8, -0.26, -0.15, 0.0], []),
        ("door-lock", "lever", [0.0, 0.6, 1.18, 1.21, 1.57, 1.7], []),
        ("door-unlock", "lever", [1.57, 0.8, 0.39, 0.36, 0.0, -0.1], []),
    ],
)
def test_what_angles_solve(name: str, joint: str, way: list[float], beyond: list[float]) -> None:
    """On the way to success the stage rises steadily to 1, which it reaches only with it."""
    solved, shares = angles_that_solve(name, joint, [*way, *beyond])
    first = solved.index(True)
    assert first == 3
    assert all(solved[first : len(way)])
    assert not any(solved[len(way) :])
    assert shares[0] < 0.05
    assert (np.diff(shares[: first + 1]) > 0).all()
    assert shares[first - 1] < 1.0
    assert shares[first : len(way)] == [1.0] * (len(way) - first)


def test_the_leaf_swings_free_of_its_frame() -> None:
    """To a right angle; they would pass through each other, as fixtures do not collide with themselves."""
    task, _, data = start_at("door-open")
    model = task.model
    frame, leaf = (np.flatnonzero(model.geom_bodyid == model.body(name).id) for name in ("door", "leaf"))
    for angle in np.linspace(-np.pi / 2, 0.0, 25):
        data.joint("hinge").qpos = angle
        mujoco.mj_forward(model, data)
        assert min(mujoco.mj_geomDistance(model, data, a, b, 1.0, None) for a in frame for b in leaf) > -2e-3


@pytest.mark.parametrize("name", LOCKS)
def test_the_levers_grip_is_beyond_the_hands_reach_to_the_door(name: str) -> None:
    """With a finger at the grip's middle, the hand's body passes before lever and door, however the lever stands."""
    task, _, data = start_at(name)
    model = task.model
    half = model.geom("hand_collision").size[1]
    tip = data.sensor("grip_pos").data[1] - (data.sensor("left_pad_pos").data[1] - data.sensor("tcp_pos").data[1])
    lever = np.flatnonzero(
        (model.geom_bodyid == model.body("lever").id) & (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX)
    )
    nearest = min(data.geom_xpos[g][1] - model.geom_size[g][1] for g in lever)
    assert tip + half < nearest


@pytest.mark.parametrize(("name", "pairs", "contacts"), [("door-open", 35, 96), ("door-lock", 30, 72)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    assert cost(task_of(f"manipulation/{name}")) == (pairs, contacts)
