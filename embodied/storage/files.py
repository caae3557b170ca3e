"""Files that are either whole or absent: atomic writing, strict JSON, and documents sealed against edits."""

import errno
import hashlib
import importlib
import json
import math
import os
import stat
import uuid
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from embodied.storage import trust

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

VERSION = "0.2.0"
TEMPORARY = ".tmp-"  # Names that start so are unfinished and must not be read.


def embodied_version() -> str:
    """Version of this package, as files that it writes name it."""
    return VERSION


def locked(path: Path) -> int | None:
    """Descriptor that locks a file or folder until it is closed; None where there are no locks.

    Raises:
        BlockingIOError: it is locked, by this process or another.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def read_file(path: Path) -> bytes:
    """The content of a file from outside.

    Raises:
        OSError: it cannot be read, or it is no regular file: a pipe would keep the reader waiting, a device never end.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read()


def require_regular(path: Path) -> None:
    """Refuse paths on which a library that opens them by itself would wait, or read for ever.

    Raises:
        OSError: it cannot be looked at, or it is no regular file.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def read_json(path: Path) -> Any:
    """The value in a JSON file from outside.

    Raises:
        OSError: as of `read_file`.
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        document = json.loads(read_file(path))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    trust.named(document)
    return document


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` (created, renamed, removed) survive a power cut."""
    if os.name == "nt":  # Windows cannot open a folder.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Wait until the disk holds a file that something else wrote."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until the disk holds it."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace the file at `path`: readers find the old content or the new at any time, never a part.

    Raises:
        OSError: The old content is untouched then.
    """
    path = path.resolve()  # A link stays a link; what it points at is replaced.
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # A pipe or /dev/stdout: there is nothing to protect, and renaming would replace it.
        return
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        write_synced(temporary, data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def dumps(document: Mapping[str, Any]) -> bytes:
    """Indented JSON with sorted keys and a final newline."""
    return (json.dumps(document, sort_keys=True, indent=2) + "\n").encode()


def jsonable(value: Any, name: str = "") -> Any:
    """Turn configuration values into what strict JSON can hold.

    NaN becomes null; tuples become lists, arrays and tensors nested lists, enumerations their values and
    paths strings.

    Args:
        value: A tree of mappings, sequences and scalars.
        name: Where in the tree `value` stands, for messages.

    Raises:
        ValueError: Names the value JSON cannot hold: an infinity, a key that is no string, an arbitrary object.
    """
    at = f"'{name}'" if name else "the document"
    if isinstance(value, Enum):
        return jsonable(value.value, name)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"{at} is {value}, which JSON cannot hold; use None or a large finite number")
        return None if math.isnan(value) else float(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{at} has the key {key!r} of type {type(key).__name__}; JSON keys are strings")
        return {str(key): jsonable(item, f"{name}/{key}".lstrip("/")) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item, f"{name}/{i}".lstrip("/")) for i, item in enumerate(value)]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist(), name)
    raise ValueError(f"{at} is a {type(value).__name__}; JSON holds numbers, strings, None, lists and mappings")


def _digest(document: Mapping[str, Any]) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def seal(document: Mapping[str, Any]) -> bytes:
    """JSON text of `document` with a "sha256" of its content, so that `unseal` notices any later change."""
    return dumps({**document, "sha256": _digest(document)})


def unseal(data: bytes, format_version: int, kind: str) -> dict[str, Any]:
    """Read what `seal` wrote.

    Args:
        format_version: The value its "format" must have.
        kind: What the document describes, for messages: "run", "checkpoint".

    Raises:
        ValueError: Says what is wrong: truncated, edited, of another version, or not such a document at all.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        detail = f"{error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "not text"
        raise ValueError(f"truncated or edited: not JSON ({detail}; {len(data)} bytes)") from error
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError(f"not written by embodied for a {kind}: it lacks the key 'format'")
    if document["format"] != format_version:
        raise ValueError(
            f"written in {kind} format {document['format']!r} by embodied {document.get('embodied', 'unknown')}; "
            f"this is embodied {embodied_version()}, which reads format {format_version}"
        )
    trust.named(document)
    expected = document.pop("sha256", None)
    found = _digest(document)
    if found != expected:
        raise ValueError(f"edited after it was written: its sha256 is {found[:12]}, expected {str(expected)[:12]}")
    return document
