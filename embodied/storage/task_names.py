"""Names of tasks: `family/name` of the registry, or the file of a task of one's own, `my_task.py:Reach`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

FILE_NAME = re.compile(r"(?P<path>.+\.py)(?::(?P<task>\w+))?")


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A task by the file in which it is written."""

    path: Path
    task: str | None = None
    """Name of its class; None: the only one in the file."""

    @property
    def name(self) -> str:
        """`/folder/my_task.py:Reach`, the same wherever one stands."""
        return str(self.path.resolve()) + (f":{self.task}" if self.task else "")


def task_file(name: str) -> TaskFile | None:
    """The file that a task's name means; None of a registered name."""
    found = FILE_NAME.fullmatch(name)
    return TaskFile(Path(found["path"]), found["task"]) if found else None


def label(name: str) -> str:
    """A task's name without the folders that only this machine has: `my_task.py:Reach`."""
    file = task_file(name)
    return name if file is None else file.path.name + (f":{file.task}" if file.task else "")


def typed(name: str) -> str:
    """A task's name as one types it here: a file below the present folder by its path from there."""
    file, here = task_file(name), Path.cwd()
    if file is None or not file.path.is_relative_to(here):
        return name
    return str(file.path.relative_to(here)) + (f":{file.task}" if file.task else "")


def run_folder(name: str) -> str:
    """Where a task's runs lie below `runs`: `family/name`, or `my_task/Reach`."""
    file = task_file(name)
    return name if file is None else "/".join(filter(None, (file.path.stem, file.task)))


def found_in(run: Path, name: str) -> str:
    """The name of a run's task: where its file is gone, that of the copy which the run keeps."""
    file = task_file(name)
    if file is None or file.path.exists() or not (run / file.path.name).is_file():
        return name
    return dataclasses.replace(file, path=run / file.path.name).name
