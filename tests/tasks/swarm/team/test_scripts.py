"""Scripts that learned teams are compared with: frontier exploration, and stations placed by Lloyd's algorithm."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from embodied.env.factory import make
from embodied.evaluation.rollouts import evaluate
from policies.training.loading import load_policy
from tasks.swarm.multi.coverage import distance_to
from tests.kit.scripts import obeyed
from tests.kit.worlds import task_of

pytestmark = pytest.mark.timeout(280)


def by_search(goal: np.ndarray, blocked: np.ndarray) -> np.ndarray:
    """Breadth-first search from every goal at once."""
    far = np.full(goal.shape, np.inf)
    queue = deque(map(tuple, np.argwhere(goal & ~blocked)))
    for cell in queue:
        far[cell] = 0
    while queue:
        i, j = queue.popleft()
        for near in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            if min(near) >= 0 and max(near) < len(goal) and not blocked[near] and far[i, j] + 1 < far[near]:
                far[near] = far[i, j] + 1
                queue.append(near)
    return far


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_the_way_to_unseen_ground_is_the_shortest_around_hills(share):
    generator = np.random.default_rng(int(10 * share))
    for _ in range(5):
        blocked = generator.random((12, 12)) < share
        goal = (generator.random((12, 12)) < 0.05) & ~blocked
        np.testing.assert_array_equal(np.asarray(distance_to(goal, blocked)), by_search(goal, blocked))


FOUND = [("coverage", "explored", 0.2), ("base-station", "served", 0.9)]


@pytest.mark.parametrize(("task", "metric", "least"), FOUND)
def test_drones_that_do_as_scripts_say_do_what_those_that_fly_at_random_do_not(task, metric, least):
    """On average over ten seconds of two episodes."""
    followed, random = (
        np.mean([obeyed(task_of(f"swarm/{task}"), 240, scripted, seed)[1][metric].mean() for seed in (0, 1)])
        for scripted in (True, False)
    )
    assert followed > least
    assert followed > 1.2 * random


@pytest.mark.slow
@pytest.mark.parametrize(("task", "metric", "least"), [*FOUND, ("path-finding", "throughput", 5.0)])
def test_scripts_do_what_random_actions_do_not(task, metric, least):
    with make(f"swarm/{task}", 8, "rigid", seed=0, episode_steps=480 if task == "path-finding" else 250) as env:
        found = {name: evaluate(env, load_policy(name, env), 8).summary()[metric] for name in ("expert", "random")}
    assert found["expert"] > least
    assert found["expert"] > (5.0 if task == "path-finding" else 1.2) * found["random"]
