"""Findings of the checks of a task."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

from embodied.core.task import Task


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in words."""

    what: str
    """The term, the state's field or the method."""
    seen: str
    expected: str
    look: str = ""
    """Place to look: the method, with file and line."""

    def __str__(self) -> str:
        look = f"; look at {self.look}" if self.look else ""
        return f"{self.what}: {self.seen}; expected {self.expected}{look}"


def place_of(task: Task[Any], hook: str) -> str:
    """Place where a task's hook is written: `observe (my_task.py, line 40)`."""
    written = inspect.getattr_static(type(task.unwrapped), hook, None)
    function = getattr(written, "fget", None) or getattr(written, "func", None) or written
    code = getattr(function, "__code__", None)
    return hook if code is None else f"{hook} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
