"""Evaluations of trials: whole ones, and success by the number of an episode, which adds up."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import embodied
from embodied.errors import EmbodiedError
from embodied.evaluation.rates import EPISODE
from embodied.evaluation.rollouts import Evaluation, evaluate
from policies.policy import random_policy
from tests.kit.task_file import SOUND

EPISODES = 3


METRIC = """
    metric_units = {"distance": "m"}

    def metrics(self, world, state):
        return {"distance": jnp.abs(world.qpos[0] - state.goal)}
"""


def test_whole_trials_are_counted_and_their_episodes_add_up(tmp_path: Path) -> None:
    """Three trials in two environments: the first has two of them. Episodes that begin alike end differently."""
    (tmp_path / "mass.py").write_text(SOUND + METRIC)
    env = embodied.make(str(tmp_path / "mass.py"), 2, episode_steps=5, episodes_per_trial=EPISODES)
    outcome = evaluate(env, random_policy(1), 3)
    assert outcome.episodes == 3 * EPISODES
    assert outcome.values[EPISODE].tolist() == [1, 1, 2, 2, 3, 3, 1, 2, 3]
    each, whole = outcome.by_episode(), outcome.summary()
    assert [row[EPISODE] for row in each] == [1, 2, 3]
    assert [row["episodes"] for row in each] == [3, 3, 3]
    for key in ("return", "success", "success_any", "distance"):
        assert sum(row[key] for row in each) / EPISODES == pytest.approx(whole[key])
        first = outcome.values[key][outcome.values[EPISODE] == 1].double().mean()
        assert each[0][key] == pytest.approx(float(first))
    assert all(row["success_low"] <= row["success"] <= row["success_high"] for row in each)
    assert len({row["return"] for row in each}) == EPISODES
    assert EPISODE not in whole


def test_without_trials_there_is_nothing_by_episode() -> None:
    assert Evaluation(2, {"success": torch.ones(2)}, 1.0, 2).by_episode() == []


SOMETIMES = """
    def metrics(self, world, state):
        goal = state.goal
        return {"upper": jnp.where(goal > 0, goal, jnp.nan), "never": jnp.nan * goal, "goal": goal}
"""


def test_a_metric_that_is_no_number_in_an_episode_is_left_out_of_what_is_said_of_it(tmp_path: Path) -> None:
    """In statistics of a training, and in an evaluation; a metric that no episode has is missing."""
    (tmp_path / "mass.py").write_text(SOUND + SOMETIMES)
    env = embodied.make(str(tmp_path / "mass.py"), 8, episode_steps=3)
    outcome = evaluate(env, random_policy(1), 8)
    goals = outcome.values["goal"]
    assert 0 < int((goals > 0).sum()) < len(goals)
    for said in (outcome.summary(), env.statistics()):
        assert said["upper"] == pytest.approx(float(goals[goals > 0].double().mean()), rel=1e-4)
        assert said["goal"] == pytest.approx(float(goals.double().mean()), abs=1e-4)
        assert "never" not in said


@pytest.mark.parametrize(
    ("sound", "strange", "said"),
    [
        (
            '"near": jnp.exp(',
            '"near": jnp.nan * jnp.exp(',
            "reward holds 2 of 2 numbers that are not finite",
        ),
        ('"place": world.qpos,', '"place": world.qpos / 0.0,', "group 'policy' of observations holds 2 of 6 numbers"),
        ('{"near": 1.0}', '{"near": float("inf")}', "reward holds 2 of 2 numbers"),
    ],
)
def test_a_task_whose_numbers_are_none_has_no_figures(sound: str, strange: str, said: str, tmp_path: Path) -> None:
    assert SOUND.count(sound) == 1
    (tmp_path / "mass.py").write_text(SOUND.replace(sound, strange))
    with pytest.raises(EmbodiedError, match=said):
        evaluate(embodied.make(str(tmp_path / "mass.py"), 2, episode_steps=3), random_policy(1), 2)
