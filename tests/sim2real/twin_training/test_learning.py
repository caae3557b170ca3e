"""When a curve reaches success, and what the target's learner takes over from the twin's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.sac import SACConfig
from policies.policy import Policy
from policies.training.loading import load_policy
from sim2real import twin_rl
from sim2real.twin_training import stages
from sim2real.twin_training.learning import Measured, Part, learner_on_target, steps_to
from sim2real.twin_training.stages import Plan, same_plan
from tests.kit.task_file import WITH_EXPERT

REGION = ("qpos.object.x<0",)


def test_success_is_reached_at_the_first_measurement_that_shows_it() -> None:
    curve = [Measured(100, 0.9, 0.2), Measured(200, 1.0, 0.5), Measured(300, 0.8, 0.96), Measured(400, 1.0, 0.96)]
    assert steps_to(curve, 0.95) == {"inside": 200, "outside": 300, "both": 400}
    assert steps_to(curve[:2], 0.95) == {"inside": 200, "outside": None, "both": None}


def plan(folder: Path, **changes: int) -> Plan:
    return dataclasses.replace(twin_rl.Settings("manipulation/push", folder, REGION).plan, **changes)  # type: ignore[arg-type]


def test_a_folder_belongs_to_one_plan(tmp_path: Path) -> None:
    same_plan(plan(tmp_path))
    same_plan(plan(tmp_path))
    with pytest.raises(EmbodiedError, match="was made with twin_steps=60000, not 7; choose another --out"):
        same_plan(plan(tmp_path, twin_steps=7))


def test_sets_of_parts_have_names_for_files() -> None:
    assert twin_rl.label(frozenset(Part)) == "all"
    assert twin_rl.label(frozenset()) == "none"
    assert twin_rl.label(frozenset({Part.WEIGHTS, Part.MAP})) == "map_weights"


SMALL = SACConfig(warm_up=32, buffer_size=4096, batch_size=32, critic_updates=0.5, critic_group="policy")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A few steps in the twin of a target that is the same engine: a mass on a rail with an expert."""
    folder = tmp_path_factory.mktemp("twin")
    (folder / "mass.py").write_text(WITH_EXPERT)
    small = plan(folder, demonstrations=2, num_envs=4, twin_steps=256)
    small = dataclasses.replace(
        small, task=str(folder / "mass.py"), region=("task_state.goal<0",), learner=SMALL, target_engine="mujoco",
        episode_seconds=1.0,
    )  # fmt: skip
    stages.demonstrate(small, lambda kept: None)
    stages.train_in_twin(small, lambda steps, metrics: None)
    return small


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", [Part.WEIGHTS, Part.REPLAY])
def test_the_learner_takes_over_what_it_is_told_to(trained: Plan, part: Part) -> None:
    demonstrated = [trained.path["demonstrations"]]
    trainer = learner_on_target(
        trained.target(4, 1), SMALL, demonstrated, trained.twin_checkpoint, frozenset({part}), 64, 256, 1
    )
    learner = trainer.algorithm
    assert isinstance(learner, OffPolicyLearner)
    own = dict(trainer.policy.network.actor.named_parameters())
    twin = load_policy(trained.twin_checkpoint, trained.twin(1, 0))
    assert isinstance(twin, Policy)
    equal = [torch.equal(own[name], value) for name, value in twin.network.actor.named_parameters()]
    assert all(equal) == (part is Part.WEIGHTS)
    assert len(learner.replay.buffer) == (64 if part is Part.REPLAY else 0)
    assert learner.replay.has_demonstrations
    if part is Part.REPLAY:
        newest = learner.replay.buffer.newest(1)
        assert bool((newest.truncated | newest.terminated).all()), "no episode of the twin goes on in the target"
        trainer.iterate()


def test_what_is_there_is_not_made_again(trained: Plan) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("made again")

    stages.demonstrate(trained, forbidden)
    stages.train_in_twin(trained, forbidden)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_training_with_a_twin_is_measured_and_not_made_twice(tmp_path: Path) -> None:
    pytest.importorskip("pybullet", exc_type=ImportError)
    words = ["manipulation/reach", "--region", "task_state.goal.0<0", "--out", str(tmp_path), "--twin-steps", "16000",
             "--demonstrations", "4", "--synthesised", "2", "--swept", "64", "--helped", "2", "--target-steps", "1000",
             "--evaluate-every", "500", "--evaluate-episodes", "8"]  # fmt: skip
    assert twin_rl.main(words) == 0
    result = json.loads((tmp_path / "target_all.json").read_text())
    assert result["curve"][0]["steps"] == result["demonstrated_steps"]
    assert result["curve"][-1]["steps"] <= result["most_steps"] + 16 * 16  # whole iterations
    assert 0 <= result["confirmed"]["inside"] <= 1
    before = {path: path.stat().st_mtime for path in tmp_path.rglob("*")}
    assert twin_rl.main(words) == 0
    assert {path: path.stat().st_mtime for path in tmp_path.rglob("*")} == before
