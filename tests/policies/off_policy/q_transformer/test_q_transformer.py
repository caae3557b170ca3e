"""Q-Transformer: its backup is dynamic programming, unseen bins are worth nothing, returns bound values from below."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.q_transformer.network import to_action, to_bins
from policies.off_policy.q_transformer.q_transformer import QTransformerConfig, QTransformerUpdate, backup
from tests.policies.off_policy.cqn.test_cqn import one_step, uniform, wanted
from tests.policies.toys import vectors

QUICK: dict[str, Any] = {"critic": NetworkConfig((32, 32), Activation.RELU), "batch_size": 32, "buffer_size": 20_000,
        "bins": 16, "layers": 1, "unroll": 4, "gamma": 0.9, "tau": 0.05, "critic_learning_rate": 3e-3}  # fmt: skip


def test_the_backup_is_dynamic_programming_over_whole_actions():
    states, bins, gamma = 3, 3, 0.7
    generator = torch.Generator().manual_seed(0)
    reward = torch.rand(states, bins, bins, generator=generator)
    leads_to = torch.randint(states, (states, bins, bins), generator=generator)
    ends = torch.rand(states, bins, bins, generator=generator) < 0.2
    whole = torch.zeros(states, bins, bins)
    for _ in range(60):
        whole = reward + gamma * ~ends * whole.amax((1, 2))[leads_to]
    first, second = torch.zeros(states, bins), torch.zeros(states, bins, bins)
    s, a, b = torch.cartesian_prod(torch.arange(states), torch.arange(bins), torch.arange(bins)).T
    for _ in range(120):
        later, following = second[s, a].amax(-1, keepdim=True), first[leads_to[s, a, b]].amax(-1)
        target = backup(later, following, reward[s, a, b], gamma * ~ends[s, a, b], None)
        first[s, a], second[s, a, b] = target.T
    torch.testing.assert_close(second, whole, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(first, whole.amax(-1), atol=1e-4, rtol=1e-4)


def test_what_an_episode_brought_bounds_values_from_below():
    later, zeros = torch.zeros(3, 1), torch.zeros(3)
    found = backup(later, zeros, torch.tensor([0.2, 0.2, 0.2]), zeros, torch.tensor([0.5, 0.1, -torch.inf]))
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.5], [0.1, 0.2], [0.0, 0.2]]))


def test_bins_name_parts_of_the_range():
    action = uniform(100, 2)
    assert (to_action(to_bins(action, 16), 16) - action).abs().max() <= 1 / 16 + 1e-6


def test_what_was_shown_is_worth_its_reward_and_unseen_bins_nothing():
    learner = OffPolicyLearner(vectors(policy=2), 2, 8, QTransformerConfig(**QUICK, offline_updates=300))
    steps = one_step(64, 0)
    learner.add_demonstrations(steps)
    learner.act({"policy": steps.obs["policy"][:8, 0]})
    critics, obs = learner.critic_update, learner.normalizers["policy"](steps.obs["policy"][:, 0])
    assert isinstance(critics, QTransformerUpdate)
    taken = to_bins(steps.action[:, 0], 16)
    with torch.no_grad():
        found = critics.critic(obs, taken[:, :1])
    opposite = (taken + 8) % 16
    assert found.gather(-1, opposite[..., None]).abs().mean() < 0.1
    assert found.gather(-1, taken[..., None]).mean() > 0.4  # of 1; the smallest loss is between what is and is not seen
    fresh = one_step(200, 1).obs["policy"][:, 0]
    assert (learner.policy(fresh) - wanted(fresh)).abs().mean() < 0.2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bins": 1}, "bins=1 must be at least 2"),
        ({"heads": 5}, "heads=5 must be a divisor of the last layer's width, 256"),
        ({"monte_carlo_steps": -1}, "monte_carlo_steps=-1 must be 0 or more"),
    ],
)
def test_settings_under_which_nothing_is_learned_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        QTransformerConfig(**changes)
