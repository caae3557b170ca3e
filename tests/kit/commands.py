"""Commands: called in this process, or in an interpreter of their own; what they said and how they ended."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("jax", "torch", "mujoco", "numpy", "warp")
"""Modules that take seconds to import: what only says a word does without them."""

Main = Callable[[list[str]], "int | None"]


@dataclasses.dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The only line with which it refused."""
        assert self.code == 2, self
        assert "Traceback" not in self.err
        (line,) = (line for line in self.err.splitlines() if line.startswith("error:"))
        return line


def run(main: Main, *words: str) -> Said:
    """Call a command's `main`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return Said(code or 0, out.getvalue(), err.getvalue())


def refused(main: Main, *words: str) -> str:
    """The only line with which a command refuses these words; it exits with 2."""
    return run(main, *words).error


def contents(folder: Path) -> dict[str, bytes]:
    """What a command wrote: path in the folder -> bytes."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands print as on a terminal of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def plain(text: str) -> str:
    """What is read of a text on a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """Variables of a process that finds modules in some folders, then in this checkout."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT))), **variables}


def interpreted(
    *words: str, cwd: Path | None = None, timeout: float = 240, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Start an interpreter in a folder, whose own files come first."""
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment(*([cwd] if cwd else []), **variables),
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
