"""Shortest paths are clear, and no longer than what a fine grid finds; distances are those of hand-made paths."""

import heapq
import itertools
import math

import numpy as np
import pytest

from tasks.questions.cooperation.paths import LEVEL, PathTask, clear, path_length, path_task, shortest_path
from tasks.questions.cooperation.robots import Arm
from tasks.questions.cooperation.scenes import VIEW, CooperationScene, cooperation_scene
from tasks.questions.cooperation.score import discrete_frechet, hausdorff, resampled, rmse

SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
CELL = 0.04  # m, of the grid that is searched for comparison
MOVES = [m for m in itertools.product(range(-2, 3), repeat=2) if math.gcd(*m) == 1]


@pytest.fixture(scope="module")
def found() -> list[tuple[CooperationScene, PathTask]]:
    found = []
    for seed in range(12):
        scene = cooperation_scene(seed)
        task = path_task(scene, np.random.default_rng(seed))
        found += [(scene, task)] if task is not None else []
        if len(found) == 2:
            return found
    raise AssertionError("not two of twelve scenes have a path with a bend")


def on_grid(task: PathTask) -> float:
    """m, the shortest way from start to end over a grid's points, by moves of up to two cells."""
    start, end = task.path[0], task.path[-1]
    best, done = {(0, 0): 0.0}, set()
    queue = [(0.0, (0, 0), start)]
    while queue:
        far, at, here = heapq.heappop(queue)
        if here is end:
            return far
        if at in done:
            continue
        done.add(at)
        if np.linalg.norm(end - here) < 2 * CELL and clear(np.stack([here, end]), task.obstacles):
            heapq.heappush(queue, (far + float(np.linalg.norm(end - here)), (99, 99), end))
        for move in MOVES:
            to = at[0] + move[0], at[1] + move[1]
            there = start + CELL * np.array(to)
            longer = far + CELL * math.hypot(*move)
            on_table = (np.abs(there) < [0.9, 0.6]).all()
            if on_table and longer < best.get(to, math.inf) and clear(np.stack([here, there]), task.obstacles):
                best[to] = longer
                heapq.heappush(queue, (longer, to, there))
    return math.inf


def test_paths_are_clear_within_reach_and_go_around_something(found: list[tuple[CooperationScene, PathTask]]) -> None:
    for scene, task in found:
        arm = next(robot for robot in scene.robots if robot.name == task.arm)
        assert isinstance(arm, Arm)
        assert clear(task.path, task.obstacles)
        assert not clear(task.path[[0, -1]], task.obstacles)
        assert len(task.path) > 2
        inside = resampled(task.path, 200)
        assert all(arm.reaches((*point, LEVEL)) for point in inside + 1e-3 * away(inside, arm))


def away(points: np.ndarray, arm: Arm) -> np.ndarray:
    offset = points - np.array(arm.pos[:2])
    return offset / np.linalg.norm(offset, axis=1, keepdims=True)


def test_no_way_over_a_grid_is_shorter_and_the_best_is_hardly_longer(
    found: list[tuple[CooperationScene, PathTask]],
) -> None:
    task = min((task for _, task in found), key=lambda task: task.length)
    assert float(np.linalg.norm(task.path[0] - task.path[-1])) < task.length <= on_grid(task)
    # Sixteen directions cost up to 2.7 %, corners and ends some cells.
    assert on_grid(task) <= 1.03 * task.length + 4 * CELL


def test_around_a_square() -> None:
    path = shortest_path(np.array([-2.0, 0.0]), np.array([2.0, 0.5]), [SQUARE])
    assert path is not None
    np.testing.assert_allclose(path, [[-2, 0], [-1, 1], [1, 1], [2, 0.5]])
    assert path_length(path) == pytest.approx(math.sqrt(2) + 2 + math.sqrt(1.25))
    walls = [SQUARE * [3.0, 0.1] + [0.0, y] for y in (-1.2, 1.2)] + [SQUARE * [0.1, 1.4] + [x, 0.0] for x in (-2, 2)]
    assert shortest_path(np.zeros(2), np.array([5.0, 0.0]), walls) is None


def test_what_is_clear_may_touch_but_not_cross() -> None:
    assert clear(np.array([[-2.0, 1.0], [2.0, 1.0]]), [SQUARE])
    assert not clear(np.array([[-2.0, 0.99], [2.0, 0.99]]), [SQUARE])
    assert clear(np.array([[-2.0, 0.99], [2.0, 0.99]]), [SQUARE], slack=0.02)
    assert not clear(np.array([[0.0, 0.0], [0.1, 0.0]]), [SQUARE])


def test_distances_of_hand_made_paths() -> None:
    line = np.array([[0.0, 0.0], [10.0, 0.0]])
    above = line + np.array([0.0, 3.0])
    for distance in (rmse, hausdorff, discrete_frechet):
        assert distance(line, line) == 0.0
        assert distance(line, above) == pytest.approx(3.0)
        assert distance(above, line) == pytest.approx(3.0)
    # Backwards covers the same points: only who walks along notices.
    assert hausdorff(line, line[::-1]) == pytest.approx(0.0)
    assert discrete_frechet(line, line[::-1]) == pytest.approx(10.0)
    # More corners on the way change nothing.
    assert rmse(line, np.array([[0.0, 0.0], [1.0, 0.0], [10.0, 0.0]])) == pytest.approx(0.0, abs=1e-12)


def test_pixels_lead_back_to_the_level() -> None:
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 3)) * [1, 0.6, 0] + [0, 0, LEVEL]
    np.testing.assert_allclose(VIEW.onto_level(VIEW.pixels(points), LEVEL), points, atol=1e-9)
    assert np.isnan(VIEW.onto_level(np.array([[400.0, -2000.0]]), LEVEL)).all()
    middle = np.array([[VIEW.width / 2, VIEW.height / 2]])
    ray = VIEW.onto_level(middle, LEVEL)[0] - np.array(VIEW.pos)
    fine = VIEW.rays.reshape(VIEW.height, VIEW.width, 3)
    near = fine[VIEW.height // 2 - 1 : VIEW.height // 2 + 1, VIEW.width // 2 - 1 : VIEW.width // 2 + 1].mean((0, 1))
    np.testing.assert_allclose(ray / np.linalg.norm(ray), near, atol=1e-5)
