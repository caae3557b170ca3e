"""Choices of a viewer: tasks, the policies of each, and their checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from embodied.env.env import Env
from embodied.env.options import EnvOptions
from embodied.env.vec_env import PolicyFunction

NEWEST = "newest"
"""The checkpoint of a run that is played unless another is chosen; it follows a run that is being trained."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """A policy that may act in a task."""

    label: str
    """Text that people read."""
    policy: str
    """`shipped`, `expert`, `zero`, `random`, or the path of a run or checkpoint."""
    checkpoints: tuple[int, ...] = ()
    """Environment steps after which a run has checkpoints, the newest first."""


class Catalogue(Protocol):
    """Tasks and policies by name, and how to make them."""

    def tasks(self) -> Sequence[str]:
        """Every task that can be shown."""
        ...

    def choices(self, task: str) -> Sequence[Choice]:
        """The policies of a task, the one to begin with first."""
        ...

    def needs(self, task: str, policy: str) -> EnvOptions[Any]:
        """Environments of a task in which a policy can act; policies with equal ones may share them."""
        ...

    def make(self, needs: EnvOptions[Any], num_envs: int) -> Env:
        """These environments, steered (`embodied.env.wrappers.steering`)."""
        ...

    def load(self, policy: str, checkpoint: int | None, env: Env) -> PolicyFunction:
        """The policy; of a run the checkpoint of that step, None: the newest."""
        ...

    def newest_step(self, policy: str) -> int | None:
        """Environment steps after which a run's newest snapshot was taken; None of what is no run."""
        ...

    def learning(self, policy: str) -> Mapping[str, Sequence[float]]:
        """Of a run: `steps`, and the return and the success rate while it trained; empty of what is no run."""
        ...
