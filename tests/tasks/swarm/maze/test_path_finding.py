"""Path finding: where goals lie, who is sent on, what counts as throughput, and what the script achieves."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.entity_rows import COLUMNS, WIDTH
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.crazyflie import RADIUS
from tasks.swarm.dynamics.drones import Drones, still
from tasks.swarm.maze.grid import NOWHERE
from tasks.swarm.maze.path_finding import (
    AHEAD,
    CELL,
    CLOSE,
    COLUMN_RADIUS,
    EGO_SIZE,
    GOALS,
    HEIGHT,
    PathFinding,
    PathFindingConfig,
)
from tests.kit.hooks import compiled, partly
from tests.kit.scripts import obeyed
from tests.kit.worlds import jitted

pytestmark = pytest.mark.timeout(280)
KEYS = jax.random.split(jax.random.PRNGKey(0), 32)
PLAIN = PathFinding()
TASK = compiled(PLAIN, "advance", "draw", "ego_observation", "entities")


def apart(points: np.ndarray) -> np.ndarray:
    """(worlds,) m between the nearest two of (worlds, A, 2)."""
    distance = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    return (distance + 1e3 * np.eye(points.shape[1])).min((1, 2))


def standing(places: Any) -> Drones:
    """Still drones at (A, 2) m."""
    return still(np.pad(np.asarray(places), ((0, 0), (0, 1)), constant_values=HEIGHT))  # type: ignore[arg-type]


@functools.cache
def begun() -> tuple[World, Any]:
    """The world and the errand of a start."""
    start = TASK.reset(KEYS[0])
    return World.posed(TASK.model, start.qpos, start.qvel), start.task_state


@pytest.fixture(scope="module")
def drawn() -> tuple[Drones, Any]:
    """Many starts and their goals."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(TASK.draw))(KEYS))


def at(places: Any, state: Any) -> tuple[Drones, Any]:
    """Still drones at (A, 2) m, and the errand after a control step there."""
    drones = standing(places)
    return drones, dataclasses.replace(state, goal=TASK.advance(drones, state, KEYS[1]))


def test_starts_and_goals_are_free_reachable_and_different(drawn: tuple[Drones, Any]) -> None:
    drones, goal = drawn
    start, point = np.asarray(drones.pos[..., :2]), np.asarray(goal.point)
    assert (apart(start) > CELL - 1e-4).all()
    assert (apart(point) > CELL - 1e-4).all()
    assert (np.linalg.norm(start - point, axis=-1) > CELL - 1e-4).all()
    for places in (start, point):
        to_columns = np.linalg.norm(places[:, :, None] - np.asarray(goal.columns)[:, None], axis=-1)
        assert (to_columns > CELL - 1e-4).all()
    cell = np.asarray(jitted(jax.vmap(TASK.grid.cell))(drones.pos[..., :2]))
    far = goal.far[np.arange(len(cell))[:, None], goal.aim, cell]
    assert (far < NOWHERE).all()
    np.testing.assert_array_equal(far - 1, goal.left)
    assert (np.linalg.norm(np.diff(np.asarray(goal.way), axis=2), axis=-1) < CELL + 1e-4).all()


def test_columns_are_apart_and_ways_keep_clear_of_them(drawn: tuple[Drones, Any]) -> None:
    _, goal = drawn
    assert (apart(np.asarray(goal.columns)) > CELL - 1e-4).all()
    gap = np.linalg.norm(np.asarray(goal.way)[:, :, :, None] - np.asarray(goal.columns)[:, None, None], axis=-1)
    assert gap.min() > CELL - 1e-4


def test_a_drone_at_its_goal_is_sent_on_and_the_others_are_not() -> None:
    _, state = begun()
    before = state.goal
    places = np.asarray(before.point) + 2 * CLOSE * (np.arange(8) > 0)[:, None] + [[0.9 * CLOSE, 0], *[[0, 0]] * 7]
    _, state = at(places, state)
    goal = state.goal
    assert goal.reached.tolist() == [True] + [False] * 7
    assert goal.count.tolist() == [1] + [0] * 7
    assert goal.aim[0] != before.aim[0]
    np.testing.assert_array_equal(goal.aim[1:], before.aim[1:])
    _, state = at(places, state)
    assert not state.goal.reached.any()
    assert state.goal.count.tolist() == [1] + [0] * 7


