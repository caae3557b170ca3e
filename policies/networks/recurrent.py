"""Recurrent networks: a gated recurrent unit (GRU), and a perceptron that reads its hidden state and the observation.

The unit is that of Cho et al. 2014 (arXiv:1406.1078) in the form of torch's and cuDNN's: input x, hidden state h,

    r = sigmoid(Wr x + Ur h),  z = sigmoid(Wz x + Uz h),  n = tanh(Wn x + r (Un h)),  h' = n + z (h - n)

each with biases. Networks are called in two ways: for one control step, and over whole sequences of them, in which an
episode that begins finds the hidden state at zero.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from policies.networks.mlp import MLP, Critic, GaussianActor, NetworkConfig, orthogonal

GATES = 3


class Sequences(NamedTuple):
    """Starts of n sequences of T steps, and of episodes within them."""

    hidden: Tensor
    """(n, H) hidden state before the first step."""
    begins: Tensor
    """(T, n) bool, an episode begins with this step."""


def outputs(network: nn.Module, rows: Tensor, sequences: Sequences | None) -> Tensor:
    """(B, outputs) of a network for rows (B, inputs), which for a recurrent one are steps of sequences."""
    if not isinstance(network, RecurrentNetwork):
        return network(rows)
    assert sequences is not None
    return network.over(rows, sequences)[0]


class GRU(nn.Module):
    """A layer of gated recurrent units with orthogonal weights and zero biases."""

    def __init__(self, inputs: int, units: int, generator: Generator | None = None) -> None:
        super().__init__()
        self.units = units
        self.inputs, self.recurrence = (_gates(size, units, generator) for size in (inputs, units))

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """One step: (N, inputs) and the hidden state (N, units) to the next hidden state."""
        return self._following(self.inputs(x), hidden)

    def over(self, x: Tensor, sequences: Sequences) -> Tensor:
        """(T, n, units) hidden states after each of (T, n, inputs)."""
        hidden, states = sequences.hidden, []
        kept = (~sequences.begins).to(x.dtype)[..., None]
        for own, keep in zip(self.inputs(x), kept, strict=True):  # the inputs' part of all steps at once
            hidden = self._following(own, hidden * keep)
            states.append(hidden)
        return torch.stack(states)

    def _following(self, own: Tensor, hidden: Tensor) -> Tensor:
        reset, update, fresh = own.split(self.units, -1)
        reset_h, update_h, fresh_h = self.recurrence(hidden).split(self.units, -1)
        new = torch.tanh(fresh + torch.sigmoid(reset + reset_h) * fresh_h)
        return new + torch.sigmoid(update + update_h) * (hidden - new)


def _gates(inputs: int, units: int, generator: Generator | None) -> nn.Linear:
    layer = nn.Linear(inputs, GATES * units, device="meta")  # as `policies.networks.mlp.linear`
    blocks = [orthogonal((units, inputs), 1.0, generator) for _ in range(GATES)]
    layer.weight, layer.bias = nn.Parameter(torch.cat(blocks)), nn.Parameter(torch.zeros(GATES * units))
    return layer


class RecurrentNetwork(nn.Module):
    """A GRU, and a perceptron that reads the observation and the GRU's hidden state."""

    def __init__(self, inputs: int, outputs: int, config: NetworkConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.gru = GRU(inputs, config.memory, generator)
        self.head = MLP(inputs + config.memory, outputs, config, generator)

    def forward(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One step: (N, inputs) and the hidden state (N, H) to (N, outputs) and the next hidden state."""
        hidden = self.gru(obs, hidden)
        return self.head(torch.cat([obs, hidden], -1)), hidden

    def over(self, rows: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """(T n, inputs), step after step of all n sequences, to (T n, outputs) and hidden states (T, n, H)."""
        states = self.gru.over(rows.unflatten(0, sequences.begins.shape), sequences)
        return self.head(torch.cat([rows, states.flatten(0, 1)], -1)), states


class RecurrentActor(GaussianActor):
    """A Gaussian around a `RecurrentNetwork`'s output, with a standard deviation that is a parameter of its own."""

    mean: RecurrentNetwork  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def units(self) -> int:
        """H, length of the hidden state."""
        return self.mean.gru.units

    def build_mean(
        self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None
    ) -> RecurrentNetwork:
        return RecurrentNetwork(inputs, actions, config, generator)

    def forward(self, obs: Tensor) -> Tensor:
        raise TypeError("a recurrent actor needs its hidden state; call `mean` with it, or `Policy.acting_in`")


class HiddenState:
    """A recurrent actor with its hidden states in N environments, which begin at zero."""

    values: Tensor
    """(N, H) after the last step."""

    def __init__(self, actor: RecurrentActor, rows: int) -> None:
        self._actor, self.rows = actor, rows
        self.values = actor.log_std.detach().new_zeros(rows, actor.units)

    def __call__(self, obs: Tensor, begun: Tensor) -> Tensor:
        """Mean actions (N, A) of normalised observations (N, inputs); `begun` (N,) bool: where an episode begins."""
        mean, self.values = self._actor.mean(obs, self.values.masked_fill(begun[:, None], 0.0))
        return mean


class RecurrentCritic(Critic):
    """The expected return of a sequence of observations."""

    value: RecurrentNetwork  # pyright: ignore[reportIncompatibleVariableOverride]

    def build_value(self, inputs: int, config: NetworkConfig, generator: Generator | None) -> RecurrentNetwork:
        return RecurrentNetwork(inputs, 1, config, generator)

    def forward(self, obs: Tensor) -> Tensor:
        raise TypeError("a recurrent critic needs its hidden state; call `value` with it")
