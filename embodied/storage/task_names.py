"""Names of tasks: `family/name` of the registry, or the file of a user's task, `my_task.py:Reach`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

FILE_NAME = re.compile(r"(?P<path>[^\0\n\ud800-\udbff]+\.py)(?::(?P<member>\w+))?")


@dataclasses.dataclass(frozen=True)
class OwnFile:
    """File of a user: a task, or a policy."""

    path: Path
    member: str | None = None
    """Name of the class or function there; None: the only one."""

    @property
    def name(self) -> str:
        """`/folder/my_task.py:Reach`, the same in every folder."""
        return str(self.path.resolve()) + (f":{self.member}" if self.member else "")


def own_file(name: str) -> OwnFile | None:
    """The file that the name of a task or a policy means; None of any other name."""
    found = FILE_NAME.fullmatch(name)
    return OwnFile(Path(found["path"]), found["member"]) if found else None


def label(name: str) -> str:
    """A task's name without the folders that only this machine has: `my_task.py:Reach`."""
    file = own_file(name)
    return name if file is None else file.path.name + (f":{file.member}" if file.member else "")


def typed(name: str) -> str:
    """A task's name as typed here: a file below the present folder by its path from there."""
    file, here = own_file(name), Path.cwd()
    if file is None or not file.path.is_relative_to(here):
        return name
    return str(file.path.relative_to(here)) + (f":{file.member}" if file.member else "")


def run_folder(name: str) -> str:
    """Folder of a task's runs below `runs`: `family/name`, or `my_task/Reach`."""
    file = own_file(name)
    return name if file is None else "/".join(filter(None, (file.path.stem, file.member)))
