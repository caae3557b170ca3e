"""Base of the training sessions of vision-language-action policies: their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from embodied.storage.checkpoints import Checkpoint
from policies.training.session import Session
from policies.vla.policy import VLAPolicy


class VLASession(Session):
    """A training run whose checkpoints hold a policy, its task or suite if there is one, and the learner's state."""

    learner: Any
    """`FineTuning` or `RLFineTuning`."""

    def __init__(self, learner: Any, command: str, task: str | None, checkpoint_seconds: float) -> None:
        """Set the checkpoints' content; `train` sets the run. `command` is the module whose `--resume RUN` goes on."""
        super().__init__(None, checkpoint_seconds)
        self.learner, self.command, self.task = learner, command, task
        self.seconds = 0.0
        self._latest: dict[str, float] = {}

    @property
    def policy(self) -> VLAPolicy:
        """Policy that robots run."""
        return self.learner.policy

    def state(self) -> dict[str, Any]:
        """Everything that decides how the training goes on."""
        return self.learner.state()

    def resume(self, checkpoint: Checkpoint) -> Mapping[str, Any]:
        """Continue from a checkpoint; returns what `state` had returned."""
        state = self.restore(checkpoint)
        self.learner.load_state(state)
        return state

    def contents(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        meta, tensors = self.policy.to_tensors()
        named = {"task": self.task} if self.task else {}
        return {"policy": meta, **named}, {"policy": tensors, "trainer": self.state()}
