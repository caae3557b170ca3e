"""Weights & Biases as a further place for a run's metrics.

Offline mode needs neither network nor account: `wandb sync RUN/wandb/offline-*` uploads later.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from embodied.errors import EmbodiedError, reason
from embodied.storage import task_names

if TYPE_CHECKING:
    from embodied.storage.runs import Run

PROJECT = "embodied"  # unless the variable WANDB_PROJECT names another
SUMMARIZED = (bool, int, float, str)  # types of a result's values that the summary takes


class WandbMode(StrEnum):
    """Mode in which Weights & Biases records a training."""

    OFF = "off"
    OFFLINE = "offline"
    """Into RUN/wandb alone."""
    ONLINE = "online"
    """To its server, by the account of `wandb login`."""


def require_wandb(mode: WandbMode) -> Any:
    """The package `wandb`.

    Raises:
        EmbodiedError: it is not installed.
    """
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise EmbodiedError(f'--wandb {mode} needs the package wandb; pip install "embodied-sim[wandb]"') from None


class WandbLogger:
    """One run of Weights & Biases, which begins with the first metric. A resumed training goes on with the same one.

    What an online run has of steps that a resumed training takes again stays as it was.
    """

    def __init__(self, run: Run, mode: WandbMode) -> None:
        """Note the name of the run, its own or its folder's, in the group of its task.

        Raises:
            EmbodiedError: the package `wandb` is not installed.
        """
        self._wandb, self.mode = require_wandb(mode), mode
        self._record: Any = None
        task = task_names.label(run.task)
        self._arguments = {
            "project": os.environ.get("WANDB_PROJECT", PROJECT),
            "id": hashlib.sha256(f"{run.created} {task}".encode()).hexdigest()[:16],
            "name": run.name,
            "group": task,
            "dir": str(run.path),
            "config": run.config,
            "mode": str(mode),
            "resume": "allow" if mode is WandbMode.ONLINE else None,  # offline, parts of one id are joined by `sync`
            "settings": self._wandb.Settings(console="off", silent=True),
        }

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._open().log(dict(values), step=step)

    def end_at(self, step: int) -> None:
        """Do nothing: what the server has stays."""

    def summarize(self, result: Mapping[str, Any]) -> None:
        kept = {f"final/{name}": value for name, value in result.items() if isinstance(value, SUMMARIZED)}
        self._open().summary.update(kept)

    def sync(self) -> None:
        """Do nothing: a process of its own writes what is logged."""

    def close(self) -> None:
        record, self._record = self._record, None
        if record is not None:
            record.finish()

    def _open(self) -> Any:
        """The record, begun or gone on with.

        Raises:
            EmbodiedError: Weights & Biases refuses, such as for want of a login.
        """
        if self._record is None:
            try:
                self._record = self._wandb.init(**self._arguments)
            except self._wandb.errors.Error as error:
                raise EmbodiedError(f"--wandb {self.mode}: {reason(error)}") from error
        return self._record
