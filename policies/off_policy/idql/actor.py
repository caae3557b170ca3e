"""A policy that draws actions from a model of behaviour and does the one that its critics like best."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import NetworkConfig
from policies.networks.structured_actor import FormedActor
from policies.off_policy.idql.diffusion import Denoiser

SEED = 0  # of the noise from which a policy always draws


@dataclass(frozen=True)
class BehaviourForm:
    """Numbers that describe a `BehaviourActor`."""

    steps: int
    """Of the diffusion."""
    samples: int
    """S, actions that are drawn."""
    critics: int
    exploration: float
    """Share of the variance of the noise that is new where it explores."""


class BehaviourActor(FormedActor):
    """Draws with the same noise in every situation, so that the best action is a function of the observation."""

    kind = "behaviour"
    form_type = BehaviourForm
    noise: Tensor
    """(steps, S, A) standard normal."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        form: BehaviourForm,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(inputs, actions, config, form, generator)
        self.critic = CriticEnsemble(form.critics, inputs + actions, 1, config, generator=generator)
        self.denoiser = Denoiser(inputs, actions, config, form.steps, generator)
        own = torch.Generator().manual_seed(SEED)
        self.register_buffer("noise", torch.randn(form.steps, form.samples, actions, generator=own), persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """The best of its draws: (N, inputs) to (N, A)."""
        return self._best(obs, self.noise[:, None].expand(-1, len(obs), -1, -1))

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The best of draws whose noise is partly `noise` (N, A)."""
        share = self.form.exploration
        mixed = math.sqrt(share) * noise[:, None] + math.sqrt(1 - share) * self.noise[:, None]
        return self._best(obs, mixed)

    def draws(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions (N, S, A) of noise (steps, N, S, A)."""
        count, samples = noise.shape[1:3]
        rows = obs[:, None].expand(-1, samples, -1).flatten(0, 1)
        return self.denoiser.denoise(rows, noise.flatten(1, 2)).unflatten(0, (count, samples))

    def _best(self, obs: Tensor, noise: Tensor) -> Tensor:
        drawn = self.draws(obs, noise)
        rows = obs[:, None].expand(-1, drawn.shape[1], -1).flatten(0, 1)
        values = self.critic(rows, drawn.flatten(0, 1)).amin(0)[:, 0].unflatten(0, drawn.shape[:2])
        return drawn[torch.arange(len(obs), device=obs.device), values.argmax(1)]
