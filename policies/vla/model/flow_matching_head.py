"""Flow-matching action head: a chunk of actions is integrated from noise along a learned velocity field."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

HIDDEN = 384
DEPTH = 2
FREQUENCIES = 16  # of the time embedding


class FlowHead(nn.Module):
    """The velocity of a whole action chunk, conditioned on its features (Lipman et al. 2023; Black et al. 2024).

    Noise e and action a are joined by the line x_t = (1 - t) e + t a, whose velocity a - e is regressed by squared
    error; Euler integration from t = 0 gives a sample.
    """

    temperature = 1.0
    """Default factor on the initial noise."""

    def __init__(self, width: int, action_size: int, chunk: int, steps: int) -> None:
        """A head on features of `width`, integrated in `steps` Euler steps."""
        super().__init__()
        self.shape, self.steps = (chunk, action_size), steps
        self.noise_shape = self.shape
        self.condition = nn.Linear(chunk * width, HIDDEN)
        self.noisy_action = nn.Linear(chunk * action_size, HIDDEN)
        self.time = nn.Linear(2 * FREQUENCIES, HIDDEN)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 2 * HIDDEN), nn.GELU(approximate="tanh"),
                          nn.Linear(2 * HIDDEN, HIDDEN))
            for _ in range(DEPTH)
        )  # fmt: skip
        self.out = nn.Linear(HIDDEN, chunk * action_size)

    def velocity(self, condition: Tensor, x: Tensor, time: Tensor) -> Tensor:
        """(B, chunk, A) at x (B, chunk, A) and time (B,), given `self.condition` of the features."""
        angles = time[:, None] * (torch.pi * 2.0 ** torch.linspace(0, 6, FREQUENCIES, device=x.device))
        hidden = condition + self.noisy_action(x.flatten(1)) + self.time(torch.cat([angles.sin(), angles.cos()], -1))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.out(F.silu(hidden)).unflatten(-1, self.shape)

    def loss(self, features: Tensor, action: Tensor, generator: Generator | None = None) -> Tensor:
        """(B, chunk) flow-matching loss of actions (B, chunk, A): squared error of the velocity, mean over A."""
        noise = torch.empty_like(action).normal_(generator=generator)
        time = torch.rand(len(action), generator=generator, device=action.device)
        x = torch.lerp(noise, action, time[:, None, None])
        error = self.velocity(self.condition(features.flatten(1)), x, time) - (action - noise)
        return error.square().mean(-1)

    def sample(self, features: Tensor, temperature: float, generator: Generator | None = None) -> Tensor:
        """(B, chunk, A) actions, clipped to [-1, 1]."""
        noise = features.new_empty(len(features), *self.shape).normal_(generator=generator)
        return self.decode(features, noise * temperature)

    def decode(self, features: Tensor, noise: Tensor | None) -> Tensor:
        """(B, chunk, A) actions, clipped to [-1, 1], integrated from noise of that shape."""
        assert noise is not None
        condition, x = self.condition(features.flatten(1)), noise
        for step in range(self.steps):
            time = x.new_full((len(x),), step / self.steps)
            x = x + self.velocity(condition, x, time) / self.steps
        return x.clamp(-1.0, 1.0)
