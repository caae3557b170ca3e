"""The contract of every learner: it heads for the goal after a few updates, goes on bit for bit after a resume, and its
policy is rebuilt from names and numbers, for teams of its own size alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.policy import rebuild
from policies.registry import ALGORITHMS
from policies.training.loop import Trainer, train
from tests.kit.imitation import saved
from tests.kit.learners import CONFIGS, RESUMED, SOLVING, TEAMS, brisk, toy_of
from tests.kit.learning import assert_resumed_run_equals_whole, heading, result_of, rule_of

STEPS = {"td3": 2_400, "matd3": 2_400, "hasac": 1_100, "ppo": 2_400, "ppo symmetric": 2_400}
"""Where 1,600 are too few, or more than enough."""


def test_every_registered_algorithm_is_held_to_the_contract():
    assert set(CONFIGS) == set(ALGORITHMS)
    assert all(type(config) is ALGORITHMS[name].config_type for name, config in CONFIGS.items())
    assert set(CONFIGS) <= set(RESUMED)
    assert set(TEAMS) == {name for name, entry in ALGORITHMS.items() if entry.of_teams} | {"vdn"}


@pytest.mark.parametrize("name", SOLVING)
def test_a_few_updates_make_it_head_for_the_goal(name: str):
    toy, config = toy_of(SOLVING[name]), brisk(SOLVING[name])
    before = heading(Trainer(toy(16, 2), config, total_steps=1, seed=2).policy, toy)
    trainer = train(toy(16, 2), config, total_steps=STEPS.get(name, 1_600), seed=2)
    assert heading(trainer.policy, toy) > max(0.8, before + 0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVING)
def test_it_solves_the_point_mass(name: str):
    toy, on_policy = toy_of(SOLVING[name]), name.startswith("ppo")
    trainer = train(toy(256 if on_policy else 32), SOLVING[name], total_steps=120_000 if on_policy else 16_000)
    success, mean_return = result_of(trainer.policy, toy)
    assert success > 0.95
    least = -4.5 if name == "ppo" else -4.6 if on_policy else -5.0  # -4.06 is the best; a random policy gets -20
    assert mean_return > least


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_goes_on_bit_for_bit_and_its_policy_is_rebuilt_from_numbers(name: str, tmp_path: Path):
    learner, file = RESUMED[name], tmp_path / "shown.safetensors"
    config = learner.config
    if learner.shown:
        config = dataclasses.replace(config, demonstrations=saved(file, 6))
    whole = assert_resumed_run_equals_whole(
        lambda seed: learner.toy(16, seed),
        config,
        adviser=learner.adviser,
        between=lambda: file.unlink(missing_ok=True),  # a resume needs the checkpoint alone
    )
    assert getattr(whole.algorithm, "updates", 1) > 0
    env = learner.toy(8, 5)
    obs, (meta, tensors) = env.reset(), whole.policy.to_tensors()
    action = rule_of(whole.policy, env)(obs)
    assert meta["kind"] == (learner.kind or meta["kind"])
    rebuilt = rebuild(json.loads(json.dumps(meta)), tensors)
    assert torch.equal(rule_of(rebuilt, env)(obs), action)
    if env.team_size == 1 and not learner.kind.endswith("gru"):
        assert torch.equal(rebuilt.stochastic(5)(obs), whole.policy.stochastic(5)(obs))
    if not hasattr(config, "epochs"):
        assert action.abs().max() <= 1


@pytest.mark.parametrize("name", TEAMS)
def test_teams_of_another_size_are_refused(name: str):
    policy = train(toy_of(TEAMS[name])(8, 0), TEAMS[name], total_steps=1).policy
    assert policy.fits(2, 1)
    with pytest.raises(EmbodiedError, match="a policy of 2 agents, each with a network of its own, was given 3 agents"):
        policy(torch.zeros(5, 3, 2))
