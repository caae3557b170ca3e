"""Value heads: a critic's outputs as an expected return, or as the distribution of returns on a fixed support (C51)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class ScalarHead:
    """One output (E, B, 1) of each of E critics is the expected return, learned by squared error."""

    def value(self, outputs: Tensor) -> Tensor:
        """Expected returns: (E, B, 1) to (E, B)."""
        return outputs.squeeze(-1)

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float) -> Tensor:
        """Bellman targets r + γ (Q + bonus), (E, B, 1).

        Args:
            outputs: (E, B, 1) of the target critics for the next state and action.
            reward: (B,).
            discount: (B,) factor γ on the next value, 0 after a failure.
            bonus: (B,) added to the next value before it is discounted.
        """
        return (reward + discount * (self.value(outputs) + bonus)).unsqueeze(-1)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Mean over the batch, summed over critics: (E, B, 1) and (E or 1, B, 1) to ()."""
        return (outputs - target).square().mean(1).sum()


class CategoricalHead:
    """K outputs (E, B, K) of each of E critics are logits of equally spaced returns (Bellemare et al. 2017, "C51")."""

    support: Tensor
    """(K,) the returns."""

    def __init__(self, atoms: int, low: float, high: float, device: torch.device | str = "cpu") -> None:
        """Space `atoms` returns from `low` to `high`."""
        self.low, self.high = low, high
        self.support = torch.linspace(low, high, atoms, device=device)

    def value(self, outputs: Tensor) -> Tensor:
        """Σ p z: (E, B, K) to (E, B)."""
        return outputs.softmax(-1) @ self.support

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float) -> Tensor:
        """Probabilities of r + γ (z + bonus) on the support, (E, B, K); arguments as of `ScalarHead.target`."""
        base = reward + discount * bonus
        returns = base[:, None] + discount[:, None] * self.support
        return project(outputs.softmax(-1), returns, self.low, self.high)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Cross entropy, mean over the batch, summed over critics: (E, B, K) and (E or 1, B, K) to ()."""
        return -(target * functional.log_softmax(outputs, -1)).sum(-1).mean(1).sum()


def project(probability: Tensor, returns: Tensor, low: float, high: float) -> Tensor:
    """Project a distribution of returns onto a support (Bellemare et al. 2017, eq. 7).

    Each return's probability is shared between its two neighbours. Keeps the mass, and the mean of returns within the
    support; those beyond are clamped to its ends.

    Args:
        probability: (E, B, K).
        returns: (B, K), their returns.
        low: First point of the support.
        high: Last of its K points.

    Returns:
        (E, B, K), the probabilities of the support's points.
    """
    last = probability.shape[-1] - 1
    position = (returns.clamp(low, high) - low) * (last / (high - low))
    # The lower neighbour is never the last point, so that there always is an upper one.
    lower = position.floor().clamp(0, last - 1)
    share = (position - lower).expand_as(probability)
    index = lower.long().expand_as(probability)
    result = torch.zeros_like(probability)
    result.scatter_add_(-1, index, probability * (1 - share))
    return result.scatter_add_(-1, index + 1, probability * share)
