"""Distributions of returns are projected as by hand; critics side by side equal critics one by one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.value_heads import CategoricalHead, ScalarHead, project
from policies.optim.flat_parameters import FlatAdamW, join

LOW, HIGH, ATOMS = -2.0, 3.0, 11


def by_hand(probability: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Each place's probability to its two neighbours by the triangular kernel, one number at a time."""
    spacing, result = (HIGH - LOW) / (ATOMS - 1), torch.zeros_like(probability)
    for e in range(probability.shape[0]):
        for b in range(probability.shape[1]):
            for i in range(ATOMS):
                place = min(max(float(places[b, i]), LOW), HIGH)
                for j in range(ATOMS):
                    nearness = 1 - abs(place - (LOW + j * spacing)) / spacing
                    result[e, b, j] += probability[e, b, i] * max(nearness, 0.0)
    return result


def draws(batch: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    probability = torch.randn(2, batch, ATOMS, generator=generator).softmax(-1)
    return probability, spread * torch.randn(batch, ATOMS, generator=generator)


def test_projection_equals_the_one_by_hand_and_keeps_mass():
    probability, places = draws(20, 3.0)  # some beyond both ends
    places[0] = torch.linspace(LOW, HIGH, ATOMS)  # exactly on the points, the last of which has no upper neighbour
    found = project(probability, places, LOW, HIGH)
    torch.testing.assert_close(found, by_hand(probability, places), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 20))
    torch.testing.assert_close(found[:, 0], probability[:, 0], atol=1e-5, rtol=0)


def test_projection_keeps_the_mean_of_what_lies_within_the_support():
    probability, places = draws(50, 0.4)
    assert places.abs().max() < 2
    found = project(probability, places, LOW, HIGH) @ torch.linspace(LOW, HIGH, ATOMS)
    torch.testing.assert_close(found, (probability * places).sum(-1), atol=1e-5, rtol=0)


def test_a_distribution_s_target_has_the_mean_of_the_scalar_one():
    categorical, scalar = CategoricalHead(ATOMS, -10.0, 10.0), ScalarHead()
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(2, 30, ATOMS, generator=generator)
    reward, bonus = torch.rand(2, 30, generator=generator)
    discount = torch.full((30,), 0.5).masked_fill(torch.arange(30) % 3 == 0, 0.0)
    target = categorical.target(outputs, reward, discount, bonus)
    wanted = scalar.target(categorical.value(outputs)[..., None], reward, discount, bonus)
    torch.testing.assert_close(target @ categorical.support, wanted[..., 0], atol=1e-4, rtol=0)
    torch.testing.assert_close(wanted[:, 0, 0], reward[0].expand(2))  # nothing follows a failure, nor its bonus


def test_losses_are_least_at_the_target():
    head = CategoricalHead(ATOMS, LOW, HIGH)
    target = torch.randn(1, 8, ATOMS, generator=torch.Generator().manual_seed(2)).softmax(-1)
    best = target.log().expand(2, -1, -1)
    wrong = best + torch.linspace(0, 1, ATOMS)
    assert head.loss(best, target) < head.loss(wrong, target)
    expected = sum(functional.cross_entropy(wrong[e], target[0]) for e in range(2))
    torch.testing.assert_close(head.loss(wrong, target), torch.as_tensor(expected))


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
    simulator = FlatAdamW(joined.parameters(), 1e-2, weight_decay=0.1)
    adam = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.1)
    obs, action = torch.randn(2, 10, 2, generator=torch.Generator().manual_seed(6))
    for _ in range(5):
        loss = (joined(obs, action) * other.mean()).square().mean()
        simulator.descend(loss)
        adam.zero_grad()
        plain(obs, action).square().mean().backward()
        adam.step()
    assert other.grad is None
    for name, parameter in joined.named_parameters():
        torch.testing.assert_close(parameter, plain.get_parameter(name), atol=1e-6, rtol=1e-5)


def test_long_gradients_are_shortened():
    parameter = torch.nn.Parameter(torch.zeros(4))
    simulator = FlatAdamW([parameter], 1.0, max_grad_norm=0.5)
    assert simulator.descend((parameter * torch.full((4,), 3.0)).sum()).item() == pytest.approx(6.0)
    assert simulator._flat.grad is not None
    assert simulator._flat.grad.norm().item() == pytest.approx(0.5, rel=1e-4)


def test_joined_parameters_show_what_is_written_into_the_vector():
    module = torch.nn.Linear(3, 2)
    vector = join(module.parameters())
    vector.copy_(torch.arange(8.0))
    assert module.weight.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert module.bias.tolist() == [6, 7]
