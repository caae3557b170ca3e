"""From a network's config to the network."""

from __future__ import annotations

import torch

from policies.networks.mlp import Architecture, Critic, GaussianActor, NetworkConfig
from policies.networks.recurrent import RecurrentActor, RecurrentCritic
from policies.networks.structured.actor import StructuredActor
from policies.networks.structured.diffusion import IDQLActor
from policies.networks.structured.entity_attention import EntitiesActor, EntitiesCritic
from policies.networks.structured.equivariant import PartsActor, PartsCritic
from policies.networks.structured.team import GaussianTeamActor, TeamActor
from policies.networks.structured.team_bins import TeamBinsActor

ACTORS: dict[Architecture, type[GaussianActor]] = {
    Architecture.MLP: GaussianActor,
    Architecture.GRU: RecurrentActor,
    Architecture.PARTS: PartsActor,
    Architecture.ENTITIES: EntitiesActor,
}
CRITICS: dict[Architecture, type[Critic]] = {
    Architecture.MLP: Critic,
    Architecture.GRU: RecurrentCritic,
    Architecture.PARTS: PartsCritic,
    Architecture.ENTITIES: EntitiesCritic,
}
STRUCTURED_ACTORS: dict[str, type[StructuredActor]] = {
    actor.kind: actor for actor in (IDQLActor, TeamActor, GaussianTeamActor, TeamBinsActor)
}
"""Name of a stored policy -> its actor, where that is no network alone."""


def make_actor(
    inputs: int, actions: int, config: NetworkConfig, initial_std: float = 1.0, generator: torch.Generator | None = None
) -> GaussianActor:
    """An actor of the architecture that `config` names."""
    return ACTORS[config.architecture](inputs, actions, config, initial_std, generator)


def make_critic(inputs: int, config: NetworkConfig, generator: torch.Generator | None = None) -> Critic:
    """A critic of the architecture that `config` names."""
    return CRITICS[config.architecture](inputs, config, generator)
