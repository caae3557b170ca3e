"""A run on disk: `runs/<task>/<time>/`.

    config.json      what was trained and how, sealed against edits
    metrics.jsonl    one JSON object per line: "step", "time" (seconds since 1970), then the metrics
    events.*         the same metrics for TensorBoard
    wandb/           the same for Weights & Biases, where requested
    result.json      result of a training that came to its end: figures, command, hardware
    checkpoints/     see `embodied.storage.checkpoints`
    snapshot/        the newest policy by itself, while a viewer watches it learn
    videos/          whatever the run filmed
    my_task.py       of a task that is named by its file: its copy, as it was trained

No path but that of a task's own file is written into any of them, so a run may be moved or copied; where that file is
gone, the copy replaces it.
"""

import math
import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import torch

from embodied.errors import PATH_SHOWN, CheckpointError, RunError, listing, reason
from embodied.storage import checkpoints, task_names, trust
from embodied.storage.checkpoints import Checkpoint
from embodied.storage.files import (
    dumps,
    embodied_version,
    jsonable,
    locked,
    read_file,
    read_json,
    seal,
    sync_folder,
    unseal,
    write_atomic,
)
from embodied.storage.metrics import METRICS, Logger, Metrics, is_number

RUNS = Path("runs")
"""Folder of all runs, where none is named."""
FORMAT = 1
CONFIG, RESULT, CHECKPOINTS, VIDEOS = "config.json", "result.json", "checkpoints", "videos"
SNAPSHOT = "snapshot"
FIGURES = ("steps", "train_seconds")  # of a result that are numbers wherever it has them
KEYS = ("format", "embodied", "task", "created", "config")
LAYOUT = f"{CONFIG}, {METRICS}, {CHECKPOINTS}/, {VIDEOS}/"
DEPTH = 4  # Levels below a root at which runs are looked for: family, task, time, and one to spare.


