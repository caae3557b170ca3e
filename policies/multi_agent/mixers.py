"""Mixers: from the utilities of a team's units to the team's Q-value, which rises with each of them.

So what is best for every unit by itself is best for the team (Rashid et al. 2018, arXiv:1803.11485, eq. 4 and 5).
"""

from __future__ import annotations

from enum import StrEnum

from torch import Generator, Tensor, nn
from torch.nn import functional

from policies.networks.config import Activation, NetworkConfig
from policies.networks.mlp import MLP, linear


class Mixer(StrEnum):
    """Mixing of utilities into the team's Q-value."""

    MONOTONE = "monotone"
    SUM = "sum"

    def build(self, units: int, state: int, width: int, generator: Generator | None = None) -> nn.Module:
        """A module of utilities (B, units) and states (B, state) to Q-values (B,)."""
        match self:
            case Mixer.MONOTONE:
                return MonotoneMixer(units, state, width, generator)
            case Mixer.SUM:
                return SumMixer()


class SumMixer(nn.Module):
    """Q_tot = Σ u_i: value decomposition, VDN (Sunehag et al. 2017, arXiv:1706.05296, eq. 2)."""

    def forward(self, utilities: Tensor, state: Tensor) -> Tensor:
        """(B, units) to (B,); the state is not used."""
        del state
        return utilities.sum(-1)


class MonotoneMixer(nn.Module):
    """Q_tot = |W2(s)| ELU(|W1(s)| u + b1(s)) + b2(s): QMIX (Rashid et al. 2018, section 4 and figure 2).

    W1, W2 and b1 are linear in the state, b2 is a perceptron of it with one hidden layer.
    """

    def __init__(self, units: int, state: int, width: int, generator: Generator | None = None) -> None:
        """Build it on the CPU; `width` is that of the mixing network's hidden layer.

        W2 is small at first, so that a step of the utilities moves Q_tot by about as much, however wide that layer is.
        """
        super().__init__()
        self._shape = units, width
        self.first = linear(state, units * width, 1.0, generator)
        self.first_bias = linear(state, width, 1.0, generator)
        self.second = linear(state, width, width**-0.5, generator)
        self.second_bias = MLP(state, 1, NetworkConfig((width,), Activation.RELU), generator)

    def forward(self, utilities: Tensor, state: Tensor) -> Tensor:
        """(B, units) and (B, state) to (B,)."""
        weights = self.first(state).abs().unflatten(-1, self._shape)
        hidden = functional.elu((utilities[:, None] @ weights)[:, 0] + self.first_bias(state))
        return (hidden * self.second(state).abs()).sum(-1) + self.second_bias(state)[:, 0]
