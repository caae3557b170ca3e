"""Which policies a viewer offers, and which checkpoint of a run it plays."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import torch

from embodied.env.options import EnvOptions
from embodied.errors import EmbodiedError
from embodied.rendering.camera_config import CameraConfig
from embodied.storage import checkpoints
from embodied.storage.runs import Run
from policies.training.choices import PolicyCatalogue
from policies.training.loading import shipped_path
from policies.training.watching import SECONDS, Watcher
from tests.kit.training import NUM_ENVS, hover

HOVER = "swarm/hover"


def shipped() -> tuple[dict, dict]:
    checkpoint = checkpoints.load(shipped_path(HOVER))
    return checkpoint.tensors, checkpoint.meta


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two runs of hover, the older first, and one that holds nothing yet."""
    monkeypatch.chdir(tmp_path)
    made = []
    for _ in range(2):
        with Run.create(Path("runs"), HOVER, {}) as run:
            run.save(10, *shipped())
            run.save(20, *shipped())
        made.append(run)
    Run.create(Path("runs"), HOVER, {}).close()
    return made


def test_runs_come_newest_first_then_what_is_always_there(runs: list[Run]) -> None:
    older, newer = runs
    choices = PolicyCatalogue().choices(HOVER)
    assert [choice.policy for choice in choices] == [str(newer.path), str(older.path), "shipped", "random", "zero"]
    assert choices[0].label == f"run {newer.path.name}"
    assert choices[0].checkpoints == (20, 10)
    assert "expert" in [choice.policy for choice in PolicyCatalogue().choices("manipulation/reach")]


def test_a_policy_that_was_named_comes_first_unless_it_is_among_them(runs: list[Run], tmp_path: Path) -> None:
    elsewhere = checkpoints.save(tmp_path / "elsewhere", 3, *shipped())
    named = PolicyCatalogue(given=[(HOVER, str(elsewhere))])
    assert named.choices(HOVER)[0].policy == str(elsewhere)
    again = PolicyCatalogue(given=[(HOVER, str(runs[0].path.absolute()))])
    assert [choice.policy for choice in again.choices(HOVER)] == [
        choice.policy for choice in PolicyCatalogue().choices(HOVER)
    ]


def test_the_newest_snapshot_of_a_run_is_played_and_a_checkpoint_where_it_is_chosen(runs: list[Run]) -> None:
    run, catalogue = runs[0], PolicyCatalogue()
    policy = str(run.path)
    assert catalogue.newest_step(policy) == 20
    tensors, meta = shipped()
    changed = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    for step in (25, 30, 35):
        run.save_snapshot(step, changed, meta)
    assert catalogue.newest_step(policy) == 35
    assert checkpoints.steps(run.path / "snapshot") == [30, 35]
    env = hover()
    obs = env.reset(0)
    newest, chosen, given = (
        rule(obs) for rule in (catalogue.load(policy, None, env), catalogue.load(policy, 10, env),
                               catalogue.load("shipped", None, env))
    )  # fmt: skip
    assert not newest.any()
    torch.testing.assert_close(chosen, given)
    assert catalogue.newest_step("shipped") is None
    assert catalogue.newest_step(str(run.checkpoints / checkpoints.name_of(10))) == 10


def test_a_run_without_a_policy_says_so(runs: list[Run]) -> None:
    empty = next(run for run in Run.all(Path("runs"), HOVER) if run.newest_snapshot() is None)
    with pytest.raises(EmbodiedError, match="holds no policy yet"):
        PolicyCatalogue().load(str(empty.path), None, hover())
    del runs


def test_learning_curves_are_those_of_the_run(runs: list[Run]) -> None:
    run = Run.open(runs[0].path)
    run.log(10, {"loss": 1.0})
    run.log(20, {"return": 5.0, "success": 0.5})
    run.log(30, {"return": 7.0, "success": 0.75})
    run.close()
    found = PolicyCatalogue().learning(str(run.path))
    assert found == {"steps": [20, 30], "return": [5.0, 7.0], "success rate": [0.5, 0.75]}
    assert PolicyCatalogue().learning("shipped") == {}


def test_environments_suit_the_policy_and_can_be_shared_by_policies_of_the_same_needs(runs: list[Run]) -> None:
    catalogue = PolicyCatalogue(EnvOptions("", camera_config=CameraConfig(("track",))), given=[(HOVER, "zero")])
    assert catalogue.needs(HOVER, "zero") == catalogue.needs(HOVER, "shipped")
    assert catalogue.needs(HOVER, "zero").camera_config.cameras == ("track",)
    assert catalogue.needs("swarm/landing", "zero").camera_config.cameras == ()
    del runs


def test_a_watcher_saves_snapshots_at_intervals_and_opens_one_viewer(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer, clock = mock.Mock(), [100.0]
    monkeypatch.setattr("policies.training.watching.subprocess.Popen", viewer)
    monkeypatch.setattr("policies.training.watching.time.monotonic", lambda: clock[0])
    watcher = Watcher(runs[0], HOVER)
    tensors, meta = shipped()
    tree = {name.replace("policy/", ""): tensor for name, tensor in tensors.items()}
    for step, seconds in ((100, 0.0), (200, 1.0), (300, SECONDS)):
        clock[0] = 100.0 + seconds
        watcher.update(step, lambda: (meta, {"policy": tree}))
    assert checkpoints.steps(runs[0].path / "snapshot") == [100, 300]
    empty = next(run for run in Run.all(Path("runs"), HOVER) if run.newest_snapshot() is None)
    Watcher(empty, HOVER).update(5, lambda: (meta, {"policy": tree}))  # before there is a checkpoint
    env = hover()
    assert PolicyCatalogue().load(str(empty.path), None, env)(env.reset(0)).shape == (NUM_ENVS, 4)
    started, _ = viewer.call_args_list
    assert started.args[0][1:6] == ["-m", "embodied.play", HOVER, "--policy", str(runs[0].path)]
    assert started.kwargs["env"]["JAX_PLATFORMS"] == "cpu"
    watcher.close()
    watcher.close()
    assert viewer.return_value.mock_calls == [mock.call.terminate(), mock.call.wait()]
