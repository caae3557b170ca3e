"""Files that a command is to write, looked at before its work: what cannot be written, or would replace its input."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, reason

FILES = ("json", "log", "html", "picture", "video")
"""Settings that name one file to write."""
FOLDERS = ("out",)
"""Settings that name a file or a folder to write."""


def check_outputs(settings: Any) -> None:
    """Look at the files that settings say to write.

    Raises:
        EmbodiedError: one is a folder or lies below what is no folder, or it is a file that the settings say to read.
    """
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    outputs = {name: values[name] for name in (*FILES, *FOLDERS) if isinstance(values.get(name), Path)}
    for name, path in outputs.items():
        _require_place(f"--{name} {str(path)!r}", path, is_file=name in FILES)
        for given in (value for other, value in values.items() if other not in outputs):
            if isinstance(given, str | Path) and _is_same_file(path, given):
                raise EmbodiedError(f"--{name} {str(path)!r} is a file that this command reads; choose another place")


def _require_place(what: str, path: Path, is_file: bool) -> None:
    try:
        if is_file and path.is_dir():
            raise EmbodiedError(f"{what} is a folder; expected a file")
        above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
        if not above.is_dir():
            raise EmbodiedError(f"{what}: '{above}' is no folder")
        for place in (path, above / path.name):  # folders that are missing are made
            with contextlib.suppress(FileNotFoundError):
                os.stat(place)
    except OSError as error:
        raise EmbodiedError(f"{what}: {reason(error)}") from None


def _is_same_file(path: Path, given: str | Path) -> bool:
    try:
        return os.path.isfile(given) and os.path.samefile(path, given)
    except (OSError, ValueError):
        return False
