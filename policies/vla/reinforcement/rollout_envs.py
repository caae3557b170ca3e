"""Environments of one task for rollouts: they begin together, and are left alone once their episode is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from embodied.env.env import Env
from embodied.env.instructions import instructions_of
from embodied.env.vec_env import CRITIC, POLICY, vector_sizes
from policies.vla.action_chunks import select_rows
from policies.vla.policy import VLAPolicy


class StepResult(NamedTuple):
    """The result of a step of N environments, (N,) each."""

    success: Tensor
    """bool, the task is solved now."""
    done: Tensor
    """bool, the episode is over."""
    progress: Tensor
    """float32 from 0 to 1, share of the task's full reward now; 0 where it is unknown."""


class RolloutEnv(Protocol):
    """N environments of one task, of which a policy's rollouts ask only what is needed."""

    name: str
    """Of the task."""
    num_envs: int
    """N."""
    horizon: int
    """Control steps within which the task is to be solved."""
    instructions: tuple[str, ...]
    """That a policy may be given."""
    privileged_size: int
    """Length of the critic's privileged observation."""
    has_progress: bool
    """Whether the task's reward has a known maximum, of which `progress` is a share."""

    def reset(self, seed: int, group_size: int, instructions: Sequence[str]) -> Sequence[str]:
        """Begin new episodes; `group_size` neighbours have the same initial state (see `Env.reset`).

        Returns:
            The instruction of each environment, N: `instructions`, or those of the episodes.
        """
        ...

    def observe(self, rows: Tensor) -> dict[str, Tensor]:
        """The policy's observation groups (k, ...) of the environments `rows` (k,) int64; only those are rendered."""
        ...

    def privileged(self, rows: Tensor) -> Tensor:
        """(k, privileged_size) what only the simulation knows of the environments `rows`."""
        ...

    def step(self, action: Tensor) -> StepResult:
        """Apply (N, A) actions."""
        ...


class TaskRolloutEnv:
    """The environments of an `Env`."""

    def __init__(self, env: Env, policy: VLAPolicy, horizon: int = 0, what: str = "the policy") -> None:
        """Check that the policy fits.

        Args:
            env: Made with the policy's cameras.
            policy: Whose observations and instructions are needed.
            horizon: Control steps of an episode; 0, or more than the task's own: the task's own.
            what: What errors call the policy.

        Raises:
            EmbodiedError: policy and environment do not fit, or there is no instruction.
        """
        policy.require_fit(env, what)
        self._env, self._groups = env, policy.groups
        self.name, self.num_envs, self.instructions = env.name, env.num_envs, policy.instructions(env, what)
        self.horizon = min(horizon or env.max_episode_steps, env.max_episode_steps)
        sizes = vector_sizes(env.observation_spec)
        self._privileged_group = CRITIC if CRITIC in sizes else POLICY
        self.privileged_size = sizes[self._privileged_group]
        self._full_reward = env.task.max_reward
        self.has_progress = self._full_reward is not None

    def reset(self, seed: int, group_size: int, instructions: Sequence[str]) -> Sequence[str]:
        self._obs = self._env.reset(seed, group_size=group_size)
        if not self._env.task.instruction_varies:
            return instructions
        return [instruction.paraphrases[0] for instruction in instructions_of(self._env)]

    def observe(self, rows: Tensor) -> dict[str, Tensor]:
        return select_rows(self._obs, self._groups, rows)

    def privileged(self, rows: Tensor) -> Tensor:
        """The observation group `critic`, or `policy` where there is none."""
        return self._obs[self._privileged_group][rows]

    @torch.no_grad()
    def step(self, action: Tensor) -> StepResult:
        step = self._env.step(action)
        self._obs = step.obs
        full = self._full_reward
        share = torch.zeros_like(step.reward) if full is None else (step.reward / full).clamp(0.0, 1.0)
        return StepResult(step.success, step.done, share)
