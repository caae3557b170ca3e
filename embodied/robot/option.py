"""The option of a task that takes a robot from a file: the file's path, and the flag `--robot`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

RobotPath = Annotated[str, tyro.conf.arg(aliases=("--robot",))]
"""The type of a config's field `robot`: a path, with a flag of its own beside `--config.robot`."""


def keep_absolute(config: Any) -> None:
    """Make the path in a config's field `robot` absolute, so that a run finds it wherever it is gone on with."""
    if config.robot:
        object.__setattr__(config, "robot", str(Path(config.robot).resolve()))


@dataclasses.dataclass(frozen=True)
class RobotFile:
    """Options of a task whose robot comes from a file."""

    robot: RobotPath = ""
    """MJCF or URDF file of a robot of one's own (see docs/own_robot.md); by default the task's usual robot."""

    def __post_init__(self) -> None:
        keep_absolute(self)
