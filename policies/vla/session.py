"""Base of the training sessions of vision-language-action policies: their checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from embodied.storage.checkpoints import Checkpoint
from policies.training.session import Session
from policies.vla.policy import VLAPolicy


class VLASession(Session):
    """A training run whose checkpoints hold a policy, its task or suite if there is one, and the learner's state."""

    def __init__(self, command: str, task: str | None, checkpoint_seconds: float) -> None:
        """Set the checkpoints' metadata; `train` sets the run. `command` is the module whose `--resume RUN` goes on."""
        super().__init__(None, checkpoint_seconds)
        self.command, self.task = command, task
        self.seconds = 0.0
        self._latest: dict[str, float] = {}

    @property
    @abstractmethod
    def policy(self) -> VLAPolicy:
        """Policy that robots run."""

    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Everything that decides how the training goes on."""

    @abstractmethod
    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.load_state(self.restore(checkpoint))

    def contents(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        meta, tensors = self.policy.to_tensors()
        named = {"task": self.task} if self.task else {}
        return {"policy": meta, **named}, {"policy": tensors, "trainer": self.state()}
