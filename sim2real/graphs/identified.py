"""A policy of many tasks as a policy of one of them: the code of the task is a constant."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.policy import NormalizedActor, Policy


class _Identified(nn.Module):
    """A network whose observations end with the same numbers."""

    told: Tensor
    observation_mean: Tensor

    def __init__(self, network: NormalizedActor, told: Tensor) -> None:
        super().__init__()
        self.network, self.actor = network, network.actor
        self.register_buffer("told", told)
        self.register_buffer("observation_mean", network.observation_mean[: -len(told)])

    def forward(self, observation: Tensor) -> Tensor:
        return self.network(self._told(observation))

    def step(self, observation: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.step(self._told(observation), hidden)

    def _told(self, observation: Tensor) -> Tensor:
        return torch.cat([observation, self.told.expand(*observation.shape[:-1], len(self.told))], -1)


class IdentifiedPolicy(Policy):
    """A policy of several tasks, fixed to one of them."""

    def __init__(self, policy: Policy, code: Tensor) -> None:
        """Fix the task by the code (size,) with which its observations end."""
        told = code.to(policy.network.observation_mean)
        super().__init__(_Identified(policy.network, told), policy.config, policy.group)  # type: ignore[arg-type]
        self._told = len(code)

    @property
    def observation_size(self) -> int:
        return super().observation_size - self._told

    def fits(self, observation_size: int, action_size: int) -> bool:
        return super().fits(observation_size + self._told, action_size)
