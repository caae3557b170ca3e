"""Supervision: when somebody takes over, that it is noted, and that learning from it works from end to end."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from embodied.errors import EmbodiedError
from policies import demonstrations as command
from policies.data import demonstrations
from policies.data.interventions import Source
from policies.imitation.supervision import SupervisedActor, SupervisionConfig
from tests.kit.imitation import homewards, outwards
from tests.kit.learning import PointMass
from tests.kit.training import NUM_ENVS, SMALL

QUICK = SupervisionConfig(begin=0.5, end=0.25, patience=2)


def supervised(count: int, config: SupervisionConfig = QUICK) -> SupervisedActor:
    return SupervisedActor(lambda obs: obs["policy"], lambda obs: torch.zeros_like(obs["policy"]), count, config)


def who(pair: SupervisedActor, *distances: float) -> list[int]:
    """Who acts where robot and supervisor differ by `distances`."""
    obs = {"policy": torch.tensor(distances)[:, None]}
    action, source = pair(obs)
    helped = source == Source.INTERVENTION
    assert torch.equal(action[:, 0], torch.where(helped, 0.0, obs["policy"][:, 0]))
    return source.tolist()


def test_control_changes_hands_after_patience_and_not_in_between_the_bounds():
    pair = supervised(1)
    told = [who(pair, distance)[0] for distance in (0.6, 0.4, 0.6, 0.6, 0.4, 0.4, 0.2, 0.4, 0.2, 0.2, 0.4)]
    robot, helped = int(Source.ROBOT), int(Source.INTERVENTION)
    assert told == [robot] * 3 + [helped] * 6 + [robot] * 2


def test_the_robot_begins_each_episode_and_environments_do_not_mind_one_another():
    pair = supervised(3)
    who(pair, 0.9, 0.9, 0.0)
    assert who(pair, 0.9, 0.9, 0.0) == [Source.INTERVENTION, Source.INTERVENTION, Source.ROBOT]
    pair.reset(torch.tensor([True, False, False]))
    assert who(pair, 0.9, 0.9, 0.0) == [Source.ROBOT, Source.INTERVENTION, Source.ROBOT]


def test_a_robot_that_goes_wrong_succeeds_under_supervision_and_is_told_apart():
    with pytest.raises(EmbodiedError, match="succeeded"):
        demonstrations.record(PointMass(4), outwards, 4)
    config = dataclasses.replace(QUICK, patience=1, end=0.0)
    made = demonstrations.record_actor(PointMass(4), SupervisedActor(outwards, homewards, 4, config), 4)
    assert (made.source == Source.INTERVENTION).any()
    action, shown = made.steps.action[:, 0], homewards({"policy": made.steps.obs["policy"][:, 0]})
    helped = made.source == Source.INTERVENTION
    assert torch.equal(action[helped], shown[helped])
    assert torch.equal(action[~helped], -shown[~helped])


def test_who_agrees_is_never_interrupted():
    made = demonstrations.record_actor(PointMass(4), SupervisedActor(homewards, homewards, 4), 4)
    assert (made.source == Source.ROBOT).all()


@pytest.mark.usefixtures("hover_compiled")
def test_the_command_appends_to_an_earlier_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shown, both = tmp_path / "shown.safetensors", tmp_path / "both.safetensors"
    words = [*SMALL, "--episodes", str(NUM_ENVS), "--failures"]
    assert command.main([*words, "--policy", "random", "--out", str(shown)]) == 0
    bounds = ["--supervision.begin", "0.01", "--supervision.end", "0"]
    supervision = ["--policy", "zero", "--supervisor", "random", *bounds]
    assert command.main([*words, *supervision, "--after", str(shown), "--out", str(both)]) == 0
    assert "interventions" in capsys.readouterr().out
    first, whole = load_file(shown), load_file(both)
    count = len(first["reward"])
    assert torch.equal(whole["action"][:count], first["action"])
    assert (whole["source"][:count] == Source.DEMONSTRATION).all()
    assert set(whole["source"][count:].tolist()) == {int(Source.ROBOT), int(Source.INTERVENTION)}


def test_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match=r"begin=0.1 end=0.2 patience=5: expected 0 <= end <= begin"):
        SupervisionConfig(begin=0.1, end=0.2)
    with pytest.raises(SystemExit):
        command.main(["swarm/hover", "--supervisor", "expert", "--out", str(tmp_path / "x")])
    assert "--supervisor expert supervises itself" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["swarm/hover", "--hold", "-1", "--out", str(tmp_path / "x")])
    assert "--hold -1: expected at least 0" in capsys.readouterr().err
