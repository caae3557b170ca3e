import pytest
import torch
from torch import nn

from policies.networks.optim.flat_parameters import FlatAdamW


def two_layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_as_torch_s_adamw_does_shortens_long_gradients_and_leaves_others_alone(weight_decay: float):
    network, plain, other = two_layers(), two_layers(), nn.Parameter(torch.ones(4))
    flat = FlatAdamW(network.parameters(), 1e-2, weight_decay=weight_decay, max_grad_norm=0.5)
    adam = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=weight_decay)
    for step in range(10):
        inputs = torch.randn(8, 3) * (10 if step % 2 else 0.1)
        norm = flat.descend((network(inputs) * other.mean()).square().mean())
        adam.zero_grad()
        plain(inputs).square().mean().backward()
        expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        adam.step()
        torch.testing.assert_close(norm, expected)
    for own, wanted in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, wanted)
    assert other.grad is None
    flat.vector.copy_(torch.arange(26.0))
    assert list(network.parameters())[-1].tolist() == [25], "parameters are views of the vector"


def test_a_rate_in_a_tensor_is_read_at_every_step():
    network, rate = two_layers(), torch.tensor(1e-2)
    flat = FlatAdamW(network.parameters(), rate)
    rate.fill_(0.0)
    before = flat.vector.clone()
    flat.step(torch.ones_like(before))
    assert torch.equal(flat.vector, before)
    rate.fill_(1e-3)
    flat.step(torch.ones_like(before))
    torch.testing.assert_close(before - flat.vector, torch.full_like(before, 1e-3), rtol=1e-3, atol=1e-7)


def test_held_parameters_stay_and_their_moments_are_gathered():
    flat, free = FlatAdamW(two_layers().parameters(), 1e-2), FlatAdamW(two_layers().parameters(), 1e-2)
    before = flat.vector.clone()
    gradients = torch.randn(5, len(before))
    for gradient in gradients:
        flat.step(gradient.clone(), held=4)
        free.step(gradient.clone())
    assert torch.equal(flat.vector[:4], before[:4])
    assert torch.equal(flat.vector[4:], free.vector[4:])
    for name in ("step", "exp_avg", "exp_avg_sq"):
        assert torch.equal(flat.state()[name], free.state()[name])
