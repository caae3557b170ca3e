"""Meta-World's benchmarks: lists, and the starts and goals that training and evaluation meet."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from tasks.manipulation import benchmarks
from tasks.manipulation.common.tabletop import TabletopConfig
from tests.kit.tabletop import REFERENCE, begun, tabletop
from tests.kit.worlds import jitted

SPLITS = REFERENCE["splits"]


def test_lists_are_metaworlds_but_for_the_task_that_was_in_both_halves_of_ml25() -> None:
    assert list(benchmarks.MT10) == SPLITS["mt10"]
    assert list(benchmarks.MT25) == SPLITS["mt25"]
    assert list(benchmarks.MT50) == SPLITS["mt50"]
    for name, train, test in (
        ("ml10", benchmarks.ML10_TRAIN, benchmarks.ML10_TEST),
        ("ml25", benchmarks.ML25_TRAIN, benchmarks.ML25_TEST),
        ("ml45", benchmarks.ML45_TRAIN, benchmarks.ML45_TEST),
    ):
        assert set(test) == set(SPLITS[f"{name}-test"])
        assert set(train) == set(SPLITS[f"{name}-train"]) - set(test)
        assert not set(train) & set(test)
    assert set(SPLITS["ml25-train"]) & set(SPLITS["ml25-test"]) == {"basketball"}


@functools.cache
def numbered(seed: int) -> Any:
    """The task with five starts."""
    return type(tabletop("push"))(TabletopConfig(goals=5, goal_seed=seed))


def test_an_environment_meets_all_starts_before_any_twice() -> None:
    task = numbered(seed=2)
    reset, restart = jitted(task.reset), jitted(task.restart)
    start, numbers, goals = reset(jax.random.PRNGKey(0)), [], []
    for episode in range(10):
        numbers.append(int(start.task_state.number))
        goals.append(np.asarray(start.task_state.goal))
        start = restart(jax.random.PRNGKey(100 + episode), start.task_state)
    assert sorted(numbers[:5]) == sorted(numbers[5:]) == list(range(5))
    assert len(np.unique(goals, axis=0)) == 5
    firsts = {int(reset(jax.random.PRNGKey(seed)).task_state.number) for seed in range(40)}
    assert firsts == set(range(5)), "environments begin anywhere in the list"


def test_training_starts_are_those_of_the_evaluation() -> None:
    """Number i is where environment i begins after `reset(seed)`, which is what a suite's evaluation does."""
    task = numbered(seed=2)
    begin = jitted(task.reset)(jax.random.PRNGKey(0))
    by_number = {}
    for _ in range(5):
        by_number[int(begin.task_state.number)] = np.asarray(begin.task_state.goal)
        begin = jitted(task.restart)(jax.random.PRNGKey(1), begin.task_state)
    env = make("manipulation/push", 5, seed=0)
    seen = env.reset(seed=2)["policy"][:, 36:39].numpy()
    np.testing.assert_allclose(seen, [by_number[number] for number in range(5)], atol=1e-6)


def test_goals_are_counted_and_other_seeds_give_others() -> None:
    a, b = (jitted(numbered(seed).reset)(jax.random.PRNGKey(0)).task_state.goal for seed in (2, 1))
    assert not np.allclose(a, b)
    with pytest.raises(EmbodiedError, match="goals=0 must be at least 1"):
        TabletopConfig(goals=0)


def test_meta_learning_hides_the_goal_and_holds_out_other_goals_of_the_same_task() -> None:
    suite = join_content().suites["ml1:push"]
    assert suite.options["hide_goal"]
    assert suite.unseen == "goals"
    assert suite.tasks == suite.held_out
    assert suite.seed != suite.held_out_seed
    assert not join_content().suites["mt1:push"].options


def test_scripts_know_the_goals_that_policies_must_find_out() -> None:
    task, state = tabletop("reach"), begun("reach").start.task_state
    hiding = type(task)(TabletopConfig(hide_goal=True))
    shown = np.random.default_rng(0).uniform(0, 1, 39).astype(np.float32)
    shown[36:] = state.goal
    hidden = np.concatenate([shown[:36], np.zeros(3, np.float32)])
    acts = [np.asarray(jitted(one.expert)({"policy": seen}, state)) for one, seen in ((task, shown), (hiding, hidden))]
    np.testing.assert_allclose(acts[1], acts[0], atol=1e-6)
    assert np.abs(acts[0] - jitted(task.expert)({"policy": hidden}, state)).max() > 1e-3
