"""The option of a task that takes a robot from a file: the file's path, and the flag `--robot`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class RobotFile:
    """Options of a task whose robot comes from a file."""

    robot: Annotated[str, tyro.conf.arg(aliases=("--robot",))] = ""
    """MJCF or URDF file of a robot of one's own (see docs/own_robot.md); by default the task's usual robot."""

    def __post_init__(self) -> None:
        if self.robot:  # a run finds the file wherever it is gone on with
            object.__setattr__(self, "robot", str(Path(self.robot).resolve()))