class Run:
    """One training run: its configuration, metrics and checkpoints. Made by `Run.create`, found by `Run.open`."""

    def __init__(self, path: Path, document: Mapping[str, Any], step: int | None = None) -> None:
        self.path: Path = path
        self.task: str = trust.found_in(path, document["task"])
        self.config: dict[str, Any] = document["config"]
        self.created: str = document["created"]  # UTC, ISO 8601 with microseconds: sorts by time.
        self.step: int | None = step  # The checkpoint that `Run.open` was pointed at, if it was.
        self._metrics = Metrics(path)
        self._claimed: int | None = None  # file descriptor that holds the lock

    @classmethod
    def create(cls, root: Path, task: str, config: Mapping[str, Any], out: Path | None = None) -> Self:
        """Start a run in a folder of its own: `out`, or else `root/<task>/<local time>`.

        Args:
            root: Folder of all runs, usually `runs`.
            task: Name of the task, "family/name" or "/folder/my_task.py:Reach".
            config: Everything needed to train the same again: mappings, lists, numbers, strings, None. NaN becomes
                null, and an infinity is refused.
            out: Use this folder instead; it may exist if it is empty.

        Raises:
            RunError: The folder is in use or cannot be made, or the configuration does not fit JSON.
        """
        folder = task_names.run_folder(task)
        if not task or any(part in ("", ".", "..") for part in folder.replace("\\", "/").split("/")):
            raise RunError(f"task name {task!r} cannot name a folder; expected a name like 'manipulation/pick-place'")
        try:
            values = jsonable(config)
        except ValueError as error:
            raise RunError(f"cannot store the configuration of a run: {error}") from error
        now = datetime.now(UTC)
        created = now.isoformat(timespec="microseconds")
        version = embodied_version()
        document = {"format": FORMAT, "embodied": version, "task": task, "created": created, "config": values}
        path = None
        try:
            path = _claim(Path(out)) if out is not None else _fresh(Path(root) / folder, now)
            write_atomic(path / CONFIG, seal(document))
            (path / CHECKPOINTS).mkdir()
            (path / VIDEOS).mkdir()
            sync_folder(path.parent)
        except OSError as error:
            if path is not None:  # it was free, so that nothing of others is in it
                shutil.rmtree(path, ignore_errors=True)
            place = out if out is not None else Path(root) / folder
            raise RunError(f"cannot create a run in '{place}': {reason(error)}") from error
        return cls(path, document)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run by its folder or by anything inside it; a checkpoint's folder also selects its step.

        Raises:
            RunError: There is no run, or its configuration is truncated, edited or of another version.
        """
        path = Path(path)
        try:
            folder, step = _locate(path) or _locate(path.absolute()) or (None, None)
        except OSError as error:  # of what no path can be
            raise RunError(f"{reason(error)}: {str(path)[:PATH_SHOWN]}...") from error
        if folder is None:
            raise RunError(f"no run at '{path}': expected a folder with {LAYOUT}, or a path inside it; {_found(path)}")
        try:
            document = unseal(read_file(folder / CONFIG), FORMAT, "run")
        except OSError as error:
            raise RunError(f"run '{folder}': {CONFIG} cannot be read: {reason(error)}") from error
        except ValueError as error:
            raise RunError(f"run '{folder}': {CONFIG} is {error}; expected the keys {listing(KEYS)}, sha256") from error
        if missing := [key for key in KEYS if key not in document]:
            raise RunError(f"run '{folder}': {CONFIG} lacks {listing(missing)}; expected the keys {listing(KEYS)}")
        expected = {"task": (str, "a name"), "created": (str, "a time"), "config": (dict, "a table of settings")}
        for key, (kind, what) in expected.items():
            if not isinstance(document[key], kind):
                raise RunError(f"run '{folder}': {CONFIG} has the {key} {document[key]!r}; expected {what}")
        return cls(folder, document, step)

    @classmethod
    def all(cls, root: Path, task: str | None = None) -> list[Self]:
        """Runs below `root`, newest first, of one task or of all. Folders that are no intact run are left out."""
        found = []
        for folder in _folders(Path(root)):
            try:
                run = cls.open(folder)
            except RunError:
                continue
            if task in (None, run.task):
                found.append(run)
        return sorted(found, key=lambda run: (run.created, str(run.path)), reverse=True)

    @classmethod
    def find(cls, root: Path, task: str | None = None) -> Self:
        """The newest run below `root`, of one task or of all.

        Raises:
            RunError: There is none; the message names the tasks that have runs.
        """
        runs = cls.all(root, task)
        if runs:
            return runs[0]
        tasks = sorted({run.task for run in cls.all(root)})
        exists = f"there are runs of {listing(tasks)}" if tasks else "there are no runs at all"
        raise RunError(f"no run{f' of {task!r}' if task else ''} below '{root}'; {exists}")

    def discard(self) -> None:
        """Remove the folder of a run that holds no checkpoint; others stay."""
        self.close()
        if not checkpoints.steps(self.checkpoints):
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def name(self) -> str:
        """Its name: by `--name`, or as its folder; one of several seeds also by its seed."""
        given, own = self.config.get("name"), self.path.resolve().name
        return own if given in (None, own) else f"{given}/{own}"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def videos(self) -> Path:
        """Folder of the videos."""
        return self.path / VIDEOS

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append metrics to `metrics.jsonl` and to TensorBoard. What is not finite is written as null.

        Raises:
            RunError: A metric has a reserved name or is no number, or the file cannot be written.
        """
        self._metrics.log(step, metrics)

    def add_logger(self, logger: Logger) -> None:
        """Send every metric to a logger, too."""
        self._metrics.loggers.append(logger)

    @property
    def result(self) -> dict[str, Any]:
        """Result of the training; empty where it has not come to its end, or the file is damaged."""
        try:
            result = read_json(self.path / RESULT)
        except (OSError, ValueError):
            return {}
        return result if _is_result(result) else {}

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write the result of the training.

        Raises:
            RunError: A value does not fit JSON, or the file cannot be written.
        """
        try:
            write_atomic(self.path / RESULT, dumps(jsonable(result)))
            for logger in self._metrics.loggers:
                logger.summarize(result)
        except (OSError, ValueError) as error:
            raise RunError(f"cannot write '{self.path / RESULT}': {reason(error)}") from error

    def metrics(self) -> list[dict[str, float]]:
        """Every metrics line, in order; null is NaN. Incomplete lines, as a killed process leaves, are left out."""
        return [
            {name: math.nan if value is None else value for name, value in record.items()}
            for _, record in self._metrics.records()
        ]

    def save(self, step: int, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]) -> Path:
        """Save a checkpoint (`embodied.storage.checkpoints.save`); all metrics logged before it reach the disk too."""
        self._metrics.sync()
        return checkpoints.save(self.checkpoints, step, tensors, meta)

    def save_snapshot(self, step: int, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]) -> None:
        """Save the policy by itself, in place of earlier ones, for viewers; nothing resumes from it."""
        folder = self.path / SNAPSHOT
        if step not in checkpoints.steps(folder):
            checkpoints.save(folder, step, tensors, meta)
            checkpoints.prune(folder, keep=2)  # one may be read at the moment

    def newest_snapshot(self) -> Path | None:
        """The newest checkpoint or snapshot; None where there is none yet."""
        folders = (self.checkpoints, self.path / SNAPSHOT)
        newest = [(saved[-1], folder) for folder in folders if (saved := checkpoints.steps(folder))]
        step, folder = max(newest, default=(None, None))
        return None if step is None or folder is None else folder / checkpoints.name_of(step)

    def load(self, step: int | None = None) -> Checkpoint:
        """Load the checkpoint of `step`; by default the one the run was opened at, or else the newest that loads.

        Raises:
            CheckpointError: There is none, or the one asked for does not load.
        """
        step = self.step if step is None else step
        if step is None and (newest := checkpoints.latest(self.checkpoints)):
            return checkpoints.load(newest)
        saved = checkpoints.steps(self.checkpoints)
        if not saved:
            raise CheckpointError(f"run '{self.path}' has no checkpoint yet")
        return checkpoints.load(self.checkpoints / checkpoints.name_of(saved[-1] if step is None else step))

    def resume(self, step: int | None = None) -> Checkpoint:
        """Load a checkpoint to go on from it, and make the run's record end there.

        Later lines of `metrics.jsonl` are dropped, later TensorBoard events hidden, and later checkpoints renamed,
        so that the continued run can log and save those steps again. The result goes: another will follow.

        Raises:
            RunError: it has links, as of `check_links`.
            CheckpointError: as of `load`.
        """
        check_links(self.path)
        checkpoint = self.load(step)
        (self.path / RESULT).unlink(missing_ok=True)
        checkpoints.set_aside(self.checkpoints, checkpoint.step)
        self._metrics.end_at(checkpoint.step)
        self.step = None
        return checkpoint

    def claim(self) -> None:
        """Keep other processes from training in this run, for as long as this one does not close it.

        Raises:
            RunError: another process has claimed it, or it has links, as of `check_links`.
        """
        if self._claimed is not None:
            return
        check_links(self.path)
        try:
            self._claimed = locked(self.path / CONFIG)
        except BlockingIOError:
            raise RunError(f"run '{self.path}' is being trained by another process; wait for it, or end it") from None

    def close(self) -> None:
        """Close the files that logging opened, which logging again reopens, and give up a claim."""
        self._metrics.close()
        if self._claimed is not None:
            os.close(self._claimed)
            self._claimed = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run('{self.path}', task={self.task!r})"


def _is_result(value: Any) -> bool:
    """Whether a JSON value is what `Run.write_result` may have written of a training."""
    if not isinstance(value, dict) or not _numbers_fit(value):
        return False
    figures = [value[key] for key in FIGURES if key in value]
    units, rows = value.get("units") or {}, value.get("results") or []
    return (
        all(map(is_number, figures))
        and isinstance(units, dict)
        and all(isinstance(unit, str) for unit in units.values())
        and isinstance(rows, list)
        and all(isinstance(row, dict) for row in rows)
    )


def _numbers_fit(value: Any) -> bool:
    """Whether all numbers of a JSON value are floats or fit one."""
    if isinstance(value, dict | list):
        return all(map(_numbers_fit, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool) or not isinstance(value, int) or is_number(value)


def check_free(path: Path) -> None:
    """Check that a run may begin in a folder, before there is a run.

    Raises:
        RunError: Something is there.
    """
    if os.path.lexists(path) and not path.is_dir():
        raise RunError(f"'{path}' exists and is not a folder; choose another folder for the run")
    if held := sorted(p.name for p in path.iterdir()) if path.is_dir() else []:
        raise RunError(
            f"'{path}' is not empty (it holds {listing(held, 5)}); nothing was overwritten: choose another folder, or "
            "resume the run that is there"
        )


def check_links(folder: Path) -> None:
    """Check that a folder that is to be written to, or its checkpoints, have no links to files and folders elsewhere.

    Raises:
        RunError: there is one: what is written would change that file, what is pruned be removed there.
    """
    for place in (folder, folder / CHECKPOINTS, folder / SNAPSHOT):
        if place.is_dir() and (links := sorted(path for path in place.iterdir() if path.is_symlink())):
            link, target = links[0], os.readlink(links[0])
            raise RunError(f"'{link}' is a link to '{target}', which a training would change; replace it by a copy")


def _claim(path: Path) -> Path:
    """Make the folder the user requested, unless something is there."""
    check_free(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _fresh(parent: Path, now: datetime) -> Path:
    """Make a folder named by the local time, with a number appended if that second is taken."""
    stamp = now.astimezone().strftime("%Y-%m-%d_%H-%M-%S")
    parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):
        path = parent / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise RunError(f"cannot create a run in '{parent}': a thousand were started in this second")


def _locate(path: Path) -> tuple[Path, int | None] | None:
    """The run folder that `path` is or lies in, and the checkpoint step it names; None if it lies in none."""
    for folder in (path, *path.parents[:3]):
        if not (folder / CONFIG).is_file():
            continue
        inside = path.relative_to(folder).parts
        if inside[:1] == (CHECKPOINTS,) and len(inside) > 1:
            step = checkpoints.step_of(Path(inside[1]))
            return None if step is None else (folder, step)
        known = not inside or inside[0] in (CHECKPOINTS, SNAPSHOT, VIDEOS) or (len(inside) == 1 and path.is_file())
        return (folder, None) if known and path.exists() else None
    return None


def _found(path: Path) -> str:
    """Content of a path that is no run, in a few words."""
    if not os.path.exists(path):
        return "nothing exists there"
    if not path.is_dir():
        return "it is a file"
    below = [folder.relative_to(path) for folder in _folders(path)]
    if below:
        return f"runs below it: {listing(sorted(below), 5)}"
    return f"it holds {listing(sorted(p.name for p in path.iterdir()), 5) or 'nothing'}"


def _folders(root: Path) -> Iterator[Path]:
    """Folders at or below `root` that have a `config.json`, without looking further inside those."""
    for folder, subfolders, files in os.walk(root):
        if CONFIG in files or len(Path(folder).relative_to(root).parts) >= DEPTH:
            subfolders.clear()
        if CONFIG in files:
            yield Path(folder)
