"""Where a policy tries what it is told, many times at once: environments of one task that begin and end together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from embodied.env.dialogue import words_of
from embodied.env.env import Env
from embodied.env.vec_env import CRITIC, POLICY
from policies.vla.chunks import glimpse
from policies.vla.policy import VLAPolicy


class Happened(NamedTuple):
    """What a step of N environments came to, (N,) each."""

    solved: Tensor
    """bool, the task is solved now."""
    ended: Tensor
    """bool, the episode is over."""
    progress: Tensor
    """float32 from 0 to 1, how far the task is done now; 0 where it does not tell."""


class Arena(Protocol):
    """N environments of one task, which begin together and are left alone once they are done."""

    name: str
    """Of the task."""
    num_envs: int
    """N."""
    horizon: int
    """Control steps within which the task is to be solved."""
    told: tuple[str, ...]
    """What a policy may be told."""
    knowledge: int
    """Length of what a critic is told."""
    tells_progress: bool
    """Whether its task tells how far it is done."""

    def begin(self, seed: int, alike: int, texts: Sequence[str]) -> Sequence[str]:
        """Begin afresh; `alike` neighbours begin in the same state (see `Env.reset`).

        Returns:
            What each environment is told, N: `texts`, or the words of its episode.
        """
        ...

    def look(self, rows: Tensor) -> dict[str, Tensor]:
        """What the policy observes in the environments `rows` (k,) int64: its groups, (k, ...) each."""
        ...

    def know(self, rows: Tensor) -> Tensor:
        """(k, knowledge) what the simulation knows of the environments `rows`."""
        ...

    def step(self, action: Tensor) -> Happened:
        """Apply (N, A) actions."""
        ...


class SimulatedArena:
    """An arena of an `Env`."""

    def __init__(self, env: Env, policy: VLAPolicy, horizon: int = 0, what: str = "the policy") -> None:
        """For a policy that fits.

        Args:
            env: Made with the policy's cameras.
            policy: What will act.
            horizon: Control steps of an episode; 0, or more than the task's own: the task's own.
            what: What errors call the policy.

        Raises:
            EmbodiedError: policy and environment do not fit, or there is nothing to say.
        """
        policy.require_fit(env, what)
        self._env, self._groups = env, policy.groups
        self.name, self.num_envs, self.told = env.name, env.num_envs, policy.told(env, what)
        self.horizon = min(horizon or env.max_episode_steps, env.max_episode_steps)
        self._known = CRITIC if CRITIC in env.observation_sizes else POLICY
        self.knowledge = env.observation_sizes[self._known]
        self._full = env.task.full_reward
        self.tells_progress = self._full is not None

    def begin(self, seed: int, alike: int, texts: Sequence[str]) -> Sequence[str]:
        """See `Arena.begin`; the episodes have instructions of their own where `Task.instruction_varies`."""
        self._obs = self._env.reset(seed, alike=alike)
        return [words.paraphrases[0] for words in words_of(self._env)] if self._env.task.instruction_varies else texts

    def look(self, rows: Tensor) -> dict[str, Tensor]:
        """See `Arena.look`; nothing else is drawn."""
        return glimpse(self._obs, self._groups, rows)

    def know(self, rows: Tensor) -> Tensor:
        """See `Arena.know`: the observation group `critic`, or `policy` where there is none."""
        return self._obs[self._known][rows]

    @torch.no_grad()
    def step(self, action: Tensor) -> Happened:
        """See `Arena.step`; progress is the share of `Task.full_reward` that the step earned."""
        step = self._env.step(action)
        self._obs = step.obs
        share = torch.zeros_like(step.reward) if self._full is None else (step.reward / self._full).clamp(0.0, 1.0)
        return Happened(step.success, step.done, share)
