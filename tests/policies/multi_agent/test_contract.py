"""The contract of every algorithm of teams: it solves a task of two agents, goes on bit for bit after a resume, and its
policy is rebuilt from names and numbers, for teams of its own size alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from policies.multi_agent.happo import HAPPOConfig
from policies.multi_agent.hasac import HASACConfig
from policies.multi_agent.matd3 import MATD3Config
from policies.multi_agent.mixers import Mixer
from policies.multi_agent.qmix import QMIXConfig
from policies.networks.mlp import Activation, NetworkConfig
from policies.policy import Policy, rebuild
from policies.ppo.config import Schedule
from policies.registry import ALGORITHMS
from policies.training.loop import train
from tests.kit.learning import TwoMovers, assert_resumed_run_equals_whole

SMALL = NetworkConfig((32, 32), Activation.RELU)
OFF_POLICY: dict[str, Any] = {"critic": SMALL, "gamma": 0.9, "tau": 0.05, "batch_size": 128, "warm_up": 600,
              "buffer_size": 20_000, "critic_learning_rate": 3e-3, "actor": SMALL,
              "actor_learning_rate": 3e-3}  # fmt: skip
BINNED: dict[str, Any] = {name: value for name, value in OFF_POLICY.items() if not name.startswith("actor")}
BINNED |= {"epsilon_steps": 8_000, "bins": 5}
CONFIGS: dict[str, Any] = {
    "hasac": HASACConfig(**OFF_POLICY, temperature_learning_rate=3e-3),
    "happo": HAPPOConfig(unroll=20, epochs=4, minibatches=4, learning_rate=3e-3, schedule=Schedule.FIXED, gamma=0.9,
                         initial_std=0.5, actor=SMALL, critic=SMALL),
    "matd3": MATD3Config(**OFF_POLICY),
    "qmix": QMIXConfig(**BINNED),
}  # fmt: skip
VARIANTS = CONFIGS | {"vdn": dataclasses.replace(CONFIGS["qmix"], mixer=Mixer.SUM)}
BUFFERED = {"unroll": 4, "batch_size": 16, "warm_up": 64, "n_step": 3, "buffer_size": 160}  # the buffer wraps


def agents_of(obs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The rows of teams as an environment observes them, (N, agents, size)."""
    return {"policy": obs["policy"].unflatten(1, (2, 2))}


def act(policy: Policy, obs: dict[str, Tensor]) -> Tensor:
    return policy(agents_of(obs)).flatten(1)


def test_every_algorithm_of_teams_is_held_to_the_contract():
    assert {name for name, entry in ALGORITHMS.items() if entry.of_teams} == set(CONFIGS)
    assert all(type(config) is ALGORITHMS[name].config_type for name, config in CONFIGS.items())


@pytest.mark.parametrize("name", VARIANTS)
def test_two_agents_move_the_point_to_the_origin(name):
    trainer = train(TwoMovers(32), VARIANTS[name], total_steps=16_000)
    env = TwoMovers(256, seed=1)
    obs, success = env.reset(), torch.zeros(256)
    for _ in range(env.max_episode_steps):
        step = env.step(act(trainer.policy, obs))
        obs, success = dict(step.obs), step.success.float()
    assert success.mean() > 0.95


@pytest.mark.parametrize("name", VARIANTS)
def test_a_resumed_run_goes_on_bit_for_bit_and_its_policy_is_rebuilt_from_numbers(name):
    changes = BUFFERED if hasattr(VARIANTS[name], "buffer_size") else {}
    config = dataclasses.replace(VARIANTS[name], **changes)
    whole = assert_resumed_run_equals_whole(lambda seed: TwoMovers(8, seed), config, iterations=10)
    obs = TwoMovers(8, 5).reset()
    action = act(whole.policy, obs)
    assert action.abs().max() <= 1
    assert torch.equal(act(rebuild(*whole.policy.to_tensors()), obs), action)


@pytest.mark.parametrize("name", VARIANTS)
def test_teams_of_another_size_are_refused(name):
    policy = train(TwoMovers(8), VARIANTS[name], total_steps=1).policy
    assert policy.fits(2, 1)
    with pytest.raises(EmbodiedError, match="a policy of 2 agents, each with a network of its own, was given 3 agents"):
        policy(torch.zeros(5, 3, 2))
