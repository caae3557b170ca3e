"""Summaries of runs, a line each, and the selection of runs by words."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from embodied.errors import RunError, reason
from embodied.storage import checkpoints, task_names
from embodied.storage.metrics import is_number
from embodied.storage.runs import Run

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
RUNNING = 120.0  # s since its last metric or checkpoint within which a run that has no result may still be going on


@dataclasses.dataclass(frozen=True)
class Summary:
    """One run in a line."""

    run: Run
    task: str
    learner: str
    """Name of the algorithm; of runs that other commands wrote, that of their settings, or "-"."""
    steps: int
    success: float
    """Share of episodes, at the last step: of the evaluation at the end, else of the last of training; NaN: neither."""
    evaluated: bool
    """Whether `success` is of an evaluation."""
    age: float
    """s since the last that was written."""
    size: int
    """Bytes of the folder."""

    @property
    def place(self) -> str:
        """The folder below that of the task, or the whole path where it lies elsewhere."""
        folder, path = f"/{task_names.run_folder(self.run.task)}/", f"/{self.run.path.as_posix()}"
        return path.rpartition(folder)[2] if folder in path else self.run.path.as_posix()

    @property
    def state(self) -> str:
        """`done`, `running` (or cut off only now), `cut off`."""
        return "done" if self.evaluated or self.run.result else "running" if self.age < RUNNING else "cut off"


def summarize(run: Run) -> Summary:
    """Look at a run's folder.

    Raises:
        EmbodiedError: it cannot be read, or somebody removes it meanwhile.
    """
    try:
        return _summary(run)
    except (OSError, ValueError) as error:
        raise RunError(f"run '{run.path}' cannot be read: {reason(error)}") from error


def _summary(run: Run) -> Summary:
    records, result = run.metrics(), run.result
    last = next((record for record in reversed(records) if math.isfinite(record.get("success", math.nan))), {})
    evaluated = is_number(result.get("success"))
    files = [path.stat() for path in run.path.rglob("*") if path.is_file()]
    began = datetime.fromisoformat(run.created).timestamp()
    written = max([began, *(record.get("time", began) for record in records[-1:])])
    saved = checkpoints.steps(run.checkpoints)
    return Summary(
        run,
        task_names.label(run.task),
        str(run.config.get("algorithm", "-")),
        int(max([0, *saved, *(record["step"] for record in records[-1:])])),
        float(result["success"] if evaluated else last.get("success", math.nan)),
        evaluated,
        max(0.0, time.time() - written),
        sum(file.st_size for file in files),
    )


def find(root: Path, words: Sequence[str] = (), learner: str | None = None) -> list[Run]:
    """Runs below `root`, newest first, whose path or name holds every word; `*` and `?` as in file names.

    Args:
        root: Folder of all runs.
        words: Parts of a task, a folder or a name.
        learner: Name of an algorithm.
    """
    return [
        run
        for run in Run.all(root)
        if all(_holds(run, word) for word in words) and learner in (None, run.config.get("algorithm"))
    ]


def _holds(run: Run, word: str) -> bool:
    texts: Iterable[str] = (run.task, run.path.as_posix(), run.name)
    return any(fnmatch.fnmatch(text.lower(), f"*{word.lower()}*") for text in texts)


def span(seconds: float) -> str:
    """A time in its largest whole unit: 3 h."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds / size:.0f} {unit}"


def size_text(count: int) -> str:
    """Bytes in two or three digits: 4.2 MB."""
    size, unit = next(((size, unit) for size, unit in SIZES if count >= size), SIZES[-1])
    value = count / size
    return f"{value:.1f} {unit}" if value < 10 and size > 1 else f"{value:.0f} {unit}"
