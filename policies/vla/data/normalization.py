"""Normalisation of actions and proprioception by statistics of the demonstrations; part of the policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from embodied.storage.datasets.episode import Episode

QUANTILES = (0.01, 0.99)  # of actions, which become -1 and 1; OpenVLA (Kim et al. 2024)
MIN_RANGE = 0.02  # of a number of an action, which is in [-1, 1]: what hardly moves is not magnified beyond that
MIN_STD = 1e-4  # of a reading, in its unit
CLIP = 5.0  # standard deviations at which readings are clipped


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Quantiles of actions, mean and standard deviation of states."""

    action_low: Tensor
    """(A,) the 1 % quantile."""
    action_high: Tensor
    """(A,) the 99 % quantile."""
    state_mean: Tensor
    """(S,) in the task's units."""
    state_std: Tensor
    """(S,) in the task's units."""

    @classmethod
    def of(cls, episodes: Sequence[Episode]) -> Normalization:
        """Normalisation by all steps of some episodes."""
        action = np.concatenate([episode.action for episode in episodes])
        state = np.concatenate([episode.state for episode in episodes]).astype(np.float64)
        low, high = np.quantile(action, QUANTILES, axis=0)
        margin = np.maximum(MIN_RANGE - (high - low), 0.0) / 2
        values = (low - margin, high + margin, state.mean(0), np.maximum(state.std(0), MIN_STD))
        return cls(*(torch.from_numpy(np.asarray(value, np.float32)) for value in values))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def to(self, device: torch.device | str) -> Normalization:
        """A copy on a device."""
        return Normalization(*(getattr(self, name).to(device) for name in self.names()))

    def normalize_state(self, state: Tensor) -> Tensor:
        """States (..., S) in standard deviations from their means."""
        return ((state - self.state_mean) / self.state_std).clamp(-CLIP, CLIP)

    def normalize_action(self, action: Tensor) -> Tensor:
        """Actions (..., A) with their quantiles at -1 and 1; what lies beyond is clipped."""
        return (2.0 * (action - self.action_low) / (self.action_high - self.action_low) - 1.0).clamp(-1.0, 1.0)

    def denormalize_action(self, normalized: Tensor) -> Tensor:
        """The inverse of `normalize_action`."""
        return (normalized + 1.0) / 2.0 * (self.action_high - self.action_low) + self.action_low