def test_new_goals_are_free_and_nobody_elses() -> None:
    _, state = begun()
    for key in KEYS:
        before = state.goal
        drones = standing(before.point)
        state = dataclasses.replace(state, goal=TASK.advance(drones, state, key))
        goal = state.goal
        assert goal.reached.all()
        assert not set(goal.aim.tolist()) & set(before.aim.tolist())
        assert len(set(goal.aim.tolist())) == len(goal.aim)
        assert (np.diagonal(goal.far)[np.asarray(goal.aim)] == 0).all()
    assert state.goal.count.tolist() == [len(KEYS)] * 8


def test_throughput_counts_goals_per_drone_and_minute() -> None:
    """Metrics are averages over an episode's control steps, and over drones."""
    world, state = begun()
    reached = np.arange(8) < 2
    state = dataclasses.replace(state, goal=dataclasses.replace(state.goal, reached=reached))
    once = float(jnp.mean(TASK.metrics(world, state)["throughput"]))
    assert once * TASK.timing.control_dt == pytest.approx(60 * 2 / 8)
    assert TASK.rewards(world, state, state.action)["reached"].tolist() == reached.astype(float).tolist()


def test_success_is_enough_goals_and_nothing_touched() -> None:
    world, state = begun()

    def outcome(world: World, goals: int) -> tuple[bool, bool]:
        goal = dataclasses.replace(state.goal, count=np.full(8, goals, np.int32))
        found = TASK.outcome(world, dataclasses.replace(state, goal=goal))
        return bool(found.success), bool(found.failure)

    assert outcome(world, int(GOALS)) == (True, False)
    assert outcome(world, int(GOALS) - 1) == (False, False)
    beside = np.array(Drones.of(world).pos)
    beside[0, :2] = np.asarray(state.goal.columns)[0] + [0.99 * (COLUMN_RADIUS + RADIUS), 0.0]
    touching = still(jnp.asarray(beside))
    assert outcome(World.posed(TASK.model, touching.qpos, touching.qvel), int(GOALS)) == (False, True)


def test_a_drone_sees_its_way_its_goal_and_columns_around() -> None:
    world, state = begun()
    drones = Drones.of(world)
    seen = TASK.ego_observation(drones, state)
    assert sum(term.shape[1] for term in seen.values()) == EGO_SIZE
    way = np.asarray(seen["way"]).reshape(8, AHEAD, 2)
    np.testing.assert_allclose(np.linalg.norm(way[:, 0], axis=-1), CELL, atol=1e-5)
    assert (np.linalg.norm(seen["goal"], axis=-1) <= 1 + 1e-5).all()
    rows = TASK.entities(drones, state)["columns"]
    assert rows.shape == (8, TASK.config.seen, WIDTH)
    nearest = np.sort(np.linalg.norm(np.asarray(state.goal.columns) - np.asarray(drones.pos)[:, None, :2], axis=-1), 1)
    offsets = np.linalg.norm(rows[..., COLUMNS["offset"]], axis=-1)
    np.testing.assert_allclose(offsets, nearest[:, : TASK.config.seen], atol=1e-5)


def test_columns_that_find_no_room_stand_in_another() -> None:
    task = PathFinding(PathFindingConfig(agents=1, cells=3, obstacles=7))
    goal = partly(jax.vmap(task.draw), lambda drawn: drawn[1])(KEYS)
    assert np.isfinite(goal.columns).all()
    assert (np.abs(np.asarray(goal.columns)) < task.grid.half).all()
    blocked = np.asarray(goal.far).diagonal(axis1=1, axis2=2) > 0
    own = np.asarray(jitted(jax.vmap(task.grid.cell))(goal.columns))
    assert np.take_along_axis(blocked, own, 1).all()


def test_drones_that_fly_as_the_script_says_reach_goals_and_touch_nothing() -> None:
    """Drones that do at once as they are told, for twelve seconds."""
    followed, metrics = obeyed(PLAIN, 576, scripted=True)
    random, _ = obeyed(PLAIN, 576, scripted=False)
    assert followed.goal.count.sum() > 8
    assert followed.goal.count.sum() > 5 * random.goal.count.sum()
    assert metrics["collision"].mean() < 0.02


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PathFindingConfig(cells=4, obstacles=9), "16 cells have no room for obstacles=9, and a start"),
        (lambda: PathFindingConfig(obstacles=-1), "obstacles=-1 must be 0 or more"),
        (
            lambda: PathFinding(PathFindingConfig(level=Level.RATES)).expert({}, None),  # type: ignore[arg-type]
            "level velocity, not on rates",
        ),
    ],
)
def test_what_cannot_be_flown_is_refused(make: Any, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        make()
