"""How large actions and joint readings are in the demonstrations; it travels with the policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from embodied.datasets.episode import Episode

QUANTILES = (0.01, 0.99)  # of actions that become -1 and 1; OpenVLA (Kim et al. 2024)
LEAST_RANGE = 0.02  # of an action's number, whose own range is 2: what hardly moves is not magnified beyond that
LEAST_DEVIATION = 1e-4  # of a reading, in its unit
CLIP = 5.0  # deviations at which readings are cut off


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Of each number of an action, and of each reading."""

    action_low: Tensor
    """(A,) the 1 % quantile."""
    action_high: Tensor
    """(A,) the 99 % quantile."""
    state_mean: Tensor
    """(S,) in the task's units."""
    state_deviation: Tensor
    """(S,) in the task's units."""

    @classmethod
    def of(cls, episodes: Sequence[Episode]) -> Statistics:
        """Those of all steps of some episodes."""
        action = np.concatenate([episode.action for episode in episodes])
        state = np.concatenate([episode.state for episode in episodes]).astype(np.float64)
        low, high = np.quantile(action, QUANTILES, axis=0)
        widen = np.maximum(LEAST_RANGE - (high - low), 0.0) / 2
        deviation = np.maximum(state.std(0), LEAST_DEVIATION)
        values = (low - widen, high + widen, state.mean(0), deviation)
        return cls(*(torch.from_numpy(np.asarray(value, np.float32)) for value in values))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of the tensors."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def to(self, device: torch.device | str) -> Statistics:
        """The same on a device."""
        return Statistics(*(getattr(self, name).to(device) for name in self.names()))

    def unit_state(self, state: Tensor) -> Tensor:
        """Readings (..., S) in deviations from their means."""
        return ((state - self.state_mean) / self.state_deviation).clamp(-CLIP, CLIP)

    def unit_action(self, action: Tensor) -> Tensor:
        """Actions (..., A) with their quantiles at -1 and 1; what lies beyond is clipped."""
        return (2.0 * (action - self.action_low) / (self.action_high - self.action_low) - 1.0).clamp(-1.0, 1.0)

    def action(self, unit: Tensor) -> Tensor:
        """Undo `unit_action`."""
        return (unit + 1.0) / 2.0 * (self.action_high - self.action_low) + self.action_low
