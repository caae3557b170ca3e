"""Observations shifted and scaled by their running mean and deviation.

Statistics change only in `commit`. Between two commits, that is during a whole rollout and its update, the same
observation always normalises to the same numbers, so stored observations need not be normalised again.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from policies.networks.optim import distributed

CONSTANT = 1e-8  # variance up to which a component counts as constant: its deviation is 1e-4 of its unit at most
ADOPTED = 1e9  # observations that adopted statistics count as: a policy is spoiled where they shift under it


class Normalizer:
    """Running mean and variance of one observation group."""

    mean: Tensor
    """(size,) float32, in the observation's units."""
    scale: Tensor
    """(size,) float32 reciprocal of the standard deviation; 0 of a constant component, which maps to zero wherever else
    it has another value: a policy cannot have learned what that value means."""

    def __init__(
        self,
        size: int,
        device: torch.device | str = "cpu",
        clip: float = 10.0,
        reflect: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Start as the identity.

        Args:
            size: Length of one observation.
            device: Where observations are.
            clip: Largest absolute value of a normalised component, in standard deviations.
            reflect: Signed permutation of (..., size) numbers under which the statistics shall not change: the mirror
                image of each observation counts as half of it.
        """
        self.clip, self.reflect = clip, reflect
        # Float64, because sums over 10⁹ observations lose small contributions in float32.
        self._count = torch.zeros(size, dtype=torch.float64, device=device)
        self._mean = torch.zeros(size, dtype=torch.float64, device=device)
        self._squares = torch.zeros(size, dtype=torch.float64, device=device)  # Σ (x - mean)²
        self._pending = torch.zeros(1 + 2 * size, dtype=torch.float64, device=device)
        self.empty = True
        self.mean, self.scale = torch.zeros(size, device=device), torch.ones(size, device=device)

    def __call__(self, obs: Tensor, out: Tensor | None = None) -> Tensor:
        """Normalise and clip (..., size) observations, into `out` if given."""
        return torch.sub(obs, self.mean, out=out).mul_(self.scale).clamp_(-self.clip, self.clip)

    def observe(self, obs: Tensor) -> None:
        """Count (N, size) observations towards the next `commit`."""
        # Sums relative to a value near the mean: the difference of two large sums would lose the variance.
        if self.empty and self._pending[0] == 0:
            mean = obs.double().mean(0)
            self._mean.copy_(mean if self.reflect is None else (mean + self.reflect(mean)) / 2)
            distributed.broadcast_(self._mean)
        shifted = obs.double() - self._mean
        size = self._mean.numel()
        self._pending[0] += len(obs)
        self._pending[1 : 1 + size] += shifted.sum(0)
        self._pending[1 + size :] += shifted.square().sum(0)

    def commit(self) -> None:
        """Merge what was observed since the last call, on all ranks, into the statistics."""
        pending = distributed.sum_(self._pending)
        count, (shift, squares) = pending[0], pending[1:].view(2, -1) / pending[0].clamp(min=1)
        if self.reflect is not None:
            shift, squares = (shift + self.reflect(shift)) / 2, (squares + self.reflect(squares).abs()) / 2
        # Chan et al. 1979, eq. 2.1: M₂ = M₂ᵃ + M₂ᵇ + δ² nᵃ nᵇ / (nᵃ + nᵇ), with δ the difference of the means.
        total = (self._count + count).clamp(min=1)
        self._squares += count * (squares - shift.square()).clamp(min=0) + shift.square() * self._count * count / total
        self._mean += shift * count / total
        self._count += count
        self._pending.zero_()
        self.empty = False
        self._refresh()

    def state(self) -> dict[str, Tensor]:
        """Committed statistics, in float64."""
        return {"count": self._count.clone(), "mean": self._mean.clone(), "squares": self._squares.clone()}

    def load_state(self, tree: Mapping[str, Tensor]) -> None:
        self._count.copy_(tree["count"])
        self._mean.copy_(tree["mean"])
        self._squares.copy_(tree["squares"])
        self._pending.zero_()
        self.empty = not bool(self._count.any())
        self._refresh()

    def adopt(self, mean: Tensor, scale: Tensor) -> None:
        """Continue from another's (size,) mean and reciprocal deviation, which hardly change any more.

        Components that were constant there, and so mean nothing yet, are learned anew.
        """
        count = torch.where(scale > 0, ADOPTED, 0.0).double()
        variance = torch.where(scale > 0, scale.double().square().reciprocal(), 0.0)
        self.load_state({"count": count, "mean": mean.double(), "squares": variance * count})

    def _refresh(self) -> None:
        if self.empty:
            return
        variance = self._squares / self._count.clamp(min=1)
        self.mean.copy_(self._mean)
        self.scale.copy_(torch.where(variance > CONSTANT, variance.rsqrt(), 0.0))
