"""Suites: one environment for several tasks, policies that are told which, and what an evaluation says of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied import evaluate, train
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.evaluation.rollouts import wilson
from embodied.evaluation.suites import evaluate_suite, find_suite, make_suite, overall
from embodied.factory import make
from embodied.registry import Registry, Suite, TaskEntry, join_content
from policies.training.loading import load_policy
from policies.training.settings import default_settings
from sim2real import export
from tasks.manipulation.common.tabletop import TabletopConfig
from tasks.manipulation.instructed.pick_among import PickAmongConfig

SUITE = Suite(
    "toy", "Two tasks of one robot.", ("manipulation/reach", "manipulation/push"), identified=True, seed=3, episodes=4
)
pytestmark = pytest.mark.timeout(280)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Suite:
    suite = Suite(**{**vars(SUITE), "training": "tasks.manipulation.training:TOUCH"})
    monkeypatch.setitem(join_content()._suites, "toy", suite)
    return suite


def test_names_find_tasks_and_suites_and_errors_name_both() -> None:
    registry = join_content()
    assert isinstance(registry.find("reach-walker"), Suite)
    assert isinstance(registry.find("swarm/hover"), TaskEntry)
    with pytest.raises(UnknownNameError, match="'reach-walker'"):
        registry.find("reach-walkr")
    with pytest.raises(UnknownNameError, match="'reach-walker'"):
        find_suite("reach-walkr")


def test_a_suite_is_hidden_while_a_task_of_it_is_missing_and_registers_once() -> None:
    registry = Registry()
    registry.register_suite(SUITE)
    assert not registry.suites
    for task in SUITE.tasks:
        registry.register(TaskEntry(task, "x:Y", "", ("mujoco",)))
    assert list(registry.suites) == ["toy"]
    registry.register_suite(SUITE)
    with pytest.raises(EmbodiedError, match="'toy' is registered twice"):
        registry.register_suite(Suite("toy", "Another.", SUITE.tasks))
    with pytest.raises(EmbodiedError, match="expected a name without '/'"):
        Suite("a/b", "", SUITE.tasks)


def test_all_tasks_step_side_by_side_each_as_alone_and_say_which_they_are(toy: Suite) -> None:
    env = make_suite("toy", 5, seed=7)
    assert env.num_envs == 5
    assert env.observation_spec["policy"].shape == (39 + 2,)
    obs = env.reset()["policy"]
    assert obs[:, 39:].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2
    action = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)) - 0.5
    step = env.step(action)
    for number, (task, rows) in enumerate(zip(toy.tasks, (slice(3), slice(3, 5)), strict=True)):
        alone = make(task, rows.stop - (rows.start or 0), seed=7 + number)
        assert torch.equal(alone.reset()["policy"], obs[rows, :39])
        assert torch.equal(alone.step(action[rows]).obs["policy"], step.obs["policy"][rows, :39])
    with pytest.raises(EmbodiedError, match=r"num_envs=1; expected at least 1 for each of the 2"):
        make_suite("toy", 1)


def test_a_suite_has_the_options_that_all_its_tasks_share_and_those_with_more_keep_theirs() -> None:
    mixed = Suite("mixed", "", ("manipulation/reach", "manipulation/pick-among"), options={"goals": 3})
    config = mixed.shared_config(training=False)
    assert type(config) is TabletopConfig
    among = make("manipulation/pick-among", 1, "mujoco", config=config).task.config
    assert among == PickAmongConfig(goals=3)
    strangers = Suite("strangers", "", ("manipulation/reach", "swarm/hover"))
    assert strangers.shared_config(training=False) is None


def test_an_evaluation_meets_every_start_once(toy: Suite) -> None:
    seen: dict[str, torch.Tensor] = {}

    def rule_of(env):  # type: ignore[no-untyped-def]
        def act(obs):  # type: ignore[no-untyped-def]
            seen.setdefault(env.name, obs["policy"][:, 36:39].clone())
            return torch.zeros(env.num_envs, 4)

        return act

    rows = evaluate_suite(toy, rule_of, episodes=3)
    assert [row["task"] for row in rows] == list(toy.tasks)
    for task in toy.tasks:
        expected = make(task, 3, seed=toy.seed).reset()["policy"][:, 36:39]
        assert torch.equal(seen[task], expected)
        assert len(torch.unique(seen[task], dim=0)) == 3


def test_the_mean_over_tasks_is_as_sure_as_its_tasks_allow() -> None:
    def row(successes: int, n: int = 50) -> dict[str, float]:
        rate, (low, high) = successes / n, wilson(successes, n)
        bounds = {f"{k}_{end}": v for k in ("success", "success_any") for end, v in (("low", low), ("high", high))}
        return {"success": rate, "success_any": rate, "return": 1.0, "seconds": 1.0, "episodes": n, **bounds}

    one, many = overall([row(30)]), overall([row(30)] * 10)
    assert [one["success"], many["success"]] == pytest.approx([0.6, 0.6])
    assert (one["success_high"] - one["success_low"]) / (many["success_high"] - many["success_low"]) == pytest.approx(
        np.sqrt(10)
    )
    assert one["success_low"] == pytest.approx(wilson(30, 50)[0], abs=0.02)
    assert 0.9 < overall([row(50)])["success_low"] < 1, "that all succeeded leaves some doubt"


def test_commands_train_and_evaluate_a_suite(toy: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One policy for both tasks, which also runs on each alone, and a page that shows both."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    flags = ["--num-envs", "4", "--steps", "1100", "--ppo.unroll", "16", "--ppo.minibatches", "1"]
    assert train.main(["toy", *flags, "--evaluate-episodes", "2", "--out", str(run), "--json", "t.json"]) == 0
    result = json.loads(Path("t.json").read_text())
    assert [row["task"] for row in result["results"]] == list(toy.tasks)
    env = make("manipulation/push", 2)
    policy = load_policy(run, env)
    assert policy(env.reset()).shape == (2, 4)
    with pytest.raises(EmbodiedError, match="it was trained on 'toy'"):
        load_policy(run, make("manipulation/push-back", 2))
    assert (
        evaluate.main(["toy", "--policy", str(run), "--episodes", "2", "--html", "page.html", "--json", "e.json"]) == 0
    )
    page = Path("page.html").read_text()
    assert all(name in page for name in ("reach", "push", "at the last step", "Learning", "</html>"))
    again = json.loads(Path("e.json").read_text())
    assert [row["return"] for row in again["results"]] == [row["return"] for row in result["results"]]


def test_where_goals_are_hidden_the_evaluation_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    short = ["--episodes", "1", "--episode-steps", "3"]
    assert evaluate.main(["ml1:reach", "--policy", "expert", *short]) == 0
    assert "are not shown the goals; experts are" in capsys.readouterr().out
    assert evaluate.main(["ml1:reach", "--policy", "zero", *short]) == 0
    assert "are not shown the goals; without memory, as this one, none" in capsys.readouterr().out


def test_a_policy_with_memory_is_evaluated_in_the_trials_that_it_learned_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training = join_content()["swarm/hover"].training
    hover = ("swarm/hover",)
    suite = Suite("hidden", "", hover, hover, unseen="goals", held_out_seed=7, episodes=2, training=training)
    monkeypatch.setitem(join_content()._suites, "hidden", suite)
    monkeypatch.chdir(tmp_path)
    flags = ["--num-envs", "4", "--steps", "64", "--ppo.unroll", "16", "--ppo.minibatches", "1", "--episode-steps", "5"]
    gru = ["--ppo.actor.architecture", "gru", "--ppo.actor.memory", "4", "--episodes-per-trial", "3"]
    assert train.main(["hidden", *flags, *gru, "--evaluate-episodes", "0", "--out", "run"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert (
        evaluate.main(["hidden", "--policy", "run", "--episode-steps", "5", "--html", "e.html", "--json", "e.json"])
        == 0
    )
    said = capsys.readouterr().out
    assert "episode 3, at the last step" in said
    assert "this one has memory, by which it can find them out" in said
    result = json.loads(Path("e.json").read_text())
    assert (result["episodes_per_trial"], result["episode_steps"]) == (3, 5)
    for by_episode, row in zip(("by_episode", "held_out_by_episode"), result["results"], strict=True):
        assert [each["episodes"] for each in result[by_episode]] == [2, 2, 2]
        mean = sum(each["return"] for each in result[by_episode]) / 3
        assert mean == pytest.approx(row["return"], rel=1e-4)
        assert [each["success"] for each in result[by_episode]] == [each["success"] for each in row["by_episode"]]


def test_what_cannot_adapt_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def error_of(command: Callable[[list[str]], int], *words: str) -> str:
        with pytest.raises(SystemExit):
            command(list(words))
        return capsys.readouterr().err

    said = error_of(evaluate.main, "ml10")
    assert "no policy is shipped for ml10, nor for 11 of its tasks, such as manipulation/push; expected --pol" in said
    assert "--adapt 0: expected at least 1" in error_of(evaluate.main, "ml10", "--policy", "zero", "--adapt", "0")
    assert "--episodes-per-trial 0: expected at least 1" in error_of(train.main, "ml10", "--episodes-per-trial", "0")
    said = error_of(train.main, "swarm/formation", "--episodes-per-trial", "2")
    assert "episodes_per_trial=2: Formation has 8 agents; expected a task of one robot" in said
    small = ["swarm/hover", "--num-envs", "4", "--steps", "64", "--ppo.unroll", "16", "--ppo.minibatches", "1"]
    assert train.main([*small, "--evaluate-episodes", "0", "--out", "plain"]) == 0
    capsys.readouterr()
    said = error_of(evaluate.main, "swarm/hover", "--policy", "plain", "--adapt", "3")
    assert "--adapt 3: policy 'plain' did not learn in trials, so it cannot adapt; expected one of embodied" in said
    assert train.main([*small, "--evaluate-episodes", "0", "--episodes-per-trial", "2", "--out", "none"]) == 0
    assert "warning: a policy without memory cannot adapt from episode to episode of a" in capsys.readouterr().err
    with pytest.raises(EmbodiedError, match="a policy that learned in trials: it observes rewards, which no robot"):
        export.trained("none")


def test_a_suite_without_training_defaults_is_for_evaluation() -> None:
    with pytest.raises(EmbodiedError, match="locomotion is for evaluation"):
        default_settings(join_content().find("locomotion"))
