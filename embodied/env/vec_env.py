"""What a trainer needs from an environment; `embodied.Env` provides it, and so may anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

POLICY = "policy"
"""The observation group every environment has: what the robot senses."""
CRITIC = "critic"
"""An optional group for the critic alone, which may hold what no robot can sense."""

PolicyFunction = Callable[[Mapping[str, Tensor]], Tensor]
"""Observation groups (N, size), or (N, agents, size), to actions (N, A), or (N, agents, A), in [-1, 1]."""


class Step(Protocol):
    """What one control step of N environments brought. All tensors lie on the environment's device."""

    @property
    def obs(self) -> Mapping[str, Tensor]:
        """Group to (N, size) float32; where an episode ended, already the first observation of the next."""
        ...

    @property
    def reward(self) -> Tensor:
        """(N,) float32."""
        ...

    @property
    def terminated(self) -> Tensor:
        """(N,) bool, the task failed: no reward would have followed."""
        ...

    @property
    def truncated(self) -> Tensor:
        """(N,) bool, the time limit cut an episode that would have gone on."""
        ...

    @property
    def success(self) -> Tensor:
        """(N,) bool, the task is solved at this instant."""
        ...

    @property
    def final_obs(self) -> Mapping[str, Tensor]:
        """Group to (N, size) float32: the observation this step led to, before any reset."""
        ...


@dataclass(frozen=True)
class StepData:
    """A `Step` put together from others' parts."""

    obs: dict[str, Tensor]
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    success: Tensor
    final_obs: dict[str, Tensor]


class VecEnv(Protocol):
    """N environments stepped together, each reset as soon as its episode ends."""

    @property
    def num_envs(self) -> int:
        """N, the number of environments."""
        ...

    @property
    def device(self) -> torch.device:
        """Where observations come from and actions go to."""
        ...

    @property
    def observation_sizes(self) -> Mapping[str, int]:
        """Group to flat size; "policy" always, "critic" where the task offers one."""
        ...

    @property
    def action_size(self) -> int:
        """Length of one environment's action."""
        ...

    @property
    def max_episode_steps(self) -> int:
        """Control steps after which an episode is truncated."""
        ...

    def reset(self) -> Mapping[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation."""
        ...

    def stagger(self) -> None:
        """Spread the ends of the running episodes evenly over the time limit; called once, after `reset`."""
        ...

    def step(self, action: Tensor, /) -> Step:
        """Apply (N, action_size) actions, which the environment clips to [-1, 1]."""
        ...

    def statistics(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call: "return", "success" and others."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything a resume needs, as nested dictionaries of tensors, arrays and numbers."""
        ...

    def load_state(self, tree: Mapping[str, Any], /) -> None:
        """Continue from what `state` returned."""
        ...
