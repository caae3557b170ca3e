"""Robots by name: the folders of `assets/robots` with a `robot.toml` that says which model file is meant."""

from __future__ import annotations

import os
from pathlib import Path

from embodied.errors import ModelError, UnknownNameError
from embodied.robot.description import NAME, Description
from embodied.storage.paths import asset_roots

FOLDER = "robots"  # below assets/


def named_robots() -> dict[str, Path]:
    """Name of every described robot of `assets/robots` -> its model file."""
    found: dict[str, Path] = {}
    for root in asset_roots():
        for described in sorted((root / FOLDER).glob(f"*/{NAME}")):
            found.setdefault(described.parent.name, described.parent / (Description.read(described).file or ""))
    return found


def robot_file(robot: Path | str) -> Path:
    """Model file of a robot, given as a path or as a name such as `go1`.

    Raises:
        UnknownNameError: neither a path to a file nor a name; lists the names.
        ModelError: a path to a file that does not exist.
    """
    path, known = Path(robot), named_robots()
    if str(robot) in known:  # whatever folder of that name is here
        return known[str(robot)]
    if os.path.isfile(path):  # False, too, of what no path can be
        return path
    if is_path(robot):
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise ModelError(f"{path} {what}; expected a model file, or {', '.join(known)}")
    raise UnknownNameError("robot", str(robot), known)


def is_path(robot: Path | str) -> bool:
    """Whether a word that stands for a robot is a path rather than a name."""
    path = Path(robot)
    return bool(path.suffix) or len(path.parts) > 1
