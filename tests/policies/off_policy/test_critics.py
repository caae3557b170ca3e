"""Targets and losses of Q-values; critics side by side equal critics one by one."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.critics import bellman_target, critic_loss


def test_nothing_follows_a_failure_nor_its_bonus():
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(2, 30, 1, generator=generator)
    reward, bonus = torch.rand(2, 30, generator=generator)
    discount = torch.full((30,), 0.5).masked_fill(torch.arange(30) % 3 == 0, 0.0)
    target = bellman_target(values, reward, discount, bonus)
    assert target.shape == values.shape
    torch.testing.assert_close(target[:, ::3, 0], reward[::3].expand(2, -1))
    torch.testing.assert_close(target[1, 1, 0], reward[1] + 0.5 * (values[1, 1, 0] + bonus[1]))


def test_losses_are_least_at_the_target():
    target = torch.randn(1, 8, 1, generator=torch.Generator().manual_seed(2))
    wrong = target + torch.tensor([0.0, 2.0])[:, None, None]
    assert critic_loss(target.expand(2, -1, -1), target) == 0
    assert critic_loss(wrong, target) == 4.0


@pytest.mark.parametrize("layer_norm", [False, True])
def test_critics_side_by_side_equal_critics_one_by_one(layer_norm):
    config = NetworkConfig((16, 8), Activation.RELU, output_gain=1.0)
    ensemble = CriticEnsemble(3, 6, 4, config, layer_norm=layer_norm, generator=torch.Generator().manual_seed(3))
    obs, action = torch.randn(2, 10, 3, generator=torch.Generator().manual_seed(4))
    found = ensemble(obs, action)
    for e in range(3):
        x = torch.cat([obs, action], -1)
        for i, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
            x = x @ weight[e] + bias[e, 0]
            if i < 2:
                x = (functional.layer_norm(x, x.shape[-1:]) if layer_norm else x).relu()
        torch.testing.assert_close(found[e], x, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found[0], found[1])
