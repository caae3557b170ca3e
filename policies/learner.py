"""What the training loop needs of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from embodied.env.vec_env import Step
from embodied.errors import EmbodiedError
from policies.policy import Policy


class DivergedError(EmbodiedError):
    """Losses or weights that left the finite numbers."""


class MismatchError(EmbodiedError, ValueError):
    """A policy that a learner cannot begin with."""


class Learner(Protocol):
    """Improves a policy by the steps of N environments: `act` and `record` `unroll` times, then `update`."""

    name: str
    """Under which its state lies in checkpoints."""

    @property
    def unroll(self) -> int:
        """Control steps of every environment per iteration."""
        ...

    @property
    def policy(self) -> Policy:
        """The present policy; it shares this learner's weights and goes on learning with it."""
        ...

    def start_from(self, policy: Policy) -> None:
        """Begin with another policy.

        Raises:
            MismatchError: Its network is not of this learner's kind and shape.
        """
        ...

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Choose exploring actions (N, A) for raw observations, group to (N, size)."""
        ...

    def record(self, step: Step) -> None:
        """Remember what they brought."""
        ...

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """End an iteration.

        Args:
            obs: The observations after its last step.
            progress: How much of the training is done, 0 to 1.

        Returns:
            Losses and other measures by name.

        Raises:
            DivergedError: They are not finite.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on; callable between iterations."""
        ...

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned, with the random numbers of its own unless `explore_alike`."""
        ...
