"""What a command is to write, looked at before its work: what cannot be written, or would replace what it reads."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, reason
from embodied.storage.files import TEMPORARY

FILES = ("json", "html", "picture", "video")
"""Settings of commands that name a file to write."""
PATH_SHOWN = 200  # characters of it
UNIQUE = "-12345678"  # as long as what `embodied.storage.files.write_atomic` puts behind a name


def check_outputs(settings: Any) -> None:
    """Look at the files that settings of a command say to write; all other paths and words are taken for inputs.

    Raises:
        EmbodiedError: as of `check_file`.
    """
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    read = [value for name, value in values.items() if name not in FILES and isinstance(value, str | Path)]
    for name in FILES:
        if isinstance(values.get(name), Path):
            check_file(f"--{name}", values[name], [path for path in read if os.path.isfile(path)])


def check_file(option: str, path: Path, inputs: Iterable[str | Path] = ()) -> None:
    """Look at a file that is to be written.

    Args:
        option: What names it, such as `--json`.
        path: The file; it, and folders above it, may be missing.
        inputs: Files that the command reads, or also writes.

    Raises:
        EmbodiedError: it is a folder, its name is too long, it lies below what is no folder, nothing may be written
            there, or it is one of the inputs, also by a link.
    """
    if os.path.isdir(path):
        raise EmbodiedError(f"{_named(option, path)} is a folder; expected a file")
    for other in inputs:
        if _same(path, Path(other)):
            raise EmbodiedError(
                f"{_named(option, path)} is the same file as '{other}', which it would replace; expected another file"
            )
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or /dev/stdout
        return
    target = Path(os.path.realpath(path))  # where a link points at nothing, that is made
    _require_room(option, path, target.with_name(f"{TEMPORARY}{target.name}{UNIQUE}"))


def check_folder(option: str, path: Path) -> None:
    """Look at a folder that is to be written into, and is made where it is missing.

    Raises:
        EmbodiedError: it is a file, a device or a link to nothing, its name is too long, it lies below what is no
            folder, or nothing may be written there.
    """
    if os.path.islink(path) and not os.path.exists(path):
        raise EmbodiedError(f"{_named(option, path)} is a link to nothing; expected a folder, or a new name")
    _require_room(option, path, path / f"{TEMPORARY}{UNIQUE}")


def _require_room(option: str, path: Path, file: Path) -> None:
    """Raise an `EmbodiedError` unless `file`, which `path` needs, can be made."""
    for above in (file, *file.absolute().parents):
        try:
            mode = os.stat(above).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise EmbodiedError(f"cannot write {_named(option, path)}: {reason(error)}") from None
        if not stat.S_ISDIR(mode):
            kind = "a file" if stat.S_ISREG(mode) else "a device or a pipe"
            where = "it" if above.absolute() == path.absolute() else f"'{str(above)[:PATH_SHOWN]}'"
            raise EmbodiedError(f"{_named(option, path)}: {where} is {kind}; expected a folder")
        if not os.access(above, os.W_OK | os.X_OK):
            raise EmbodiedError(f"cannot write {_named(option, path)}: '{above}' may not be written to")
        return


def _same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which may be missing."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def _named(option: str, path: Path) -> str:
    text = str(path)
    return f"{option} '{text}'" if len(text) <= PATH_SHOWN else f"{option} '{text[:PATH_SHOWN]}...'"
