"""Reinforcement learning: both algorithms learn, waste is bounded, and a resume is the same bit for bit."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.algorithm import DivergedError
from policies.vla.model.config import Head
from policies.vla.reinforcement.grpo import GRPOEstimator
from policies.vla.reinforcement.learner import UPDATE_METRICS, RLFineTuning, clipped_policy_loss
from policies.vla.reinforcement.ppo import PPOEstimator
from policies.vla.reinforcement.settings import RLAlgorithm, RLConfig
from policies.vla.reinforcement.timing import Phase
from tests.kit.vla import (
    BRIEF,
    DEMONSTRATIONS,
    SMALL,
    assert_resumed_steps_equal_whole,
    fresh_policy,
    toy_episodes,
    toy_task,
    untrained,
)


def learner(algorithm: RLAlgorithm, config: RLConfig = BRIEF, *, goal: float = 1.0, seed: int = 0):
    return RLFineTuning(fresh_policy(seed), [toy_task(goal=goal)], algorithm, config, seed=seed)


@pytest.mark.parametrize("algorithm", list(RLAlgorithm))
@pytest.mark.parametrize(("iterations", "reached"), [(11, 0.5), pytest.param(17, 0.8, marks=pytest.mark.slow)])
def test_success_rises(algorithm, iterations, reached):
    made = learner(algorithm)
    rates = [made.step()["success"] for _ in range(iterations)]
    first, last = (sum(some) / 3 for some in (rates[:3], rates[-3:]))
    assert first < 0.5
    assert last > max(reached, first + 0.15)


def test_groups_that_all_fail_are_drawn_anew_so_often_and_then_nothing_is_learned():
    made = learner(RLAlgorithm.GRPO, goal=100.0)
    before = made.optimizer.vector.clone()
    measures = made.step()
    assert measures["dropped"] == 1.0
    assert measures["episodes"] == BRIEF.rounds * BRIEF.episodes
    assert not set(UPDATE_METRICS) & set(measures)
    assert torch.equal(made.optimizer.vector, before)


def test_a_critic_learns_before_the_policy_does():
    made = learner(RLAlgorithm.PPO)
    assert isinstance(made.estimator, PPOEstimator)
    learned = made.estimator.critic.optimizer
    before, critic = made.optimizer.vector.clone(), learned.vector.clone()
    measures = made.step()
    assert measures["dropped"] == 0.0
    assert measures["critic_loss"] > 0
    assert torch.equal(made.optimizer.vector, before)
    assert not torch.equal(learned.vector, critic)
    made.step()
    assert not torch.equal(made.optimizer.vector, before)


def test_frozen_parts_stay_as_they_are():
    policy = fresh_policy()
    policy.network.image_encoder.requires_grad_(False)
    frozen = {name: value.clone() for name, value in policy.network.image_encoder.state_dict().items()}
    made = RLFineTuning(policy, [toy_task()], RLAlgorithm.GRPO, BRIEF)
    made.step()
    assert all(torch.equal(value, frozen[name]) for name, value in policy.network.image_encoder.state_dict().items())


@pytest.mark.parametrize("algorithm", list(RLAlgorithm))
def test_a_resumed_training_is_the_same_bit_for_bit(algorithm):
    assert_resumed_steps_equal_whole(lambda seed: learner(algorithm, seed=seed), 4)


def test_the_step_size_rises():
    config = dataclasses.replace(BRIEF, warmup=1000)
    made = RLFineTuning(fresh_policy(), [toy_task()], RLAlgorithm.GRPO, config)
    made.step()
    assert made.gradient_steps > 0
    assert made.optimizer.learning_rate == pytest.approx(config.learning_rate * made.gradient_steps / 1000)
    brisk = learner(RLAlgorithm.GRPO)
    brisk.gradient_steps = 10_000
    brisk.step()
    assert brisk.optimizer.learning_rate == brisk.config.learning_rate


def test_the_time_is_split_into_all_that_happened():
    made = learner(RLAlgorithm.GRPO)
    made.step()
    taken = made.timer.take()
    assert all(taken[part] > 0 for part in (Phase.PHYSICS, Phase.RENDERING, Phase.INFERENCE, Phase.UPDATE, Phase.OTHER))


def test_weights_that_are_not_finite_are_an_error():
    made = learner(RLAlgorithm.GRPO)
    kept, _, _ = made.collect()
    with torch.no_grad():
        made.optimizer.vector.fill_(math.nan)
    with pytest.raises(DivergedError, match="training diverged in iteration 0: loss=nan"):
        made.update(kept, made.estimator.estimate(kept))


def test_partial_credit_tells_failures_apart():
    config = dataclasses.replace(BRIEF, partial_credit=0.5)
    made = learner(RLAlgorithm.GRPO, config, goal=100.0)
    before = made.optimizer.vector.clone()
    measures = made.step()
    assert measures["success"] == 0.0
    assert measures["dropped"] == 0.0
    assert not torch.equal(made.optimizer.vector, before)


def test_messages():
    with pytest.raises(EmbodiedError, match="has the head 'flow', whose actions have no probability"):
        RLFineTuning(
            untrained(DEMONSTRATIONS, dataclasses.replace(SMALL, head=Head.FLOW)), [toy_task()], RLAlgorithm.GRPO, BRIEF
        )
    with pytest.raises(EmbodiedError, match="'toy/left' has 30 environments; expected 8 groups of 4, 32"):
        RLFineTuning(fresh_policy(), [toy_task(30)], RLAlgorithm.GRPO, BRIEF)
    silent, generous = toy_task(max_reward=None), dataclasses.replace(BRIEF, partial_credit=0.5)
    with pytest.raises(EmbodiedError, match=r"partial_credit=0\.5, but the reward of toy/left does not tell"):
        RLFineTuning(fresh_policy(), [silent], RLAlgorithm.GRPO, generous)


# The policy loss.


def loss_of_one_number(log_ratio: float, advantage: float):
    """Loss and derivative by log-probability of one number of one action."""
    log_prob = torch.full((1, 1, 1), log_ratio, requires_grad=True)
    ones = torch.ones(1)
    found = clipped_policy_loss(log_prob, torch.zeros(1, 1, 1), advantage * ones, ones, ones.bool()[:, None], 0.2, 0.28)
    (gradient,) = torch.autograd.grad(found.loss, log_prob)
    return found.loss.item(), gradient.item(), found.clipped.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "clipped"),
    [
        (1.0, 2.0, 2.0, False), (1.27, 1.0, 1.27, False), (1.29, 1.0, 1.28, True), (0.5, 1.0, 0.5, False),
        (0.81, -1.0, -0.81, False), (0.79, -1.0, -0.8, True), (1.5, -1.0, -1.5, False),
    ],
)  # fmt: skip
def test_it_is_clipped_farther_upwards_than_downwards(ratio, advantage, expected, clipped):
    loss, gradient, share = loss_of_one_number(torch.tensor(ratio).log().item(), advantage)
    assert -loss == pytest.approx(expected, abs=1e-5)
    assert gradient == pytest.approx(0.0 if clipped else -ratio * advantage, abs=1e-5)
    assert share == float(clipped)


@pytest.fixture(scope="module")
def setting():
    policy = fresh_policy()
    learner = RLFineTuning(policy, [toy_task()], RLAlgorithm.GRPO, BRIEF)
    batch = toy_episodes(policy, toy_task())
    return learner, batch, GRPOEstimator(BRIEF).estimate(batch)


def gradient_of(learner, batch, advantages):
    found, _ = learner.loss(batch, advantages, torch.arange(len(batch.episode)))
    return torch.cat([part.flatten() for part in torch.autograd.grad(found.loss, learner.optimizer.parameters)])


def test_the_gradient_of_an_unchanged_policy_is_the_plain_policy_gradient(setting):
    learner, batch, advantages = setting
    found, entropy = learner.loss(batch, advantages, torch.arange(len(batch.episode)))
    assert found.kl < 1e-6
    assert found.clipped == 0
    assert 0 < entropy < torch.tensor(4.0).log() + 1e-6
    policy = learner.policy
    words = policy.encode_instructions([batch.instructions[text] for text in batch.instruction.tolist()])[batch.episode]
    unit = policy.normalization.normalize_state(batch.state)
    distribution = policy.network.head.distribution(policy.network(batch.pixels, unit, words), 1.0)
    done = distribution.log_prob(batch.tokens.long()) * batch.executed[..., None]
    plain = -(done.sum((1, 2)) * advantages.advantage * advantages.weight).sum()
    expected = torch.autograd.grad(plain, learner.optimizer.parameters)
    expected = torch.cat([part.flatten() for part in expected])
    assert expected.norm() > 1e-3
    torch.testing.assert_close(gradient_of(*setting), expected, atol=1e-6, rtol=1e-3)


def test_the_gradient_agrees_with_finite_differences(setting):
    learner, batch, advantages = setting
    rows, vector = torch.arange(len(batch.episode)), learner.optimizer.vector
    gradient = gradient_of(*setting)
    direction, before, losses = gradient / gradient.norm(), vector.clone(), []
    for sign in (1, -1):
        vector.copy_(before + sign * 1e-2 * direction)
        losses.append(learner.loss(batch, advantages, rows)[0].loss.item())
    vector.copy_(before)
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradient.norm().item(), rel=0.05)


def test_what_was_not_carried_out_does_not_matter(setting):
    learner, batch, advantages = setting
    undone = ~batch.executed[..., None].expand_as(batch.tokens)
    assert undone.any()
    changed = dataclasses.replace(
        batch,
        tokens=torch.where(undone, 3 - batch.tokens, batch.tokens),
        log_prob=batch.log_prob.masked_fill(undone, -torch.inf),
    )
    assert torch.equal(gradient_of(learner, changed, advantages), gradient_of(*setting))
