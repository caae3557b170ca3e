"""Suites: one environment for several tasks, policies that are told which, and what an evaluation says of each."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embodied import evaluate, train
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.options import EnvOptions
from embodied.env.registry import Registry, Suite, TaskEntry, join_content
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.evaluation import suites as evaluate_suites
from embodied.evaluation.rates import overall, wilson
from embodied.evaluation.suites import build_suite, evaluate_suite, find_suite
from policies.training.loading import load_policy
from policies.training.settings import default_settings
from sim2real import export
from tasks.manipulation.common.tabletop import TabletopConfig
from tasks.manipulation.instructed.pick_among import PickAmongConfig
from tests.kit.budget import sharing
from tests.kit.commands import Main, refused, run
from tests.kit.task_file import WITH_EXPERT, registered

LAB = (
    WITH_EXPERT
    + '''

class Far(Sound):
    """Push a mass to a goal that is twice as far."""

    def reset(self, key):
        start = super().reset(key)
        return dataclasses.replace(
            start, task_state=dataclasses.replace(start.task_state, goal=2 * start.task_state.goal)
        )


class Other(Sound):
    """Push a mass to a goal, in no suite."""
'''
)
SIZE = 3  # numbers of a toy's observation, of which the last says where the goal is
SUITE = Suite("toy", "Two tasks of one robot.", ("toys/sound", "toys/far"), identified=True, seed=3, episodes=4)
SMALL = ["--num-envs", "4", "--ppo.unroll", "16", "--ppo.minibatches", "1"]
pytestmark = pytest.mark.timeout(280)


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Register three tasks that compile in a moment."""
    file = tmp_path_factory.mktemp("lab") / "lab.py"
    file.write_text(LAB)
    with registered(file, sound="Sound", far="Far", other="Other"):
        yield


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Suite:
    suite = replace(SUITE, training="tasks.manipulation.training:TOUCH")
    monkeypatch.setitem(join_content()._suites, "toy", suite)
    return suite


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite that does not show goals."""
    task, training = ("toys/sound",), join_content()["swarm/hover"].training
    suite = Suite("hidden", "", task, task, unseen="goals", held_out_seed=7, episodes=2, training=training)
    monkeypatch.setitem(join_content()._suites, "hidden", suite)
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


@functools.cache
def alone(task: str, num_envs: int, seed: int) -> Env:
    with sharing(f"{task}, {num_envs}"):
        env = make(task, num_envs, seed=seed)
        env.reset()
    return env


def test_all_tasks_step_side_by_side_each_as_alone_and_say_which_they_are(toy: Suite) -> None:
    env = build_suite(EnvOptions("toy", 5, seed=7))
    assert env.num_envs == 5
    assert env.observation_spec["policy"].shape == (SIZE + 2,)
    obs = env.reset()["policy"]
    assert obs[:, SIZE:].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2
    action = torch.rand(5, 1, generator=torch.Generator().manual_seed(0)) - 0.5
    step = env.step(action)
    for number, (task, rows) in enumerate(zip(toy.tasks, (slice(3), slice(3, 5)), strict=True)):
        own = alone(task, rows.stop - (rows.start or 0), 7 + number)
        assert torch.equal(own.reset(7 + number)["policy"], obs[rows, :SIZE])
        assert torch.equal(own.step(action[rows]).obs["policy"], step.obs["policy"][rows, :SIZE])
    with pytest.raises(EmbodiedError, match=r"num_envs=1; expected at least 1 for each of the 2"):
        build_suite(EnvOptions("toy"))


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
            seen.setdefault(env.name, obs["policy"][:, :SIZE].clone())
            return torch.zeros(env.num_envs, 1)

        return act

    rows = evaluate_suite(toy, rule_of, episodes=3)
    assert [row["task"] for row in rows] == list(toy.tasks)
    first, second = (seen[task] for task in toy.tasks)
    assert torch.equal(first, alone(toy.tasks[0], 3, toy.seed).reset(toy.seed)["policy"][:, :SIZE])
    assert torch.equal(first[:, :2], second[:, :2])  # places and speeds, which the tasks draw alike
    assert len(torch.unique(first, dim=0)) == 3


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


@functools.cache
def trained_suite(folder: Path) -> tuple[str, dict[str, Any]]:
    """A run of the suite `toy`, and what training wrote."""
    flags = [*SMALL, "--steps", "128", "--evaluate-episodes", "2"]
    with sharing("a training of a suite"):
        assert train.main(["toy", *flags, "--out", f"{folder}/toy", "--json", f"{folder}/t.json"]) == 0
    return f"{folder}/toy", json.loads((folder / "t.json").read_text())


@pytest.fixture
def trained(toy: Suite, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    del toy
    return trained_suite(tmp_path_factory.getbasetemp())


def test_one_policy_is_trained_for_both_tasks_and_acts_in_each_alone(
    toy: Suite, trained: tuple[str, dict[str, Any]]
) -> None:
    folder, result = trained
    assert [row["task"] for row in result["results"]] == list(toy.tasks)
    env = make("toys/far", 2)
    policy = load_policy(folder, env)
    assert policy(env.reset()).shape == (2, 1)
    with pytest.raises(EmbodiedError, match="it was trained on 'toy'"):
        load_policy(folder, make("toys/other", 2))


def test_it_is_evaluated_as_after_its_training_with_a_page_that_shows_both(
    trained: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    folder, result = trained
    page, again = tmp_path / "page.html", tmp_path / "e.json"
    words = ["toy", "--policy", folder, "--episodes", "2", "--html", str(page), "--json", str(again)]
    assert evaluate.main(words) == 0
    assert all(name in page.read_text() for name in ("sound", "far", "at the last step", "Learning", "</html>"))
    rows = json.loads(again.read_text())["results"]
    assert [row["return"] for row in rows] == [row["return"] for row in result["results"]]


def test_tasks_that_were_evaluated_survive_a_stop_and_the_result_is_that_of_one_process(
    toy: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, built = [toy.name, "--policy", "expert", "--episodes", "2", "--episode-steps", "5"], evaluate_suites.build

    def result(*more: str) -> list[dict[str, Any]]:
        assert evaluate.main([*words, *more, "--json", "e.json"]) == 0
        rows = json.loads(Path("e.json").read_text())["results"]
        return [{name: value for name, value in row.items() if "second" not in name} for row in rows]

    def stopped(options: EnvOptions[Any]) -> Env:
        if options.task == toy.tasks[1]:
            raise KeyboardInterrupt
        return built(options)

    whole = result()
    with monkeypatch.context() as patch:
        patch.setattr(evaluate_suites, "build", stopped)
        said = run(evaluate.main, *words)
    assert (said.code, "1 of 2 tasks are evaluated; the same command with --resume goes on" in said.err) == (130, True)
    (left,) = Path("runs/evaluations/toy").glob("unfinished-*.json")
    with monkeypatch.context() as patch:
        patch.setattr(
            evaluate_suites, "build", lambda options: built(options) if options.task != toy.tasks[0] else None
        )
        assert result("--resume") == whole
    assert not left.exists()
    left.write_text('{"rows": 3}')
    assert "; remove it" in refused(evaluate.main, *words, "--resume")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("expert", "are not shown the goals; experts are"),
        ("zero", "are not shown the goals; without memory, as this one, none"),
    ],
)
def test_where_goals_are_hidden_the_evaluation_says_so(
    policy: str, said: str, hidden: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [hidden.name, "--policy", policy, "--episodes", "1", "--episode-steps", "3"]
    assert said in run(evaluate.main, *words).out


@functools.cache
def remembered(suite: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """What is said and written of a policy with memory, which learned in trials of three short episodes."""
    out = f"{folder}/remembering"
    flags = [*SMALL, "--steps", "64", "--episode-steps", "5", "--evaluate-episodes", "0", "--out", out]
    gru = ["--ppo.actor.architecture", "gru", "--ppo.actor.memory", "4", "--episodes-per-trial", "3"]
    words = ["--episode-steps", "5", "--html", f"{out}/e.html", "--json", f"{out}/e.json"]
    with sharing("a policy with memory"):
        trained = run(train.main, suite, *flags, *gru)
        evaluated = run(evaluate.main, suite, "--policy", out, *words)
    assert (trained.code, evaluated.code) == (0, 0)
    assert "warning" not in trained.err
    return evaluated.out, json.loads(Path(f"{out}/e.json").read_text())


def test_a_policy_with_memory_is_evaluated_in_the_trials_that_it_learned_in(
    hidden: Suite, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said, result = remembered(hidden.name, tmp_path_factory.getbasetemp())
    assert "episode 3, at the last step" in said
    assert "this one has memory, by which it can find them out" in said
    assert (result["episodes_per_trial"], result["episode_steps"]) == (3, 5)
    for by_episode, row in zip(("by_episode", "held_out_by_episode"), result["results"], strict=True):
        assert [each["episodes"] for each in result[by_episode]] == [2, 2, 2]
        mean = sum(each["return"] for each in result[by_episode]) / 3
        assert mean == pytest.approx(row["return"], rel=1e-4)
        assert [each["success"] for each in result[by_episode]] == [each["success"] for each in row["by_episode"]]


@pytest.mark.parametrize(
    ("main", "words", "said"),
    [
        (evaluate.main, ["ml10"], "no policy is shipped for ml10, nor for 11 of its tasks, such as manipulation/push; "
         "expected --pol"),
        (evaluate.main, ["ml10", "--policy", "zero", "--adapt", "0"], "episodes_per_trial=0; expected a whole"),
        (train.main, ["ml10", "--episodes-per-trial", "0"], "episodes_per_trial=0; expected a whole"),
        (train.main, ["swarm/formation", "--episodes-per-trial", "2"],
         "episodes_per_trial=2: Formation is a team's, agents=8; expected a task without"),
    ],
)  # fmt: skip
def test_what_cannot_adapt_is_said_in_one_line(main: Main, words: list[str], said: str) -> None:
    assert said in refused(main, *words)


def test_a_policy_that_did_not_learn_in_trials_cannot_adapt(tmp_path: Path) -> None:
    plain = str(tmp_path / "plain")
    words = ["toys/sound", *SMALL, "--steps", "64", "--evaluate-episodes", "0"]
    assert run(train.main, *words, "--out", plain).code == 0
    said = refused(evaluate.main, "toys/sound", "--policy", plain, "--adapt", "3")
    assert f"--adapt 3: policy '{plain}' did not learn in trials, so it cannot adapt; expected one of embodied" in said


def test_without_memory_trials_are_warned_of_and_not_deployed(tmp_path: Path) -> None:
    words = ["toys/sound", *SMALL, "--steps", "64", "--evaluate-episodes", "0", "--episodes-per-trial", "2"]
    said = run(train.main, *words, "--out", str(tmp_path / "none")).err
    assert "warning: a policy without memory cannot adapt from episode to episode of a" in said
    with pytest.raises(EmbodiedError, match="a policy that learned in trials: it observes rewards, which no robot"):
        export.trained(str(tmp_path / "none"))


def test_a_suite_without_training_defaults_is_for_evaluation() -> None:
    with pytest.raises(EmbodiedError, match="locomotion is for evaluation"):
        default_settings(join_content().find("locomotion"))
