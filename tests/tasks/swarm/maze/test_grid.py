"""Mazes: columns never part the ground, and ways around them are the shortest ones."""

from __future__ import annotations

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.swarm.maze.grid import NOWHERE, Grid
from tests.kit.worlds import jitted

KEYS = jax.random.split(jax.random.PRNGKey(0), 64)


def by_search(blocked: np.ndarray, goal: int) -> np.ndarray:
    """(cells,) steps from each cell to the goal by breadth-first search."""
    side = round(len(blocked) ** 0.5)
    far = np.full(len(blocked), NOWHERE)
    far[goal], queue = 0, deque([divmod(goal, side)])
    while queue:
        i, j = queue.popleft()
        for row, column in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            cell = row * side + column
            if 0 <= row < side and 0 <= column < side and not blocked[cell] and far[cell] == NOWHERE:
                far[cell] = far[i * side + j] + 1
                queue.append((row, column))
    return far


@pytest.mark.parametrize(("count", "obstacles"), [(12, 36), (12, 144), (5, 6), (1, 1), (2, 4)])
def test_columns_never_part_the_ground(count: int, obstacles: int) -> None:
    """However many are asked for: from any free cell all others are reached."""
    grid = Grid(count, 0.6)
    mazes = np.asarray(jax.jit(jax.vmap(lambda key: grid.maze(key, obstacles)))(KEYS))
    assert (mazes.sum(1) <= obstacles).all()
    for blocked in mazes:
        far = by_search(blocked, int(np.argmin(blocked)))
        assert (far[~blocked] < NOWHERE).all()
        assert not blocked.all()


def test_a_quarter_of_the_cells_finds_room_and_differs() -> None:
    mazes = np.asarray(jax.jit(jax.vmap(lambda key: Grid(12, 0.6).maze(key, 36)))(KEYS))
    assert (mazes.sum(1) == 36).all()
    assert len(np.unique(mazes, axis=0)) == len(KEYS)
    assert (mazes.mean(0) > 0).all()


def test_distances_are_those_of_a_search() -> None:
    grid = Grid(9, 0.5)
    maze = jax.jit(lambda key: grid.maze(key, 20))
    for key in KEYS[:4]:
        blocked = np.asarray(maze(key))
        far = np.asarray(jitted(grid.distances)(blocked))
        np.testing.assert_array_equal(far, far.T)
        for goal in np.flatnonzero(~blocked)[::5]:
            np.testing.assert_array_equal(far[goal], by_search(blocked, int(goal)))
        assert (far[blocked] == NOWHERE).all()


def test_a_way_goes_from_cell_to_free_cell_and_stays_at_its_end() -> None:
    grid = Grid(9, 0.5)
    blocked = np.asarray(jax.jit(lambda key: grid.maze(key, 20))(KEYS[0]))
    far = np.asarray(jitted(grid.distances)(blocked))
    begin = np.flatnonzero(~blocked).astype(np.int32)
    goal = begin[::-1]
    way, left = jax.jit(lambda far, begin: grid.way(far, begin, 40))(far[goal], begin)
    cells = np.concatenate([begin[:, None], way], 1)
    assert not blocked[cells].any()
    steps = np.abs(np.diff(np.stack(np.divmod(cells, grid.count), -1), axis=1)).sum(-1)
    assert set(np.unique(steps)) == {0, 1}
    np.testing.assert_array_equal(steps.sum(1), far[goal, begin])
    np.testing.assert_array_equal(left, np.maximum(far[goal, begin] - 1, 0))
    assert (np.asarray(way)[:, -1] == np.asarray(goal)).all()


def test_cells_are_where_their_middles_are() -> None:
    grid = Grid(7, 0.4)
    np.testing.assert_array_equal(jitted(grid.cell)(jnp.asarray(grid.centres)), np.arange(49))
    assert int(grid.cell(jnp.array([9.0, -9.0]))) == 6 * 7
    assert np.abs(grid.centres).max() == pytest.approx(grid.half - 0.2)
