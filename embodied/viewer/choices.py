"""Choices of a viewer: tasks, the policies of each, and their checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from embodied.env.env import Env
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


@dataclasses.dataclass(frozen=True)
class Needs:
    """Requirements of a policy on its environments; policies with equal ones may share them."""

    config: Any = None
    """The task's config; None: the task's own."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further keyword arguments of `embodied.make`, such as cameras."""


class Catalogue(Protocol):
    """Tasks and policies by name, and how to make them."""

    def tasks(self) -> Sequence[str]:
        """Every task that can be shown."""
        ...

    def choices(self, task: str) -> Sequence[Choice]:
        """The policies of a task, the one to begin with first."""
        ...

    def needs(self, task: str, policy: str) -> Needs:
        """Requirements of a policy on the environments of a task."""
        ...

    def make(self, task: str, needs: Needs, num_envs: int) -> Env:
        """Steered environments of a task (`embodied.env.steering`)."""
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
