"""The option of a task that takes a robot from a file: the file's path, the flag `--robot`, and its results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from embodied.robot.description import NAME
from embodied.robot.named import is_path, robot_file
from embodied.robot.robot import Robot

T = TypeVar("T")
KEPT = 8  # robots that are remembered

RobotPath = Annotated[str, tyro.conf.arg(aliases=("--robot",))]
"""The type of a config's field `robot`: a path, with a flag of its own beside `--config.robot`."""


def keep_absolute(config: Any, default: str = "") -> None:
    """Make the path in a config's field `robot` absolute, so that a run finds it wherever it is resumed.

    A name stays; that of the `default` robot becomes the empty one, as if it had not been given.
    """
    if config.robot == default:
        object.__setattr__(config, "robot", "")
    elif is_path(config.robot) or Path(config.robot).is_file():
        object.__setattr__(config, "robot", str(Path(config.robot).resolve()))


def by_file(make: Callable[[Robot], T]) -> Callable[[Path | str], T]:
    """A function from a robot to `make`'s result: made once, and again when the file or its description changed.

    The function that is returned raises `ModelError` where the file cannot be read or is not understood.
    """

    @functools.lru_cache(maxsize=KEPT)
    def made(file: Path, changed: tuple[int, ...]) -> T:
        del changed
        return make(Robot.load(file))

    def of(robot: Path | str) -> T:
        file = robot_file(robot)
        parts = (file, file.parent / NAME)
        return made(file, tuple(part.stat().st_mtime_ns if part.exists() else 0 for part in parts))

    return of
