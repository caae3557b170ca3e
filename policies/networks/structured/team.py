"""A team's actors: a network of its own for each agent, which acts by what that agent observes alone.

Inputs are the agents' vectors one after the other, (N, M S) for M agents, and outputs alike, (N, M A).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor, nn

from policies.networks.mlp import MLP, NetworkConfig
from policies.networks.squashed import SquashedActor
from policies.networks.structured.actor import StructuredActor


class DecentralizedActor(StructuredActor):
    """An actor of M agents: a vector of S numbers to A actions for each, in the order of the agents.

    Inputs are the agents' vectors one after the other, (N, M S); outputs alike, (N, M A). `sizes` are one agent's.
    Its structure has a field `agents`, M.
    """

    @property
    def team_size(self) -> int:
        return self.structure.agents

    def statistics(self, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Statistics of all agents' observations, (M S,); from one agent's, (S,), the same for each."""
        times = self.team_size if len(mean) == self.sizes[0] else 1
        return mean.repeat(times), scale.repeat(times)

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Rows of the whole team as those of each agent."""
        return rows.tensor_split(self.team_size, -1)


@dataclass(frozen=True)
class TeamStructure:
    """Numbers that describe a `TeamActor`."""

    agents: int
    stochastic: bool
    """Whether agents sample their actions, as SAC's do; else their actions are deterministic, as TD3's."""
    noise: float = 0.0
    """Standard deviation of the exploration noise of deterministic agents."""


class TeamActor(DecentralizedActor):
    """M squashed actors, as SAC's and TD3's are."""

    kind = "team-squashed"
    structure_type = TeamStructure
    structure: TeamStructure

    def build(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> None:
        self.agents = nn.ModuleList(
            SquashedActor(inputs, actions, config, stochastic=self.structure.stochastic, generator=generator)
            for _ in range(self.team_size)
        )

    def members(self) -> list[SquashedActor]:
        """The agents' actors."""
        return [agent for agent in self.agents if isinstance(agent, SquashedActor)]

    def learned_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that the actors' losses train."""
        return self.parameters()

    def forward(self, obs: Tensor) -> Tensor:
        """The mean actions: (N, M S) to (N, M A)."""
        return torch.cat([actor(own) for actor, own in zip(self.members(), self.split(obs), strict=True)], -1)

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The exploring actions of standard normal `noise`, (N, M A)."""
        if not self.structure.stochastic:
            return super().sample(obs, noise)
        return torch.cat([a.sample(o, n) for a, o, n in self._each(obs, noise)], -1)

    def sample_with_density(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The actions of standard normal `noise`, (N, M A), and the agents' log densities, (N, M)."""
        drawn = [a.sample_with_density(o, n) for a, o, n in self._each(obs, noise)]
        return torch.cat([action for action, _ in drawn], -1), torch.stack([density for _, density in drawn], -1)

    def _each(self, obs: Tensor, noise: Tensor) -> Iterable[tuple[SquashedActor, Tensor, Tensor]]:
        return zip(self.members(), self.split(obs), self.split(noise), strict=True)


@dataclass(frozen=True)
class GaussianTeamStructure:
    """Numbers that describe a `GaussianTeamActor`."""

    agents: int
    initial_std: float
    """Standard deviation of actions at first."""


class GaussianTeamActor(DecentralizedActor):
    """M perceptrons that give the means of Gaussians, as PPO's do, each with a deviation for all states."""

    kind = "team-gaussian"
    structure_type = GaussianTeamStructure
    structure: GaussianTeamStructure

    def build(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> None:
        self.means = nn.ModuleList(MLP(inputs, actions, config, generator) for _ in range(self.team_size))
        self.log_stds = nn.ParameterList(
            nn.Parameter(torch.full((actions,), math.log(self.structure.initial_std))) for _ in range(self.team_size)
        )

    @property
    def log_std(self) -> Tensor:
        """(M A,) natural logarithms of the standard deviations."""
        return torch.cat(list(self.log_stds))

    @property
    def mean(self) -> Self:
        """From joint observations to joint mean actions: itself."""
        return self

    def of_agent(self, agent: int) -> list[nn.Parameter]:
        """The parameters of one agent."""
        return [*self.means[agent].parameters(), self.log_stds[agent]]

    def forward(self, obs: Tensor) -> Tensor:
        """The mean actions: (N, M S) to (N, M A)."""
        return torch.cat([network(rows) for network, rows in zip(self.means, self.split(obs), strict=True)], -1)

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The actions of standard normal `noise`, not bounded, (N, M A)."""
        return torch.addcmul(self(obs), noise, self.log_std.exp())
