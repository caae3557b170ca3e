"""Trust in Python files: those that the user names are run; those that only a document names must be known.

A run, a checkpoint, a config or a bundle may come from anybody, and names files: its task, a policy that it began with.
Such a file runs where `train` of this user ran the same content or a file at that path, or with `--trust`. What `train`
ran is kept in `embodied/trained` of the user's state folder, in the format of `sha256sum`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError
from embodied.storage import task_names

FLAG = "--trust"
NO_PATH = "-"
"""In place of the path of a file that is known by its content alone."""
_typed: set[Path] = set()
_named: set[Path] = set()
_everything = False


def typed(words: Sequence[str]) -> list[str]:
    """Note the files that a command line names, which are the user's, and whether it trusts others; the other words."""
    global _everything
    _everything = FLAG in words or FLAG in sys.argv
    _typed.update(_files(part for word in words for part in (word, *re.split("[=,]", word))))
    return [word for word in words if word != FLAG]


def named(document: Any) -> None:
    """Note the files that the texts of a document name: nobody typed them."""
    rest, texts = [document], list[str]()
    while rest:
        match rest.pop():
            case str() as text:
                texts.append(text)
            case dict() as mapping:
                rest += mapping.values()
            case list() as items:
                rest += items
    _named.update(_files(texts))


def found_in(run: Path, name: str) -> str:
    """The name of a run's task, as the run has it; where its file is gone, that of the copy which the run keeps."""
    file = task_names.own_file(name)
    if file is not None and not file.path.exists() and (run / file.path.name).is_file():
        name = dataclasses.replace(file, path=run / file.path.name).name
    named(name)
    return name


def is_own(path: Path, content: bytes) -> bool:
    """Whether a file is the user's by its path, and with it the modules beside it; else its content is.

    Raises:
        EmbodiedError: a document names it, and `train` of this user never ran it.
    """
    if _is_typed(path) or _everything:
        return True
    digests, paths = _trained()
    if str(path) in paths:
        return True
    if hashlib.sha256(content).hexdigest() in digests:
        return False
    raise EmbodiedError(
        f"'{path}' is code that a run or a config names, and you never trained with it here; read it, then add {FLAG} "
        "to run it"
    )


def _is_typed(path: Path) -> bool:
    return path in _typed or path not in _named


def trained_with(files: Iterable[str]) -> None:
    """Keep in mind that `train` ran these files; nothing where the state folder cannot be written.

    The path of a file that only a document named is left out: another run may come to lie there.
    """
    digests, paths = _trained()
    for file in files:
        with contextlib.suppress(OSError):
            digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
            known_by = NO_PATH if not _is_typed(Path(file)) or not file.isprintable() else file
            if digest in digests and known_by in (NO_PATH, *paths):
                continue
            place = _record()
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            with open(os.open(place, flags, 0o600), "ab") as record:
                record.write(f"{digest}  {known_by}\n".encode())


def _trained() -> tuple[set[str], set[str]]:
    """SHA-256 and paths of what `train` ran; nothing where others may have written the record."""
    try:
        place = _record()
        status = place.stat()
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            return set(), set()
        lines = [line.partition("  ") for line in place.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return set(), set()
    return {digest for digest, _, _ in lines}, {path for _, _, path in lines}


def _record() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(given if os.path.isabs(given) else os.path.expanduser("~/.local/state"))
    if not folder.is_absolute():
        raise FileNotFoundError("this user has no home")
    return folder / "embodied" / "trained"


def _files(texts: Iterable[str]) -> Iterable[Path]:
    for text in texts:
        if ".py" in text and (file := task_names.own_file(text)):
            with contextlib.suppress(OSError, ValueError):  # no path: too long, or with a null byte
                yield file.path.resolve()
