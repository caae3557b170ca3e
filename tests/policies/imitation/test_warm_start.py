"""A policy repeats the script that it watched, can come back from its own noise, and is what PPO begins with."""

import dataclasses

import pytest
import torch

from embodied.errors import EmbodiedError
from policies import PPO, PPOConfig, Trainer
from policies.imitation.warm_start import imitate
from policies.networks.mlp import NetworkConfig
from policies.ppo.config import Schedule
from tests.kit.learning import PointMass, algorithm_of

CONFIG = PPOConfig(unroll=8, actor=NetworkConfig((32, 32)), initial_std=0.2)


def spring(obs):
    """Drives the point to the middle; clipped, so not linear."""
    return (-obs["policy"][:, : PointMass(1).action_size]).clamp(-0.5, 0.5)


def test_the_script_is_repeated_where_it_was_watched_and_beside_it():
    found = imitate(PointMass(128), spring, CONFIG, samples=20_000)
    assert found.explained > 0.94
    env = PointMass(64, seed=7)
    obs = env.reset()
    for _ in range(env.max_episode_steps):
        torch.testing.assert_close(found.policy(obs), spring(obs), atol=0.3, rtol=0)
        obs = env.step(found.policy(obs) + 0.2 * torch.randn(64, env.action_size)).obs


def test_what_has_nothing_to_do_with_the_observation_is_not_explained():
    generator = torch.Generator().manual_seed(0)
    dice = lambda obs: torch.rand(len(obs["policy"]), PointMass(1).action_size, generator=generator)  # noqa: E731
    assert imitate(PointMass(64), dice, CONFIG, samples=20_000).explained < 0.1


def test_ppo_begins_with_it_and_holds_it_until_the_critic_has_learned():
    policy = imitate(PointMass(64), spring, CONFIG, samples=20_000).policy
    trainer = Trainer(PointMass(64), dataclasses.replace(CONFIG, critic_warm_up=2), total_steps=10_000)
    learner = trainer.algorithm
    assert isinstance(learner, PPO)
    learner.start_from(policy)
    start = [parameter.clone() for parameter in learner.actor.parameters()]
    critics = []
    for iteration in range(3):
        rate = trainer.iterate()["learning_rate"]
        assert (rate == pytest.approx(CONFIG.learning_rate)) == (iteration < 2)
        held = all(torch.equal(a, b) for a, b in zip(start, learner.actor.parameters(), strict=True))
        assert held == (iteration < 2)
        critics.append(torch.cat([parameter.flatten() for parameter in learner.critic.parameters()]).clone())
    assert not torch.equal(critics[0], critics[1])


def test_the_first_step_after_the_warm_up_is_no_longer_than_any_first_step():
    config = dataclasses.replace(CONFIG, critic_warm_up=3, epochs=1, minibatches=1, learning_rate=1e-3)
    trainer = Trainer(PointMass(64), dataclasses.replace(config, schedule=Schedule.FIXED), total_steps=10_000)
    for _ in range(3):
        trainer.iterate()
    actor = algorithm_of(trainer, PPO).actor
    start = [parameter.clone() for parameter in actor.parameters()]
    trainer.iterate()
    moved = [(b - a).abs().max() for a, b in zip(start, actor.parameters(), strict=True)]
    assert 0 < max(moved) < 1.1e-3


def test_a_script_that_breaks_down_is_refused():
    broken = lambda obs: torch.full((len(obs["policy"]), PointMass(1).action_size), float("nan"))  # noqa: E731
    with pytest.raises(EmbodiedError, match="not finite"):
        imitate(PointMass(8), broken, CONFIG, samples=100)
