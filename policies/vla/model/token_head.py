"""Action-token head: each number of an action is one of a few hundred bins, with a probability."""

from __future__ import annotations

import dataclasses

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F


def tokenize(action: Tensor, bins: int) -> Tensor:
    """Bin index of each number, int64: `bins` equal parts of [-1, 1], what lies beyond is clipped."""
    return ((action + 1.0) * (bins / 2)).floor().clamp(0, bins - 1).long()


def detokenize(tokens: Tensor, bins: int) -> Tensor:
    """The centre of each bin, in (-1, 1)."""
    return (tokens.float() + 0.5) * (2.0 / bins) - 1.0


@dataclasses.dataclass(frozen=True)
class TokenDistribution:
    """Independent categorical distributions over the tokens of an action chunk (parallel decoding)."""

    logits: Tensor
    """(B, chunk, A, bins), at temperature 1."""
    temperature: float = 1.0
    """Divides the logits; 0: the median. The same in rollout and update (SimpleVLA-RL)."""

    def sample(self, generator: Generator | None = None) -> Tensor:
        """(B, chunk, A) int64."""
        if self.temperature == 0.0:
            return self.median()
        # The largest of logits plus Gumbel noise is a sample of their softmax, without a loop over rows.
        uniform = torch.rand(self.logits.shape, generator=generator, device=self.logits.device)
        gumbel = -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 2**-24)))
        return (self.logits / self.temperature + gumbel).argmax(-1)

    def median(self) -> Tensor:
        """(B, chunk, A) int64: the first token at which half of the probability is reached.

        It errs least by absolute value. The most likely of hundreds of tokens, such as to stay, may have a small part
        of the probability, and the rest lie to one side of it: docs/vla.md has what that costs.
        """
        below = F.softmax(self.logits, -1).cumsum(-1)
        return (below < 0.5).sum(-1).clamp(max=self.logits.shape[-1] - 1)

    def log_prob(self, tokens: Tensor) -> Tensor:
        """(B, chunk, A) nats of tokens of that shape; a chunk's log-probability is their sum.

        Raises:
            ValueError: the temperature is 0, at which nothing has a density.
        """
        return self._log_probs().gather(-1, tokens[..., None])[..., 0]

    def entropy(self) -> Tensor:
        """(B, chunk, A) nats; raises as `log_prob`."""
        log_probs = self._log_probs()
        return -(log_probs.exp() * log_probs).sum(-1)

    def _log_probs(self) -> Tensor:
        if self.temperature <= 0.0:
            raise ValueError(f"temperature={self.temperature}: probabilities need one above 0")
        return F.log_softmax(self.logits / self.temperature, -1)


class TokenHead(nn.Module):
    """A linear layer from the features of each action of a chunk to the logits of its tokens."""

    temperature = 0.0
    """Default sampling temperature: the median."""
    noise_shape = None
    """`decode` takes no noise."""

    def __init__(self, width: int, action_size: int, bins: int) -> None:
        super().__init__()
        self.bins = bins
        self.out = nn.Linear(width, action_size * bins)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def distribution(self, features: Tensor, temperature: float = 1.0) -> TokenDistribution:
        """The token distribution given features (B, chunk, width)."""
        return TokenDistribution(self.out(features).unflatten(-1, (-1, self.bins)), temperature)

    def loss(self, features: Tensor, action: Tensor, generator: Generator | None = None) -> Tensor:
        """(B, chunk) cross-entropy of actions (B, chunk, A) in [-1, 1], mean over A."""
        del generator
        return -self.distribution(features).log_prob(tokenize(action, self.bins)).mean(-1)

    def sample(self, features: Tensor, temperature: float, generator: Generator | None = None) -> Tensor:
        """(B, chunk, A) actions in (-1, 1)."""
        return detokenize(self.distribution(features, temperature).sample(generator), self.bins)

    def decode(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """(B, chunk, A) actions in (-1, 1): the medians."""
        del noise
        return self.sample(features, 0.0)
