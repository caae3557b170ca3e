"""The objective: a plain policy gradient where nothing has changed, clipped unevenly, blind to what was not done."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from policies.vla.reinforcement.advantages import GroupJudge
from policies.vla.reinforcement.config import Algorithm
from policies.vla.reinforcement.learner import Improvement
from policies.vla.reinforcement.surrogate import surrogate
from tests.policies.vla.toy_arena import BRIEF, ToyArena, fresh_policy, toy_episodes

CPU = torch.device("cpu")


def one(log_ratio: float, advantage: float):
    """Loss and derivative by log-probability of one number of one action."""
    log_prob = torch.full((1, 1, 1), log_ratio, requires_grad=True)
    ones = torch.ones(1)
    found = surrogate(log_prob, torch.zeros(1, 1, 1), advantage * ones, ones, ones.bool()[:, None], 0.2, 0.28)
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
    loss, gradient, share = one(torch.tensor(ratio).log().item(), advantage)
    assert -loss == pytest.approx(expected, abs=1e-5)
    assert gradient == pytest.approx(0.0 if clipped else -ratio * advantage, abs=1e-5)
    assert share == float(clipped)


@pytest.fixture(scope="module")
def setting():
    policy = fresh_policy()
    improvement = Improvement(policy, [ToyArena()], Algorithm.GRPO, BRIEF)
    experience = toy_episodes(policy, ToyArena())
    return improvement, experience, GroupJudge(BRIEF, 1, 2, CPU, 0).judge(experience)


def gradient_of(improvement, experience, credit):
    found, _ = improvement.objective(experience, credit, torch.arange(len(experience.episode)))
    return torch.cat([part.flatten() for part in torch.autograd.grad(found.loss, improvement.simulator._parameters)])


def test_the_gradient_of_an_unchanged_policy_is_the_plain_policy_gradient(setting):
    improvement, experience, credit = setting
    found, entropy = improvement.objective(experience, credit, torch.arange(len(experience.episode)))
    assert found.kl < 1e-6
    assert found.clipped == 0
    assert 0 < entropy < torch.tensor(4.0).log() + 1e-6
    policy = improvement.policy
    words = policy.network.read([experience.texts[text] for text in experience.text.tolist()])[experience.episode]
    unit = policy.statistics.unit_state(experience.state)
    choice = policy.network.head.choice(policy.network(experience.pixels, unit, words), 1.0)
    done = choice.log_prob(experience.tokens.long()) * experience.acted[..., None]
    plain = -(done.sum((1, 2)) * credit.advantage * credit.weight).sum()
    expected = torch.autograd.grad(plain, improvement.simulator._parameters)
    expected = torch.cat([part.flatten() for part in expected])
    assert expected.norm() > 1e-3
    torch.testing.assert_close(gradient_of(*setting), expected, atol=1e-6, rtol=1e-3)


def test_the_gradient_agrees_with_finite_differences(setting):
    improvement, experience, credit = setting
    rows, vector = torch.arange(len(experience.episode)), improvement.simulator.vector
    gradient = gradient_of(*setting)
    direction, before, losses = gradient / gradient.norm(), vector.clone(), []
    for sign in (1, -1):
        vector.copy_(before + sign * 1e-2 * direction)
        losses.append(improvement.objective(experience, credit, rows)[0].loss.item())
    vector.copy_(before)
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradient.norm().item(), rel=0.05)


def test_what_was_not_carried_out_does_not_matter(setting):
    improvement, experience, credit = setting
    undone = ~experience.acted[..., None].expand_as(experience.tokens)
    assert undone.any()
    changed = dataclasses.replace(
        experience,
        tokens=torch.where(undone, 3 - experience.tokens, experience.tokens),
        log_prob=experience.log_prob.masked_fill(undone, -torch.inf),
    )
    assert torch.equal(gradient_of(improvement, changed, credit), gradient_of(*setting))
