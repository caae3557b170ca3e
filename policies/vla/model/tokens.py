"""Actions as tokens: each number is one of a few hundred values, with a probability."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def encode(action: Tensor, bins: int) -> Tensor:
    """Which of `bins` equal parts of [-1, 1] each number lies in, int64 of the same shape; the rest is clipped."""
    return ((action + 1.0) * (bins / 2)).floor().clamp(0, bins - 1).long()


def decode(tokens: Tensor, bins: int) -> Tensor:
    """The middle of each part, in (-1, 1)."""
    return (tokens.float() + 0.5) * (2.0 / bins) - 1.0


@dataclasses.dataclass(frozen=True)
class Choice:
    """A distribution over token chunks, whose numbers are independent given what was seen (parallel decoding)."""

    logits: Tensor
    """(B, chunk, A, bins), at temperature 1."""
    temperature: float = 1.0
    """By which logits are divided; 0: the most likely token, always. The same in rollout and update (SimpleVLA-RL)."""

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """(B, chunk, A) int64."""
        if self.temperature == 0.0:
            return self.logits.argmax(-1)
        # The largest of logits plus Gumbel noise is a sample of their softmax, without a loop over rows.
        uniform = torch.rand(self.logits.shape, generator=generator, device=self.logits.device)
        gumbel = -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 2**-24)))
        return (self.logits / self.temperature + gumbel).argmax(-1)

    def log_prob(self, tokens: Tensor) -> Tensor:
        """(B, chunk, A) of tokens of that shape; the logarithm of a chunk's probability is their sum.

        Raises:
            ValueError: the temperature is 0, at which nothing has a density.
        """
        return self._log_probs().gather(-1, tokens[..., None])[..., 0]

    def entropy(self) -> Tensor:
        """(B, chunk, A) nats.

        Raises:
            ValueError: the temperature is 0.
        """
        log_probs = self._log_probs()
        return -(log_probs.exp() * log_probs).sum(-1)

    def _log_probs(self) -> Tensor:
        if self.temperature <= 0.0:
            raise ValueError(f"temperature={self.temperature}: probabilities need one above 0")
        return F.log_softmax(self.logits / self.temperature, -1)


class TokenHead(nn.Module):
    """A layer from each action's token to the logits of its numbers."""

    temperature = 0.0
    """At which a robot acts."""

    def __init__(self, width: int, action_size: int, bins: int) -> None:
        """For `action_size` numbers of `bins` values, from features of `width`."""
        super().__init__()
        self.bins = bins
        self.out = nn.Linear(width, action_size * bins)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def choice(self, features: Tensor, temperature: float = 1.0) -> Choice:
        """The distribution that features (B, chunk, width) stand for."""
        return Choice(self.out(features).unflatten(-1, (-1, self.bins)), temperature)

    def loss(self, features: Tensor, action: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, chunk), mean over the numbers of each action (B, chunk, A) in [-1, 1] of minus its log-probability."""
        del generator
        return -self.choice(features).log_prob(encode(action, self.bins)).mean(-1)

    def act(self, features: Tensor, temperature: float, generator: torch.Generator | None = None) -> Tensor:
        """(B, chunk, A) in (-1, 1)."""
        return decode(self.choice(features, temperature).sample(generator), self.bins)
