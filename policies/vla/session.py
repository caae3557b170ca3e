"""What the training sessions of vision-language-action policies share: checkpoints, resuming, a clean stop."""

from __future__ import annotations

import abc
import time
from collections.abc import Mapping
from typing import Any

from embodied import cli
from embodied.cli.interrupts import Interrupts
from embodied.storage.checkpoints import Checkpoint, flatten, prune, unflatten
from embodied.storage.runs import Run
from policies.vla.policy import VLAPolicy

KEPT = 3  # checkpoints of a run


class TrainingSession(abc.ABC):
    """A training run: checkpoints that a resume, an evaluation and a robot can use, and a stop that saves first."""

    def __init__(self, command: str, task: str | None, checkpoint_seconds: float) -> None:
        """Note what checkpoints say.

        Args:
            command: Module whose `--resume RUN` goes on.
            task: Task or suite of the policy, if any.
            checkpoint_seconds: Seconds between checkpoints.
        """
        self.command, self.task, self.checkpoint_seconds = command, task, checkpoint_seconds
        self.interrupts = Interrupts()
        self.seconds = 0.0
        self._saved_step: int | None = None
        self._saved_at = time.monotonic()
        self._latest: dict[str, float] = {}

    @property
    @abc.abstractmethod
    def step(self) -> int:
        """By which checkpoints are called."""

    @property
    @abc.abstractmethod
    def policy(self) -> VLAPolicy:
        """What robots run."""

    @abc.abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Everything that decides how the training goes on."""

    @abc.abstractmethod
    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        self.load_state(unflatten(checkpoint.tensors)["trainer"])
        self._saved_step = checkpoint.step

    def save(self, run: Run) -> None:
        """Write a checkpoint of the present step, if there is none."""
        self._saved_at = time.monotonic()
        if self.step != self._saved_step:
            save_checkpoint(run, self.step, self.policy, self.state(), self.task)
            self._saved_step = self.step

    def save_if_due(self, run: Run) -> None:
        """Write a checkpoint if the last one is `checkpoint_seconds` old."""
        if time.monotonic() - self._saved_at > self.checkpoint_seconds:
            self.save(run)

    def report_stop(self, run: Run, where: str) -> None:
        """Print which signal stopped the run, where, and how to go on."""
        cli.console().print(
            f"stopped by {self.interrupts.signal} {where} and saved; go on with\n"
            f"  python -m {self.command} --resume {run.path}"
        )


def save_checkpoint(run: Run, step: int, policy: VLAPolicy, trainer: Mapping[str, Any], task: str | None) -> None:
    """Write a checkpoint of a policy for a task or suite, and of the state of its training; remove old ones."""
    meta, tensors = policy.to_tensors()
    named = {"task": task} if task else {}
    run.save(step, flatten({"policy": tensors, "trainer": trainer}), {"policy": meta, **named})
    prune(run.checkpoints, keep=KEPT)
