"""The command: it improves what train made, goes on after a stop, and says plainly what it cannot improve."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.storage import checkpoints
from embodied.storage.checkpoints import flatten
from embodied.storage.runs import Run
from policies.training.loading import open_checkpoint
from policies.vla.compare import main as compare
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import RobotSpec, TrainingTask
from policies.vla.model.config import Head
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.rollouts import RolloutTask
from policies.vla.reinforcement.session import speeds
from policies.vla.reinforcement.settings import Settings
from policies.vla.reinforcement.timing import Phase
from policies.vla.rl_finetune import main, vla_policy
from tests.kit.vla import COARSE, episode

TASK = "manipulation/reach"
FEW = (
    "--rl.groups", "1", "--rl.group-size", "2", "--rl.horizon", "8", "--rl.rounds", "1",
    "--evaluate-episodes", "0", "--trial-seconds", "1e9", "--checkpoint-seconds", "0",
)  # fmt: skip


@pytest.fixture
def stored(tmp_path):
    """Stores an untrained policy that fits `TASK` as a run; returns its folder."""

    def store(head: Head = Head.TOKENS, actions: int = 4):
        torch.manual_seed(0)
        seen = episode(0, action=np.random.default_rng(0).uniform(-1, 1, (12, actions)).astype(np.float32))
        seen = dataclasses.replace(seen, state=np.random.default_rng(1).normal(size=(12, 11)).astype(np.float32))
        spec = RobotSpec(("view", "wrist"), (32, 32), 11, actions, 0.0125)
        config = dataclasses.replace(COARSE, head=head)
        policy = VLAPolicy.untrained(config, Normalization.of([seen]), spec, [TrainingTask(TASK, ("reach the ball",))])
        run = Run.create(tmp_path, "vla", {}, tmp_path / f"{head}{actions}")
        meta, tensors = policy.to_tensors()
        run.save(1, flatten({"policy": tensors, "trainer": {"steps": 1}}), {"policy": meta})
        return run.path

    return store


def test_what_cannot_be_improved_is_named(stored, tmp_path, monkeypatch):
    with pytest.raises(EmbodiedError, match="has the head 'flow', whose actions have no probability"):
        inspect.unwrap(main)([str(stored(Head.FLOW)), "--device", "cpu"])
    with pytest.raises(EmbodiedError, match="does not fit 'manipulation/reach', which has action_size 4, expected 5"):
        inspect.unwrap(main)([str(stored(actions=5)), "--device", "cpu", *FEW])
    checkpoints.save(tmp_path / "other", 0, {}, {"policy": {"kind": "nothing"}})
    run = stored()
    with pytest.raises(EmbodiedError, match=r"hold=0\.5 s are 40 control steps of '.*reach', and an episode has 8"):
        inspect.unwrap(main)([str(run), "--device", "cpu", *FEW, "--rl.hold", "0.5"])
    with pytest.raises(EmbodiedError, match="policy 'x'"):
        vla_policy(checkpoints.load(tmp_path / "other" / checkpoints.name_of(0)), "policy 'x'")
    policy = vla_policy(open_checkpoint(run), "policy 'x'", "cpu")
    monkeypatch.setattr(policy, "require_fit", lambda env, what: None)
    deaf: Any = SimpleNamespace(name="toy/mute", num_envs=1, task=SimpleNamespace(language=None))
    with pytest.raises(EmbodiedError, match="'toy/mute' has no instruction, which policy 'x' needs; say one"):
        RolloutTask.of(deaf, policy, what="policy 'x'")


def test_messages_of_the_settings():
    with pytest.raises(EmbodiedError, match="which policy"):
        Settings()
    with pytest.raises(EmbodiedError, match=r"--iterations 0, --steps 0, --minutes 0\.0: expected one above 0"):
        Settings(policy=Path("x"), minutes=0.0)


def test_rates_are_those_of_the_whole_loop():
    took = {Phase.PHYSICS: 1.0, Phase.RENDERING: 2.0, Phase.OTHER: 1.0}
    found = speeds(took, env_steps=400, frames=100)
    assert (found["env_steps_per_second"], found["frames_per_second"]) == (100, 25)
    assert found["rendering_fraction"] == 0.5
    assert sum(value for name, value in found.items() if name.endswith("_fraction")) == 1.0


@pytest.mark.slow
def test_the_command_improves_goes_on_and_tells_the_difference(stored, tmp_path):
    before, out, result = stored(), tmp_path / "out", tmp_path / "result.json"
    assert main([str(before), "--algorithm", "ppo", "--iterations", "2", *FEW, "--out", str(out)]) == 0
    run = Run.open(out)
    records = [record for record in run.metrics() if "iteration" in record]
    assert [record["iteration"] for record in records] == [1, 2]
    for record in records:
        parts = [record[f"{part}_seconds"] for part in Phase]
        assert sum(record[f"{part}_fraction"] for part in Phase) == pytest.approx(1.0)
        assert record["env_steps_per_second"] == pytest.approx(16 / sum(parts))
        assert record["frames"] == 8
    reached = run.load()
    shutil.rmtree(reached.path)  # as if it had been killed before the last checkpoint
    assert main(["--resume", str(out), "--json", str(result)]) == 0
    assert json.loads(result.read_text())["iterations"] == 2
    assert main(["--resume", str(out), "--iterations", "3", "--json", str(result)]) == 0
    assert json.loads(result.read_text())["iterations"] == 3
    again = Run.open(out).load(reached.step)
    differing = [name for name, tensor in again.tensors.items() if not torch.equal(tensor, reached.tensors[name])]
    assert differing == ["trainer/seconds"]
    told, picture = tmp_path / "differences.json", tmp_path / "paths.png"
    few = ["--episodes", "4", "--horizon", "8"]
    assert compare([str(before), str(out), *few, "--json", str(told), "--picture", str(picture)]) == 0
    assert json.loads(told.read_text())["results"][0]["task"] == TASK
    assert picture.stat().st_size > 1000
