"""From a network's config to the network."""

from __future__ import annotations

import torch

from policies.equivariant import PartsActor, PartsCritic
from policies.networks import Architecture, Critic, GaussianActor, NetworkConfig


def make_actor(
    inputs: int,
    actions: int,
    config: NetworkConfig,
    initial_std: float = 1.0,
    generator: torch.Generator | None = None,
) -> GaussianActor:
    """An actor of the architecture that `config` names."""
    kind = PartsActor if config.architecture is Architecture.PARTS else GaussianActor
    return kind(inputs, actions, config, initial_std, generator)


def make_critic(inputs: int, config: NetworkConfig, generator: torch.Generator | None = None) -> Critic:
    """A critic of the architecture that `config` names."""
    kind = PartsCritic if config.architecture is Architecture.PARTS else Critic
    return kind(inputs, config, generator)
