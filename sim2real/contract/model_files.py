"""Model files of users' robots: the one that a policy was trained with, and whether a file is still that one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from embodied.core.task import Task
from embodied.errors import EmbodiedError
from embodied.robot import NAME, Description
from embodied.robot.files import content
from sim2real.contract.contract import ModelFile

SHOWN = 12  # characters of a hash
SUFFIXES = (".urdf", ".xml", ".mjcf")


def is_file(robot: str) -> bool:
    """Whether a word that names a robot is a model file, and not a folder of assets/robots."""
    return Path(robot).suffix.lower() in SUFFIXES or Path(robot).is_file()


def of_task(task: Task[Any]) -> Path | None:
    """The model file that a task's config names in its field `robot`; None for tasks on robots under assets/."""
    named = name_of(task)
    return Path(named) if is_file(named) else None


def name_of(task: Task[Any]) -> str:
    """The robot of a task's config: a name or a model file; empty where the config names none."""
    named = getattr(task.config, "robot", "")
    return named if isinstance(named, str) else ""


def recorded(path: Path) -> ModelFile:
    """Record of a model file: path and checksums.

    Raises:
        ModelError: it cannot be read.
    """
    return ModelFile(str(path), hashlib.sha256(content(path)).hexdigest(), _described(path))


def found(model: ModelFile, elsewhere: Path | None = None) -> Path:
    """The model file where it lay, or `elsewhere`.

    Raises:
        EmbodiedError: it is not there, or it is another one, or its `robot.toml` differs; names the file.
        ModelError: it cannot be read.
    """
    path = Path(model.path) if elsewhere is None else elsewhere
    if not path.is_file():
        where = "is no longer there" if elsewhere is None else "does not exist"
        raise EmbodiedError(f"the robot's model file {path} {where}; say where it is with --robot-file FILE")
    now = recorded(path)
    if now.sha256 != model.sha256:
        raise EmbodiedError(
            f"{path} is not the file that the policy was trained with: its sha256 is {now.sha256[:SHOWN]}, expected "
            f"{model.sha256[:SHOWN]}; give that file with --robot-file FILE, or train on this one"
        )
    if now.description != model.description:
        change = "is missing" if not now.description else "says other things" if model.description else "is new"
        raise EmbodiedError(
            f"{path.parent / NAME} {change} since the policy was trained; put it as it was, or train with this one"
        )
    return path


def _described(path: Path) -> str:
    """SHA-256 of a model file's description in `robot.toml`, whatever its layout; empty where there is none."""
    said = dataclasses.replace(Description.beside(path), file=None)
    if said == Description():
        return ""
    return hashlib.sha256(json.dumps(dataclasses.asdict(said)).encode()).hexdigest()
