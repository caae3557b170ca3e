"""Several seeds by one command: each in a run of its own, none trained twice, reported together."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest

from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, RunError
from embodied.storage import checkpoints
from embodied.storage.runs import Run
from policies.training import launch, seeds
from tests.kit.training import NUM_ENVS, PPO, SMALL, STEP, TASK

pytestmark = pytest.mark.usefixtures("ppo_compiled")


def settings(*words):
    return launch.parse(join_content().find(TASK), [*SMALL, *PPO, "--evaluate-episodes", str(NUM_ENVS), *words])


def test_a_cut_off_seed_goes_on_and_a_finished_one_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = settings("--seeds", "0", "1", "--steps", str(3 * STEP), "--name", "two", "--json", "result.json")
    folder = seeds.folder_of(asked)
    assert folder.as_posix() == "runs/swarm/hover/two"
    alone = {seed: dataclasses.replace(asked, seed=seed, seeds=(), out=folder / f"seed-{seed}") for seed in range(2)}
    first = launch.start(alone[0])
    assert first is not None
    launch.start(alone[1], stop_early=lambda steps, _: steps >= STEP)
    assert not Run.open(folder / "seed-1").result
    saved = (folder / "seed-0" / "result.json").stat().st_mtime_ns
    assert seeds.train_seeds(asked, "python -m embodied.train") == 0
    assert (folder / "seed-0" / "result.json").stat().st_mtime_ns == saved
    assert [Run.open(folder / f"seed-{seed}").load().step for seed in range(2)] == [3 * STEP] * 2
    assert Run.open(folder / "seed-1").result["resumed_at"] == STEP
    values = json.loads((folder / "report.json").read_text())
    assert values["seeds"] == [0, 1]
    assert values["figures"]["return"]["scores"][0] == first.result["return"]
    assert values["return"] == pytest.approx(sum(values["figures"]["return"]["scores"]) / 2)
    assert {"success", "success_low", "success_high"} <= values.keys()
    assert {"iqm", "iqm_low", "iqm_high"} <= values["figures"]["return"].keys()
    assert json.loads((tmp_path / "result.json").read_text())["figures"] == values["figures"]
    assert "interquartile mean" in (folder / "report.html").read_text()
    assert "trained already" in capsys.readouterr().err
    with pytest.raises(
        RunError, match=rf"begun with steps {3 * STEP}, not {4 * STEP}; give this training another --name"
    ):
        seeds.train_seeds(dataclasses.replace(asked, steps=4 * STEP), "")


def test_a_seed_that_was_cut_off_before_its_first_checkpoint_begins_again(tmp_path):
    asked = settings("--seeds", "5", "--steps", str(STEP), "--out", str(tmp_path / "x"), "--evaluate-episodes", "0")
    out = tmp_path / "x" / "seed-5"
    launch.start(dataclasses.replace(asked, seed=5, seeds=(), out=out))
    for path in (out / "checkpoints").iterdir():
        shutil.rmtree(path)
    (out / "result.json").unlink()
    assert seeds.train_seeds(asked, "") == 0
    assert checkpoints.steps(out / "checkpoints") == [STEP]


def test_without_a_name_the_folder_follows_from_the_settings():
    one, same = settings("--seeds", "0"), settings("--seeds", "1", "2")
    other = settings("--seeds", "0", "--ppo.learning-rate", "1e-4")
    assert seeds.folder_of(one) == seeds.folder_of(same) != seeds.folder_of(other)
    assert seeds.folder_of(one).name.startswith("ppo-")


def test_one_seed_and_several_are_not_both_given() -> None:
    with pytest.raises(EmbodiedError, match=r"--seed 4 and --seeds 0 1; expected one of them"):
        settings("--seed", "4", "--seeds", "0", "1")
