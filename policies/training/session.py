"""Base of all training runs: signals, lines of metrics, checkpoints, a clean stop."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from embodied import cli
from embodied.cli.interrupts import Interrupts, held
from embodied.errors import CheckpointError
from embodied.storage.checkpoints import Checkpoint, flatten, prune, unflatten
from embodied.storage.runs import Run

KEPT = 3  # checkpoints of a run


class Session(ABC):
    """One process's part in a training run. Derived classes define what is trained, and how it loops.

    A checkpoint serves both a resume and a robot: the policy's tensors are under `policy/`, all else that decides
    how training goes on is under `trainer/`.
    """

    command: str
    """Module whose `--resume RUN` goes on."""

    def __init__(self, run: Run | None, checkpoint_seconds: float) -> None:
        """Prepare to write into `run`; without one, which is so for all ranks but the first, write nothing."""
        self.run, self.checkpoint_seconds = run, checkpoint_seconds
        self.interrupts = Interrupts()
        self._saved_at = time.monotonic()
        self._saved_step: int | None = None

    @property
    @abstractmethod
    def steps(self) -> int:
        """Training so far, in the unit by which metrics and checkpoints are numbered."""

    @property
    @abstractmethod
    def progress(self) -> str:
        """Progress of the training, in words: "1,000 steps"."""

    @abstractmethod
    def contents(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Content of a checkpoint: JSON values with `policy`, and tensors and numbers with `policy` and `trainer`."""

    @property
    def stopped(self) -> bool:
        """Whether a signal requested the end."""
        return self.interrupts.signal is not None

    def restore(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """Note that training goes on from a checkpoint; returns the state that it holds of the training.

        Raises:
            CheckpointError: it holds none.
        """
        self._saved_step = checkpoint.step
        trainer = unflatten(checkpoint.tensors).get("trainer")
        if not isinstance(trainer, dict):
            raise CheckpointError(
                f"checkpoint '{checkpoint.path}' holds no training to go on with; begin a new one with its policy: "
                f"python -m embodied.train TASK --start-from {checkpoint.path}"
            )
        return trainer

    def save(self) -> None:
        """Write a checkpoint, unless this step has one or is half done, and remove old ones."""
        self._saved_at = time.monotonic()
        if self.run is None or self.interrupts.cut_off or self.steps == self._saved_step:
            return
        with held():
            meta, tree = self.contents()
            self.run.save(self.steps, flatten(tree), meta)
            prune(self.run.checkpoints, keep=KEPT)
        self._saved_step = self.steps

    def save_when_due(self) -> None:
        """Write a checkpoint, unless the last one is younger than `checkpoint_seconds`."""
        if time.monotonic() - self._saved_at > self.checkpoint_seconds:
            self.save()

    def say_stopped(self) -> None:
        """Print which signal stopped the training, where, and how to go on.

        Raises:
            KeyboardInterrupt: it did so before anything was saved.
        """
        assert self.run is not None
        if self.interrupts.cut_off and self._saved_step is None:
            raise KeyboardInterrupt
        where = f"at {self.progress} and saved; go on with"
        if self.interrupts.cut_off:
            where = f"after {self.progress}, within the next; go on from what was saved at {self._saved_step:,} with"
        cli.say(
            f"stopped by {self.interrupts.signal} {where}",
            f"  python -m {self.command} --resume {self.run.path}",
        )
