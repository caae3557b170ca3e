"""From a network's config to the network."""

from __future__ import annotations

import torch

from policies.autoregressive import AutoregressiveActor
from policies.behaviour import BehaviourActor
from policies.coarse_to_fine import CoarseToFineActor
from policies.entities import EntitiesActor, EntitiesCritic
from policies.equivariant import PartsActor, PartsCritic
from policies.formed import FormedActor
from policies.networks import Architecture, Critic, GaussianActor, NetworkConfig
from policies.pixel_networks import PixelActor

ACTORS: dict[Architecture, type[GaussianActor]] = {
    Architecture.MLP: GaussianActor,
    Architecture.PARTS: PartsActor,
    Architecture.ENTITIES: EntitiesActor,
}
CRITICS: dict[Architecture, type[Critic]] = {
    Architecture.MLP: Critic,
    Architecture.PARTS: PartsCritic,
    Architecture.ENTITIES: EntitiesCritic,
}
FORMED: dict[str, type[FormedActor] | type[PixelActor]] = {
    actor.kind: actor for actor in (CoarseToFineActor, AutoregressiveActor, BehaviourActor, PixelActor)
}
"""What a stored policy is called to the actor it is, where that is no network alone."""


def make_actor(
    inputs: int,
    actions: int,
    config: NetworkConfig,
    initial_std: float = 1.0,
    generator: torch.Generator | None = None,
) -> GaussianActor:
    """An actor of the architecture that `config` names."""
    return ACTORS[config.architecture](inputs, actions, config, initial_std, generator)


def make_critic(inputs: int, config: NetworkConfig, generator: torch.Generator | None = None) -> Critic:
    """A critic of the architecture that `config` names."""
    return CRITICS[config.architecture](inputs, config, generator)
