"""What a critic's outputs mean: an expected return, or the distribution of returns on a fixed support (C51)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class ValueHead(Protocol):
    """From outputs (E, B, K) of E critics to values, targets and losses."""

    outputs: int
    """K, numbers per critic."""

    def value(self, outputs: Tensor) -> Tensor:
        """Expected returns: (E, B, K) to (E, B)."""
        ...

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float) -> Tensor:
        """What E critics say of the next state turned into what they should have said of this one.

        Args:
            outputs: (E, B, K) of the target critics for the next state and action.
            reward: (B,) earned on the way.
            discount: (B,) factor on what follows.
            bonus: (B,) added to the next value before it is discounted.

        Returns:
            (E, B, K).
        """
        ...

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Mean over the batch, summed over critics: (E, B, K) and (E or 1, B, K) to ()."""
        ...


class ScalarHead:
    """One number: the expected return, by squared error."""

    outputs = 1

    def value(self, outputs: Tensor) -> Tensor:
        """(E, B, 1) to (E, B)."""
        return outputs.squeeze(-1)

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float) -> Tensor:
        """r + γ (Q + bonus), (E, B, 1)."""
        return (reward + discount * (self.value(outputs) + bonus)).unsqueeze(-1)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Squared error."""
        return (outputs - target).square().mean(1).sum()


class CategoricalHead:
    """Probabilities of K returns, equally spaced (Bellemare, Dabney and Munos 2017, "C51")."""

    support: Tensor
    """(K,) the returns."""

    def __init__(self, atoms: int, low: float, high: float, device: torch.device | str = "cpu") -> None:
        """Space `atoms` returns from `low` to `high`."""
        self.outputs, self.low, self.high = atoms, low, high
        self.support = torch.linspace(low, high, atoms, device=device)

    def value(self, outputs: Tensor) -> Tensor:
        """Σ p z: (E, B, K) to (E, B)."""
        return outputs.softmax(-1) @ self.support

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float) -> Tensor:
        """Probabilities of r + γ (z + bonus) on the support, (E, B, K)."""
        base = reward + discount * bonus
        places = base[:, None] + discount[:, None] * self.support
        return project(outputs.softmax(-1), places, self.low, self.high)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Cross entropy."""
        return -(target * functional.log_softmax(outputs, -1)).sum(-1).mean(1).sum()


def project(probability: Tensor, places: Tensor, low: float, high: float) -> Tensor:
    """Share probabilities of returns between the two nearest points of a support (Bellemare et al. 2017, eq. 7).

    Keeps the mass, and the mean of what lies within the support; what lies beyond counts as its end.

    Args:
        probability: (E, B, K).
        places: (B, K), the returns they belong to.
        low: First point of the support.
        high: Last of its K points.

    Returns:
        (E, B, K), the probabilities of the support's points.
    """
    last = probability.shape[-1] - 1
    position = (places.clamp(low, high) - low) * (last / (high - low))
    # The lower neighbour is never the last point, so that there always is an upper one.
    lower = position.floor().clamp(0, last - 1)
    share = (position - lower).expand_as(probability)
    index = lower.long().expand_as(probability)
    result = torch.zeros_like(probability)
    result.scatter_add_(-1, index, probability * (1 - share))
    return result.scatter_add_(-1, index + 1, probability * share)
