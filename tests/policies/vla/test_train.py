"""The command that fine-tunes: a run, going on with it, going further, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.storage.datasets.layout import DatasetInfo
from embodied.storage.datasets.writer import DatasetWriter
from embodied.storage.runs import Run
from policies.vla.data.demonstrations import EpisodeSelection, load_demonstrations
from policies.vla.fine_tuning.settings import Settings
from policies.vla.train import main
from tests.kit.vla import episode

INFO = DatasetInfo(20, ("front", "wrist"), (32, 32), ("x", "y", "z"), ("a", "b"))
BRIEF = ["--tuning.batch-size", "4", "--tuning.held-out", "0", "--device", "cpu", "--size", "micro"]


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "demonstrations"
    record(folder, 3)
    return folder


def record(folder: Path, count: int) -> None:
    with DatasetWriter(folder, INFO) as writer:
        for seed in range(count):
            writer.add(episode(seed))


def test_a_run_goes_on_to_its_own_end_or_further(demonstrations, tmp_path):
    out, told = tmp_path / "out", tmp_path / "result.json"
    assert main([str(demonstrations), "--steps", "2", *BRIEF, "--out", str(out), "--json", str(told)]) == 0
    assert json.loads(told.read_text())["gradient_steps"] == 2
    finished = Run.open(out).load().tensors
    for further, reached in (([], 2), (["--steps", "4"], 4)):
        told.unlink()
        assert main(["--resume", str(out), *further, "--json", str(told)]) == 0
        assert json.loads(told.read_text())["gradient_steps"] == reached
    run = Run.open(out)
    assert run.load().step == 4
    assert run.config["steps"] == 2  # what it was begun with
    assert any((finished[name] != tensor).any() for name, tensor in run.load().tensors.items() if name in finished)


def test_a_run_does_not_go_on_with_other_demonstrations(demonstrations, tmp_path):
    out, own = tmp_path / "out", shutil.copytree(demonstrations, tmp_path / "own")
    assert main([str(own), "--steps", "1", *BRIEF, "--out", str(out)]) == 0
    shutil.rmtree(own)
    record(own, 2)
    with pytest.raises(EmbodiedError, match=r"run '.*out' learned from .*; its dataset now has"):
        inspect.unwrap(main)(["--resume", str(out)])


def test_several_datasets_are_one(demonstrations, tmp_path):
    record(tmp_path / "more", 2)
    out = tmp_path / "out"
    assert main([str(demonstrations), str(tmp_path / "more"), "--steps", "1", *BRIEF, "--out", str(out)]) == 0
    assert Run.open(out).config["demonstrations"].startswith("5 episodes, 60 steps")
    few = load_demonstrations(
        (demonstrations, tmp_path / "more"), selection=EpisodeSelection(per_task=2)
    )  # of each dataset
    whole = load_demonstrations((demonstrations, tmp_path / "more"))
    for one, same in zip(few.episodes, (*whole.episodes[:2], *whole.episodes[3:]), strict=True):
        np.testing.assert_array_equal(one.state, same.state)
        np.testing.assert_array_equal(one.images["wrist"], same.images["wrist"])
    with DatasetWriter(tmp_path / "slow", dataclasses.replace(INFO, fps=10)) as writer:
        writer.add(episode(0))
    with pytest.raises(EmbodiedError, match=r"rate in Hz is 10, expected 20"):
        load_demonstrations((demonstrations, tmp_path / "slow"))


def test_messages_of_the_settings():
    with pytest.raises(EmbodiedError, match=r"which dataset\?"):
        Settings()
    with pytest.raises(EmbodiedError, match="--episodes-per-task -1: expected at least 1, or 0 for all"):
        Settings((Path("x"),), episodes_per_task=-1)
    with pytest.raises(EmbodiedError, match="--steps 0: expected at least 1"):
        Settings((Path("x"),), steps=0)
    with pytest.raises(EmbodiedError, match="--trial-episodes 0: expected at least 1"):
        Settings((Path("x"),), trial_episodes=0)
