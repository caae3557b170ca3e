"""The contract of every off-policy algorithm: it acts, updates, goes on bit for bit after a resume, and its policy is
rebuilt from names and numbers; those that need no demonstrations solve the point mass."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import OffPolicyConfig
from policies.off_policy.idql.idql import IDQLConfig
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.rlpd import RLPDConfig
from policies.off_policy.sac import SACConfig
from policies.off_policy.svea.svea import SVEAConfig
from policies.off_policy.td3 import TD3Config
from policies.policy import rebuild
from policies.registry import ALGORITHMS
from policies.training.loop import train
from tests.kit.learning import PixelPointMass, PointMass, assert_resumed_run_equals_whole

SMALL = NetworkConfig((32, 32), Activation.RELU)
TOY: dict[str, Any] = {"critic": SMALL, "gamma": 0.9, "tau": 0.05, "batch_size": 128, "warm_up": 600,
       "buffer_size": 20_000, "critic_learning_rate": 3e-3}  # fmt: skip
ACTOR: dict[str, Any] = {**TOY, "actor": SMALL, "actor_learning_rate": 3e-3}
CONFIGS: dict[str, OffPolicyConfig] = {
    "sac": SACConfig(**ACTOR, temperature_learning_rate=3e-3),
    "rlpd": RLPDConfig(**{**ACTOR, "batch_size": 64}, critics=3, critic_updates=2, policy_delay=2),
    "td3": TD3Config(**ACTOR),
    "awac": AWACConfig(**ACTOR, offline_updates=0),
    "idql": IDQLConfig(**TOY, offline_updates=0, samples=16, actor_learning_rate=3e-3),
    "svea": SVEAConfig(**ACTOR, features=8),
}
KINDS = {"idql": "idql", "svea": "squashed-pixels"}
"""Kinds of stored policies, where not squashed-mlp."""


def point_mass(name: str, seed: int = 0) -> Any:
    return PixelPointMass(8, seed) if name == "svea" else PointMass(8, seed)


def test_every_registered_algorithm_is_held_to_the_contract():
    registered = {
        name
        for name, entry in ALGORITHMS.items()
        if issubclass(entry.config_type, OffPolicyConfig) and not entry.of_teams
    }
    assert registered == set(CONFIGS)
    assert all(type(config) is ALGORITHMS[name].config_type for name, config in CONFIGS.items())


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("awac", *KINDS)])
def test_solves_the_point_mass(name):
    trainer = train(PointMass(32), CONFIGS[name], total_steps=16_000)
    env = PointMass(256, seed=1)
    obs, success = env.reset(), torch.zeros(256)
    for _ in range(env.max_episode_steps):
        step = env.step(trainer.policy(obs))
        obs, success = dict(step.obs), step.success.float()
    assert success.mean() > 0.95
    assert env.statistics()["return"] > -5.0  # -4.06 is the best; a random policy gets -20


@pytest.mark.parametrize("name", CONFIGS)
def test_a_resumed_run_goes_on_bit_for_bit_and_its_policy_is_rebuilt_from_numbers(name):
    changes = {"unroll": 4, "batch_size": 16, "warm_up": 64, "n_step": 3, "buffer_size": 160}  # the buffer wraps
    config = dataclasses.replace(CONFIGS[name], **changes)
    whole = assert_resumed_run_equals_whole(lambda seed: point_mass(name, seed), config)
    assert isinstance(whole.algorithm, OffPolicyLearner)
    assert whole.algorithm.updates > 10
    obs = point_mass(name, 5).reset()
    action = whole.policy(obs)
    assert action.abs().max() <= 1
    meta, tensors = whole.policy.to_tensors()
    assert meta["kind"] == KINDS.get(name, "squashed-mlp")
    assert torch.equal(rebuild(meta, tensors)(obs), action)
    if name == "idql":
        with pytest.raises(ValueError, match="an earlier version of this library wrote it; train again"):
            rebuild({key: value for key, value in meta.items() if key != "structure"}, tensors)
