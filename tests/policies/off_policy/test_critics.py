"""Targets and losses of Q-values; critics side by side equal critics one by one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.optim.flat_parameters import FlatAdamW, join
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


def test_one_vector_steps_as_separate_tensors_do_and_leaves_others_alone():
    config = NetworkConfig((8,), Activation.TANH, output_gain=1.0)
    joined = CriticEnsemble(2, 4, 1, config, generator=torch.Generator().manual_seed(5))
    plain, other = copy.deepcopy(joined), torch.nn.Parameter(torch.ones(4))
    optimizer = FlatAdamW(joined.parameters(), 1e-2, weight_decay=0.1)
    adam = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.1)
    obs, action = torch.randn(2, 10, 2, generator=torch.Generator().manual_seed(6))
    for _ in range(5):
        loss = (joined(obs, action) * other.mean()).square().mean()
        optimizer.descend(loss)
        adam.zero_grad()
        plain(obs, action).square().mean().backward()
        adam.step()
    assert other.grad is None
    for name, parameter in joined.named_parameters():
        torch.testing.assert_close(parameter, plain.get_parameter(name), atol=1e-6, rtol=1e-5)


def test_long_gradients_are_shortened():
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = FlatAdamW([parameter], 1.0, max_grad_norm=0.5)
    gradient = optimizer.gradient((parameter * torch.full((4,), 3.0)).sum())
    assert optimizer.step(gradient).item() == pytest.approx(6.0)
    assert gradient.norm().item() == pytest.approx(0.5, rel=1e-4)


def test_joined_parameters_show_what_is_written_into_the_vector():
    module = torch.nn.Linear(3, 2)
    vector = join(module.parameters())
    vector.copy_(torch.arange(8.0))
    assert module.weight.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert module.bias.tolist() == [6, 7]
