"""A team's actor over binned actions: an agent's Q-network rates the bins of each of its action's components.

A pair of agent and component is a unit, which chooses its own best bin (Tavakoli et al. 2018, arXiv:1711.08946, of one
robot's components; Rashid et al. 2018, arXiv:1803.11485, of agents).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import NetworkConfig
from policies.networks.structured.team import DecentralizedActor


@dataclass(frozen=True)
class TeamBinsStructure:
    """Numbers that describe a `TeamBinsActor`."""

    agents: int
    bins: int
    """Values of each component of an action, equally spaced from -1 to 1."""
    epsilon: float = 0.0
    """Probability with which a unit explores where actions are sampled."""


class TeamBinsActor(DecentralizedActor):
    """M Q-networks, each from an agent's vector to the utilities of its units' bins; units act greedily."""

    kind = "team-bins"
    structure_type = TeamBinsStructure
    structure: TeamBinsStructure

    def build(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> None:
        outputs = actions * self.structure.bins
        self.networks = CriticEnsemble(self.team_size, inputs, outputs, config, generator=generator)

    def utilities(self, obs: Tensor) -> Tensor:
        """Of every unit's bins: (N, M S) to (N, M A, bins)."""
        seen = torch.stack(self.split(obs))
        values = self.networks(seen, seen[..., :0])
        return values.transpose(0, 1).reshape(len(obs), -1, self.structure.bins)

    def forward(self, obs: Tensor) -> Tensor:
        """The greedy actions: (N, M S) to (N, M A)."""
        return bin_centres(self.utilities(obs).argmax(-1), self.structure.bins)

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The exploring actions of standard normal `noise`, (N, M A), with the structure's ε."""
        return self.explore(obs, noise, self.structure.epsilon)

    def explore(self, obs: Tensor, noise: Tensor, epsilon: float) -> Tensor:
        """ε-greedy actions (N, M A): with probability ε a unit takes a uniformly random bin.

        One standard normal number decides whether it does, and which one it takes: its distribution function u is
        uniform, and so is u / ε where u < ε.
        """
        if epsilon == 0:
            return self(obs)
        uniform, bins = torch.special.ndtr(noise), self.structure.bins
        drawn = bin_centres((uniform * (bins / epsilon)).long().clamp(max=bins - 1), bins)
        return torch.where(uniform < epsilon, drawn, self(obs))


def bin_centres(index: Tensor, bins: int) -> Tensor:
    """Values of bins: int64 of any shape to as many of -1, ..., 1."""
    return index * (2.0 / (bins - 1)) - 1.0


def nearest_bins(action: Tensor, bins: int) -> Tensor:
    """The bins whose values are nearest to those of an action in [-1, 1], int64 of its shape."""
    return ((action + 1.0) * ((bins - 1) / 2.0)).round().long().clamp(0, bins - 1)
