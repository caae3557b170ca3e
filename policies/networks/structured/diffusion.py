"""IDQL's policy: a small diffusion model of the data's actions, whose samples the critics choose from.

Denoising diffusion (Ho et al. 2020, arXiv:2006.11239) with the few steps and the variance-preserving schedule of IDQL
(Hansen-Estruch et al. 2023, arXiv:2304.10573, appendix B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import HIDDEN_GAIN, NetworkConfig, linear, nonlinearity
from policies.networks.structured.actor import StructuredActor

SEED = 0  # of the fixed noise of a policy's samples

BETA_MIN, BETA_MAX = 0.1, 10.0  # of the variance-preserving schedule; Song et al. 2021 end at 20


def schedule(steps: int) -> Tensor:
    """(steps,) variances β of the noise that each step adds."""
    time = torch.arange(1, steps + 1, dtype=torch.float32)
    return 1 - torch.exp(-BETA_MIN / steps - 0.5 * (BETA_MAX - BETA_MIN) * (2 * time - 1) / steps**2)


class ResidualBlock(nn.Module):
    """Layer normalisation and an MLP of one hidden layer, with a residual connection."""

    def __init__(self, width: int, config: NetworkConfig, generator: Generator | None) -> None:
        super().__init__()
        self.norm, self.activation = nn.LayerNorm(width), nonlinearity(config.activation)
        self.hidden = linear(width, 4 * width, HIDDEN_GAIN, generator)
        self.output = linear(4 * width, width, 1.0, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same."""
        return x + self.output(self.activation(self.hidden(self.norm(x))))


class Denoiser(nn.Module):
    """Predicts the noise in noisy actions, given an observation (ε-prediction)."""

    betas: Tensor
    """(steps,) variances β of the noise that each step adds."""
    alphas_cumprod: Tensor
    """(steps,) cumulative products of 1 - β: the action's share of the variance after each step."""

    def __init__(
        self, inputs: int, actions: int, config: NetworkConfig, steps: int, generator: Generator | None
    ) -> None:
        super().__init__()
        width, self.steps = config.hidden[-1], steps
        betas = schedule(steps)
        self.register_buffer("betas", betas, persistent=False)
        self.register_buffer("alphas_cumprod", (1 - betas).cumprod(0), persistent=False)
        self.start = linear(inputs + actions + steps, width, HIDDEN_GAIN, generator)
        self.blocks = nn.Sequential(*(ResidualBlock(width, config, generator) for _ in config.hidden))
        self.activation = nonlinearity(config.activation)
        self.end = linear(width, actions, config.output_gain, generator)

    def forward(self, noisy: Tensor, obs: Tensor, step: Tensor) -> Tensor:
        """The noise: (..., A), (..., inputs) and steps (...) int64 to (..., A)."""
        when = nn.functional.one_hot(step, self.steps).to(noisy.dtype)
        x = self.start(torch.cat([noisy, obs, when], -1))
        return self.end(self.activation(self.blocks(x)))

    def loss(self, action: Tensor, obs: Tensor, noise: Tensor) -> Tensor:
        """Squared error of the predicted noise (Ho et al., eq. 14) at all steps: (B, A) and (B, inputs) to ()."""
        step = torch.arange(self.steps, device=obs.device)[:, None].expand(-1, len(obs))
        kept = self.alphas_cumprod[:, None, None]
        noisy = kept.sqrt() * action + (1 - kept).sqrt() * noise
        predicted = self(noisy, obs.expand(self.steps, -1, -1), step)
        return (predicted - noise).square().mean()

    def denoise(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions (B, A) of standard normal noise (Ho et al., algorithm 2), kept within [-1, 1] on the way.

        `noise` is (steps, B, A), the initial noise and that which every step but the last adds.
        """
        x = noise[0]
        for index in range(self.steps - 1, -1, -1):
            step = torch.full((len(obs),), index, device=obs.device)
            beta, kept = self.betas[index], self.alphas_cumprod[index]
            x = (x - beta / (1 - kept).sqrt() * self(x, obs, step)) / (1 - beta).sqrt()
            if index:
                x = x + beta.sqrt() * noise[index]
            x = x.clamp(-1.0, 1.0)
        return x


@dataclass(frozen=True)
class IDQLStructure:
    """Numbers that describe a `IDQLActor`."""

    steps: int
    """Steps of the diffusion."""
    samples: int
    """S, sampled actions."""
    critics: int
    exploration: float
    """Share of the variance of the noise that is new where it explores."""


class IDQLActor(StructuredActor):
    """Samples actions from a diffusion model and takes the one of the highest Q-value.

    The noise is the same for every observation, so that the action is a function of the observation.
    """

    kind = "idql"
    structure_type = IDQLStructure
    structure: IDQLStructure
    noise: Tensor
    """(steps, S, A) standard normal."""

    def build(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> None:
        structure = self.structure
        self.critic = CriticEnsemble(structure.critics, inputs + actions, 1, config, generator=generator)
        self.denoiser = Denoiser(inputs, actions, config, structure.steps, generator)
        own = Generator().manual_seed(SEED)
        self.register_buffer(
            "noise", torch.randn(structure.steps, structure.samples, actions, generator=own), persistent=False
        )

    def forward(self, obs: Tensor) -> Tensor:
        """The best of its samples: (N, inputs) to (N, A)."""
        return self._best(obs, self.noise[:, None].expand(-1, len(obs), -1, -1))

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The best of samples whose noise is partly `noise` (N, A)."""
        share = self.structure.exploration
        mixed = math.sqrt(share) * noise[:, None] + math.sqrt(1 - share) * self.noise[:, None]
        return self._best(obs, mixed)

    def samples(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions (N, S, A) of noise (steps, N, S, A)."""
        count, samples = noise.shape[1:3]
        rows = obs[:, None].expand(-1, samples, -1).flatten(0, 1)
        return self.denoiser.denoise(rows, noise.flatten(1, 2)).unflatten(0, (count, samples))

    def _best(self, obs: Tensor, noise: Tensor) -> Tensor:
        sampled = self.samples(obs, noise)
        rows = obs[:, None].expand(-1, sampled.shape[1], -1).flatten(0, 1)
        values = self.critic(rows, sampled.flatten(0, 1)).amin(0)[:, 0].unflatten(0, sampled.shape[:2])
        return sampled[torch.arange(len(obs), device=obs.device), values.argmax(1)]
