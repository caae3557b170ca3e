"""The table of the learners: its task rewards success alone, its cells are measured once, and every learner has one."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from benchmarks.learners import __main__ as command
from benchmarks.learners import cells, table
from benchmarks.learners.cells import Budget, Cell, settings_of
from benchmarks.learners.miniature import miniature
from benchmarks.learners.sparse import OFF_POLICY, SPARSE
from benchmarks.learners.sparse_task import HOLD, demonstrated, sparse_environment
from embodied.env.env import Env
from embodied.errors import EmbodiedError, UnknownNameError
from policies.data import demonstrations
from policies.registry import ALGORITHMS
from policies.training.loading import load_policy
from tests.kit.task_file import WITH_EXPERT, registered

STEADY = WITH_EXPERT.replace(
    'jnp.sign(observation["policy"][2:])',
    'jnp.clip(jnp.array([0.0, -9.0, 20.0]) @ observation["policy"], -1.0, 1.0)[None]',
).replace("episode_seconds=1.0", "episode_seconds=3.0")
"""A task whose expert comes to the goal from everywhere, and stays."""

CELL = Cell("sparse", "toys/mass", "bc", 0, 10)


@pytest.fixture(scope="module", autouse=True)
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("lab") / "mass.py"
    file.write_text(STEADY)
    with registered(file, mass="Sound"):
        yield


@pytest.fixture(scope="module")
def budget(tmp_path_factory) -> Budget:
    return Budget(steps=64, episodes=2, threads=1, work=tmp_path_factory.mktemp("work"), smoke=True)


@pytest.fixture(scope="module")
def env(budget) -> Env:
    return sparse_environment(CELL, budget)


def test_the_reward_is_1_once_where_success_has_held_and_there_the_episode_ends(env):
    obs, expert = env.reset(), load_policy("expert", env)
    total, step = torch.zeros(env.num_envs), env.step(expert(obs))
    while not step.done.any():
        step = env.step(expert(step.obs))
        assert torch.equal(step.reward > 0, step.success)
        assert torch.equal(step.success, step.terminated)
        total += step.reward
    assert step.success.any()
    assert total[step.success].tolist() == [1.0] * int(step.success.sum())
    assert (step.info["length"][step.success] > HOLD).all()


def test_who_does_nothing_earns_nothing_until_time_is_up(env):
    env.reset()
    steps = [env.step(torch.zeros(env.num_envs, env.action_size)) for _ in range(env.max_episode_steps)]
    assert not torch.stack([step.reward for step in steps]).any()
    assert not torch.stack([step.terminated for step in steps]).any()
    assert steps[-1].truncated.all()


def test_demonstrations_are_recorded_once_and_each_ends_in_success(budget):
    path = demonstrated(CELL, budget)
    written = path.stat().st_mtime_ns
    assert demonstrated(CELL, budget).stat().st_mtime_ns == written
    spec = sparse_environment(CELL, budget).observation_spec
    steps = demonstrations.load(path, spec, 1)
    assert torch.equal(steps.reward > 0, steps.terminated)
    assert int(steps.terminated.sum()) == 2


def test_every_learner_that_is_listed_has_a_method():
    methods = {method for problem in command.PROBLEMS for method in problem.methods}
    assert set(ALGORITHMS) <= methods


def test_every_learner_that_is_listed_has_been_measured():
    assert set(ALGORITHMS) <= {record["method"] for record in table.read()}


def test_a_curve_has_a_point_for_each_share_of_the_budget_that_is_used_up_first(monkeypatch):
    budget = Budget(steps=10**9, episodes=2, threads=1, work=Path(), seconds=float(cells.POINTS))
    now = iter(range(10))
    monkeypatch.setattr(cells.time, "monotonic", lambda: next(now) + 0.5)
    curve, trainer = cells.Curve(budget, cells.Stopwatch(began=0.0)), cast(Any, types.SimpleNamespace(steps=0))
    for steps in range(10):
        curve(trainer, {"episodes": 1.0, "return": 0.0, "success": steps / 10})
    assert [point["seconds"] for point in curve.points] == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]
    assert curve.points[0]["success"] == pytest.approx(0.05)  # both iterations since training began


def test_trials_of_a_policy_stand_in_the_curve_and_not_in_its_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(cells.time, "monotonic", lambda: now[0])

    def trial(policy: Any) -> dict[str, float]:
        now[0] += 100.0
        return {"success": 0.25}

    budget = Budget(steps=10**9, episodes=2, threads=1, work=Path(), seconds=float(cells.POINTS))
    watch, trainer = cells.Stopwatch(began=0.0), cast(Any, types.SimpleNamespace(steps=0, policy=None))
    curve = cells.Curve(budget, watch, trial)
    for _ in range(7):
        now[0] += 1.0
        curve(trainer, {"episodes": 1.0, "return": 0.0, "success": 0.0})
    assert [point["seconds"] for point in curve.points] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert [point.get("trial/success") for point in curve.points] == [0.25, None, None, 0.25, None, None, 0.25]
    assert (watch.seconds, watch.aside) == (7.0, 300.0)


def chosen(**filters: Any) -> list[Cell]:
    return [cell for _, cell in command.cells(command.Settings(**filters))]


def test_filters_choose_cells_and_each_has_a_file_of_its_own():
    everything = chosen()
    assert len({cell.path(Path()) for cell in everything}) == len(everything)
    few = chosen(
        problems=("sparse",), tasks=("drawer-open", "push"), methods=("rlpd",), demonstrations=(50,), seeds=(1,)
    )
    assert [(cell.task, cell.name) for cell in few] == [
        ("manipulation/drawer-open", "rlpd_demos50_seed1"),
        ("manipulation/push", "rlpd_demos50_seed1"),
    ]
    assert {cell.seed for cell in everything[: len(everything) // 3]} == {0}


@pytest.mark.parametrize("filters", [{"problems": ("spare",)}, {"tasks": ("drawer",)}, {"methods": ("rlp",)}])
def test_names_that_do_not_exist_are_refused(filters):
    with pytest.raises(UnknownNameError, match=r"unknown (problem|task|method)"):
        chosen(**filters)


def test_what_is_cut_down_does_not_go_among_the_results():
    with pytest.raises(EmbodiedError, match="another --out FOLDER"):
        command.Settings(smoke=True)


def test_settings_name_files_without_their_folders(tmp_path):
    config = OFF_POLICY["rlpd"]()
    values = settings_of(type(config)(demonstrations=tmp_path / "shown.safetensors"))
    assert values["demonstrations"] == "shown.safetensors"
    assert str(tmp_path) not in json.dumps(values)


@pytest.mark.parametrize("name", OFF_POLICY)
def test_cut_down_settings_are_valid_and_no_larger(name):
    config = OFF_POLICY[name]()
    small = miniature(config)
    assert type(small) is type(config)
    assert small.offline_updates <= config.offline_updates
    assert small.batch_size < config.batch_size


def record(
    method: str, task: str, seed: int, success: float, date: str = "2026-11-26T00:00:00+00:00"
) -> dict[str, Any]:
    found = {"success": success, "success_low": success - 0.1, "success_high": success + 0.1, "episodes": 100.0}
    found |= {name.replace("success", "success_any"): value for name, value in found.items() if "success" in name}
    cell = {"problem": "sparse", "task": f"manipulation/{task}", "method": method, "seed": seed, "demonstrations": 10}
    return {**cell, "evaluation": found, "env_steps": 100_000, "core_minutes": 3.0, "hardware": {"date": date}}


def test_one_seed_has_its_episodes_interval_and_several_have_that_of_the_seeds():
    one = table.markdown([record("bc", "push", 0, 0.5)])
    assert "| `manipulation/push` | 10 | bc | 50 (40 to 60) | 50 (40 to 60) | 100,000 | 3.0 |" in one
    several = table.markdown([record("bc", "push", seed, value) for seed, value in enumerate((0.2, 0.4, 0.6))])
    assert "| bc | 40 (20 to 60) |" in several


def test_what_was_measured_with_another_hand_is_marked_and_not_compared():
    old = "2026-11-25T10:00:00+00:00"
    records = [record("bc", task, 0, 0.5) for task in ("push", "drawer-open")]
    text = table.markdown([*records, record("rlpd", "push", 0, 0.9, old), record("rlpd", "drawer-open", 0, 0.9, old)])
    assert "| `manipulation/push` | 10 | rlpd‡ | 90" in text
    assert "| 10 | bc | 2 x 1 |" in text
    assert "| 10 | rlpd |" not in text
    assert "‡ With Franka's hand" in text


def test_over_the_tasks_only_seeds_count_that_all_of_them_have():
    values = {"bc": 0.3, "rlpd": 0.8}
    records = [
        record(method, task, seed, value + 0.01 * seed)
        for method, value in values.items()
        for task in ("push", "door-open")
        for seed in range(3)
    ]
    records.append(record("rlpd", "push", 3, 0.0))
    summary = table.markdown(records).split("Over the tasks")[1]
    assert "| 10 | bc | 2 x 3 | 31 (30 to 32) | 31 (30 to 32) |  |" in summary
    assert "| 10 | rlpd | 2 x 3 | 81 (80 to 82) | 81 (80 to 82) | 100 (100 to 100) |" in summary


def test_a_task_whose_measure_is_the_return_counts_in_no_summary_of_success():
    by_success = [record(method, task, 0, 0.5) for method in ("bc", "rlpd") for task in ("push", "door-open")]
    by_return = record("rlpd", "run", 0, 1.0)
    by_return["evaluation"] |= {"return": 9_000.0, "reference_return": 9_500.0}
    summary = table.markdown([*by_success, by_return]).split("Over the tasks")[1]
    assert "| 10 | bc | 2 x 1 |" in summary
    assert "| 10 | rlpd | 2 x 1 | 50 | 50 |" in summary


def smoke(folder: Path, *words: str) -> list[Path]:
    """Files of a smoke run."""
    command.main(command.parsed(["--smoke", "--out", str(folder), "--work", str(folder / "work"), *words]))
    return sorted(folder.glob("*/*/*.json"))


WORDS = ("--problems", "sparse", "--methods", "bc", "rlpd")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Path]]]:
    """The folder of a smoke run on the toy, and its files."""
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "PROBLEMS", (dataclasses.replace(SPARSE, tasks=(CELL.task,)),))
        yield folder, smoke(folder, *WORDS)


def test_a_result_says_what_was_done(measured):
    _, files = measured
    assert [file.stem for file in files] == ["bc_demos10_seed0", "rlpd_demos10_seed0"]
    result = json.loads(files[1].read_text())
    assert result["env_steps"] >= 64
    assert result["core_minutes"] > 0
    assert {"commit", "cpu"} <= set(result["hardware"])
    assert result["settings"]["type"] == "RLPDConfig"
    assert result["command"].startswith("python -m benchmarks.learners --problems sparse --tasks mass")


def test_what_was_measured_is_not_measured_again(measured):
    folder, files = measured
    written = [file.stat().st_mtime_ns for file in files]
    assert [file.stat().st_mtime_ns for file in smoke(folder, *WORDS)] == written


@pytest.mark.slow
@pytest.mark.parametrize("problem", [problem.name for problem in command.PROBLEMS])
def test_every_method_runs(problem: str, tmp_path: Path) -> None:
    methods = {method for known in command.PROBLEMS if known.name == problem for method in known.methods}
    assert len(smoke(tmp_path, "--problems", problem)) == len(methods)
