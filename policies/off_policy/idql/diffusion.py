"""A small diffusion model of actions: what was done in a situation, with all the ways in which it was done.

Denoising diffusion (Ho et al. 2020, arXiv:2006.11239) with the few steps and the variance-preserving schedule of IDQL
(Hansen-Estruch et al. 2023, arXiv:2304.10573, appendix B).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.networks.mlp import HIDDEN_GAIN, NetworkConfig, linear

SLOWEST, FASTEST = (
    0.1,
    10.0,
)  # noise per unit of diffusion time at both ends; Song et al. 2021 end at 20


def schedule(steps: int) -> Tensor:
    """(steps,) variances of the noise that each step adds."""
    time = torch.arange(1, steps + 1, dtype=torch.float32)
    return 1 - torch.exp(-SLOWEST / steps - 0.5 * (FASTEST - SLOWEST) * (2 * time - 1) / steps**2)


class ResidualBlock(nn.Module):
    """Normalised, widened, narrowed, beside a short cut."""

    def __init__(self, width: int, config: NetworkConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.norm, self.activation = nn.LayerNorm(width), config.activation.module()
        self.wide = linear(width, 4 * width, HIDDEN_GAIN, generator)
        self.narrow = linear(4 * width, width, 1.0, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same."""
        return x + self.narrow(self.activation(self.wide(self.norm(x))))


class Denoiser(nn.Module):
    """Finds the noise in noisy actions, given an observation."""

    betas: Tensor
    """(steps,) variances of the noise that each step adds."""
    kept: Tensor
    """(steps,) shares of variance that are still the action's after each step."""

    def __init__(
        self, inputs: int, actions: int, config: NetworkConfig, steps: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        width, self.steps = config.hidden[-1], steps
        betas = schedule(steps)
        self.register_buffer("betas", betas, persistent=False)
        self.register_buffer("kept", (1 - betas).cumprod(0), persistent=False)
        self.start = linear(inputs + actions + steps, width, HIDDEN_GAIN, generator)
        self.blocks = nn.Sequential(*(ResidualBlock(width, config, generator) for _ in config.hidden))
        self.activation = config.activation.module()
        self.end = linear(width, actions, config.output_gain, generator)

    def forward(self, noisy: Tensor, obs: Tensor, step: Tensor) -> Tensor:
        """The noise: (..., A), (..., inputs) and steps (...) int64 to (..., A)."""
        when = nn.functional.one_hot(step, self.steps).to(noisy.dtype)
        x = self.start(torch.cat([noisy, obs, when], -1))
        return self.end(self.activation(self.blocks(x)))

    def loss(self, action: Tensor, obs: Tensor, noise: Tensor) -> Tensor:
        """Squared error of the noise found (Ho et al., eq. 14) at all steps at once: (B, A) and (B, inputs) to ()."""
        step = torch.arange(self.steps, device=obs.device)[:, None].expand(-1, len(obs))
        kept = self.kept[:, None, None]
        noisy = kept.sqrt() * action + (1 - kept).sqrt() * noise
        found = self(noisy, obs.expand(self.steps, -1, -1), step)
        return (found - noise).square().mean()

    def denoise(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions of standard normal noise (Ho et al., algorithm 2), kept within [-1, 1] on the way.

        Args:
            obs: (B, inputs).
            noise: (steps, B, A), what is begun with and what every step but the last adds.

        Returns:
            (B, A).
        """
        x = noise[0]
        for index in range(self.steps - 1, -1, -1):
            step = torch.full((len(obs),), index, device=obs.device)
            beta, kept = self.betas[index], self.kept[index]
            x = (x - beta / (1 - kept).sqrt() * self(x, obs, step)) / (1 - beta).sqrt()
            if index:
                x = x + beta.sqrt() * noise[index]
            x = x.clamp(-1.0, 1.0)
        return x
