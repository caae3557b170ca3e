import pytest
import torch

from policies.networks.mlp import MLP, Activation, NetworkConfig
from policies.optim.backprop import Tape


def network(hidden: tuple[int, ...], activation: Activation) -> MLP:
    return MLP(5, 3, NetworkConfig(hidden, activation, output_gain=1.0), torch.Generator().manual_seed(0)).double()


def assert_equal_to_autograd(tape: Tape, mlp: MLP, rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    obs = torch.randn(rows, 5, dtype=torch.float64, generator=generator)
    gradient = torch.randn(rows, 3, dtype=torch.float64, generator=generator)
    expected = mlp(obs)
    expected_gradients = torch.autograd.grad(expected, list(mlp.parameters()), gradient)
    torch.testing.assert_close(tape.forward(mlp, obs), expected.detach())
    gradients = [torch.empty_like(p) for p in mlp.parameters()]
    tape.backward(mlp, obs, gradient, gradients)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("hidden", [(), (8,), (4, 8), (8, 4, 6)])
def test_passes_equal_autograd(activation: Activation, hidden: tuple[int, ...]):
    mlp = network(hidden, activation)
    assert_equal_to_autograd(Tape([mlp], rows=40, dtype=torch.float64), mlp, rows=40)


def test_one_tape_serves_several_networks_and_smaller_batches():
    first, second = network((4, 8), Activation.SILU), network((16,), Activation.TANH)
    tape = Tape([first, second], rows=40, dtype=torch.float64)
    for mlp, rows in ((first, 7), (second, 40), (first, 40), (second, 1)):
        assert_equal_to_autograd(tape, mlp, rows)


def test_output_goes_where_it_is_wanted():
    mlp = network((8,), Activation.TANH)
    out = torch.empty(6, 3, dtype=torch.float64)
    obs = torch.ones(6, 5, dtype=torch.float64)
    assert Tape([mlp], rows=6, dtype=torch.float64).forward(mlp, obs, out) is out
    torch.testing.assert_close(out, mlp(obs).detach())
