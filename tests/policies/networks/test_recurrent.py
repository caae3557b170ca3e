import pytest
import torch

from policies.networks.mlp import Architecture, NetworkConfig
from policies.networks.recurrent import GRU, RecurrentActor, RecurrentNetwork, Sequences
from tests.kit.arrays import drawn

T, N, INPUTS, UNITS = 7, 5, 3, 4
CONFIG = NetworkConfig((8,), architecture=Architecture.GRU, memory=UNITS)


def test_the_unit_is_torchs() -> None:
    own, theirs = GRU(INPUTS, UNITS, torch.Generator().manual_seed(0)), torch.nn.GRUCell(INPUTS, UNITS)
    torch.nn.init.normal_(own.inputs.bias)
    torch.nn.init.normal_(own.recurrence.bias)
    with torch.no_grad():
        theirs.weight_ih.copy_(own.inputs.weight)
        theirs.weight_hh.copy_(own.recurrence.weight)
        theirs.bias_ih.copy_(own.inputs.bias)
        theirs.bias_hh.copy_(own.recurrence.bias)
    x, hidden = drawn(N, INPUTS), drawn(N, UNITS, seed=2)
    torch.testing.assert_close(own(x, hidden), theirs(x, hidden))


def test_sequences_are_steps_and_episodes_begin_without_memory() -> None:
    network = RecurrentNetwork(INPUTS, 2, CONFIG, torch.Generator().manual_seed(0))
    x, hidden = drawn(T, N, INPUTS), drawn(N, UNITS, seed=2)
    begins = torch.rand(T, N, generator=torch.Generator().manual_seed(2)) < 0.3
    found, states = network.over(x.flatten(0, 1), Sequences(hidden, begins))
    for t in range(T):
        hidden = torch.where(begins[t, :, None], 0.0, hidden)
        expected, hidden = network(x[t], hidden)
        torch.testing.assert_close(found.view(T, N, 2)[t], expected)
        torch.testing.assert_close(states[t], hidden)


def test_gradients_go_back_to_the_episode_s_first_step_and_no_further() -> None:
    network = RecurrentNetwork(INPUTS, 1, CONFIG, torch.Generator().manual_seed(0))
    x = drawn(T, 1, INPUTS).requires_grad_()
    begins = torch.zeros(T, 1, dtype=torch.bool)
    begins[3] = True
    network.over(x.flatten(0, 1), Sequences(torch.zeros(1, UNITS), begins))[0][-1].sum().backward()
    assert x.grad is not None
    reached = x.grad.abs().sum((1, 2)) > 0
    assert reached.tolist() == [False] * 3 + [True] * 4


def test_the_same_seed_gives_the_same_weights_and_others_are_refused() -> None:
    one, other = (RecurrentActor(INPUTS, 2, CONFIG, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    with pytest.raises(TypeError, match="needs its hidden state"):
        one(drawn(N, INPUTS))
