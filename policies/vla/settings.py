"""Settings that the training commands of vision-language-action policies share."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TypeVar

from embodied import cli
from embodied.errors import EmbodiedError, RunError
from embodied.storage.configs import from_json
from embodied.storage.runs import Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Folder of a run, and its engine."""

    out: Path | None = None
    """Run folder; by default runs/NAME/TIME; must be new or empty."""
    seed: int = 0
    """Of every random draw."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    resume: Path | None = None
    """Run to go on with: its own settings hold, but for limits that are given anew."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClosedLoopSettings(RunSettings):
    """Schedule of a policy's trials in simulation while it learns, and of its evaluation at the end."""

    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU where there is one."""
    trial_seconds: float = 300.0
    """Seconds of training between two trials, in which the policy takes its most likely actions."""
    trial_episodes: int = 4
    """Episodes of each task in a trial."""
    evaluate_episodes: int = 50
    """Episodes of each task in the final evaluation; 0 for none."""
    checkpoint_seconds: float = 120.0
    """Seconds between checkpoints."""

    def __post_init__(self) -> None:
        if self.trial_episodes < 1:
            raise EmbodiedError(f"--trial-episodes {self.trial_episodes}: expected at least 1")


S = TypeVar("S", bound=RunSettings)


def stored_settings(
    settings: S, run: Run, arguments: list[str] | None, limits: tuple[str, ...], extra: tuple[str, ...] = ()
) -> S:
    """The settings with which a run was started, with `json` and the `limits` of the command that goes on with it.

    Its `arguments`, or those of the process, say which limits are given anew; `extra` keys of the run's config are no
    settings.

    Raises:
        RunError: the run's settings are of an earlier version.
    """
    changes = cli.given(settings, sys.argv[1:] if arguments is None else arguments, limits)
    changes |= {"json": settings.json and str(settings.json)}
    stored = {name: value for name, value in run.config.items() if name not in extra}
    try:
        return from_json(type(settings), {**stored, **changes})
    except RunError as error:
        raise RunError(f"run '{run.path}' is of another version: {error}; begin a new run") from error
