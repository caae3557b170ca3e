"""Random network distillation in PPO: what is new is rewarded, what is known is not, and runs resume bit for bit."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from embodied.env.vec_env import StepData
from policies import PPO, PPOConfig, Trainer, train
from policies.networks.mlp import NetworkConfig
from policies.ppo.config import CuriosityConfig
from policies.ppo.curiosity import Curiosity
from tests.kit.learners import RESUMED
from tests.kit.learning import PointMass, algorithm_of

SMALL = NetworkConfig((16, 16))
QUICK: PPOConfig = dataclasses.replace(
    RESUMED["ppo curious"].config, actor=SMALL, critic=dataclasses.replace(SMALL, output_gain=1.0)
)


def curiosity(weight: float = 1.0, seed: int = 0) -> Curiosity:
    return Curiosity(3, CuriosityConfig(weight), 1, torch.device("cpu"), seed)


def places(middle: float, seed: int = 0) -> torch.Tensor:
    """(8, 64, 3) observations around a point."""
    return middle + 0.1 * torch.randn(8, 64, 3, generator=torch.Generator().manual_seed(seed))


def test_what_was_learned_earns_little_and_what_is_new_much():
    own = curiosity()
    for step in range(300):
        own.learn(places(1.0, step).flatten(0, 1))
    known, new = own.novelty(torch.cat([places(1.0, 1_000), places(-1.0)])).chunk(2)
    assert new.mean() > 20 * known.mean()


def test_rewards_are_the_errors_over_their_deviation_times_the_weight():
    rewards = {weight: curiosity(weight).novelty(places(0.0)) for weight in (1.0, 0.25)}
    assert rewards[1.0].std(unbiased=False).item() == pytest.approx(1.0, rel=1e-3)
    torch.testing.assert_close(rewards[0.25], rewards[1.0] / 4)
    assert rewards[1.0].min() >= 0


def test_the_seed_fixes_both_networks_and_the_predicted_one_never_changes():
    same, other = (curiosity(seed=seed).novelty(places(0.0)) for seed in (0, 1))
    assert torch.equal(curiosity().novelty(places(0.0)), same)
    assert not torch.allclose(same, other)
    own = curiosity()
    before = [weight.clone() for weight in own._target.parameters()]
    own.learn(places(0.0).flatten(0, 1))
    assert all(torch.equal(a, b) for a, b in zip(before, own._target.parameters(), strict=True))


class Aimless(PointMass):
    """A point that nothing is asked of: no reward, no failure."""

    def step(self, action: torch.Tensor) -> StepData:
        step = super().step(action)
        return dataclasses.replace(step, reward=torch.zeros_like(step.reward))


def spread(config: PPOConfig, iterations: int) -> float:
    """How far from the origin a point of which nothing is asked gets in an episode, m."""
    trainer = train(Aimless(32, seed=3), config, total_steps=iterations * config.unroll * 32)
    env = Aimless(256, seed=4)
    obs = env.reset()
    for _ in range(env.max_episode_steps - 1):
        obs = dict(env.step(trainer.policy(obs)).obs)
    return env.position.norm(dim=-1).mean().item()


def test_where_nothing_is_rewarded_it_goes_where_others_stay():
    brisk = dataclasses.replace(QUICK, learning_rate=3e-3)
    assert spread(brisk, 15) > 2 * spread(dataclasses.replace(brisk, curiosity=CuriosityConfig()), 15)


def test_it_says_what_it_paid_and_pays_nothing_by_default():
    ppo = algorithm_of(Trainer(PointMass(8), QUICK, total_steps=1), PPO)
    plain = algorithm_of(
        Trainer(PointMass(8), dataclasses.replace(QUICK, curiosity=CuriosityConfig()), total_steps=1), PPO
    )
    metrics = []
    for learner in (ppo, plain):
        env = PointMass(8)
        obs = learner.collect(env, env.reset())
        metrics.append(learner.update(obs))
    assert metrics[0]["curiosity_reward"] > 0
    assert metrics[0]["curiosity_error"] > 0
    assert not [name for name in metrics[1] if "curiosity" in name]
