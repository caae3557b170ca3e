"""Temporal ensemble: the mean of what the last predictions of action sequences say of the present step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class TemporalEnsemble:
    """Actions of N environments, each the weighted mean of the K predictions that cover the step.

    a_t = Σ_i w_i a_t^(t-i) / Σ_i w_i with w_i = exp(-m i), where a_t^(t-i) is what the sequence predicted i steps ago
    says of now (Zhao et al. 2023, arXiv:2304.13705, section IV-A; there i counts from the oldest). Of an episode that
    is younger than K steps there are fewer predictions.
    """

    def __init__(self, num_envs: int, sequence: int, actions: int, decay: float, device: torch.device) -> None:
        """Begin without predictions.

        Args:
            num_envs: N.
            sequence: K, actions of a prediction.
            actions: A.
            decay: m; 0: all predictions count alike.
            device: Where they lie.
        """
        self._predicted = torch.zeros(num_envs, sequence, sequence, actions, device=device)  # the newest first
        self._known = torch.zeros(num_envs, sequence, dtype=torch.bool, device=device)
        self._weights = torch.exp(-decay * torch.arange(sequence, device=device))

    def __call__(self, predicted: Tensor, begun: Tensor) -> Tensor:
        """Take in a prediction and choose the action.

        Args:
            predicted: (N, K, A) of the present step and those that follow.
            begun: (N,) bool, where an episode has just begun: earlier predictions are forgotten.

        Returns:
            (N, A).
        """
        earlier = self._known[:, :-1] & ~begun[:, None]
        self._known = torch.cat([torch.ones_like(self._known[:, :1]), earlier], 1)
        self._predicted = torch.cat([predicted[:, None], self._predicted[:, :-1]], 1)
        now = self._predicted.diagonal(dim1=1, dim2=2).transpose(1, 2)  # (N, K, A): i steps ago, of i steps later
        weights = self._weights * self._known
        return (weights[..., None] * now).sum(1) / weights.sum(1, keepdim=True)

    def state(self) -> dict[str, Tensor]:
        return {"predicted": self._predicted.clone(), "known": self._known.clone()}

    def load_state(self, tree: Mapping[str, Tensor]) -> None:
        self._predicted.copy_(tree["predicted"])
        self._known.copy_(tree["known"])
