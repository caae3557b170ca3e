"""Import of a user's file, above all of a task, under a module name that is the same in every process.

A file is imported once in a process, so that what began with one version of it ends with that version.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from embodied.core.hooks import check_declared
from embodied.core.task import Task
from embodied.errors import OWN_FILES, EmbodiedError, UnknownNameError, closest, listing, reason
from embodied.storage import trust
from embodied.storage.files import read_file

TRAINING = "training"
"""Name of a file's training defaults, a `policies.registry.TrainConfig`; a file need not have any."""


def import_file(path: Path, what: str = "task") -> ModuleType:
    """Import a Python file; modules beside it can be imported by it, after all that are installed.

    Its text is compiled: the bytecode in a `__pycache__` beside it may be another's. Where only its content is known to
    be the user's (`embodied.storage.trust`), modules beside it are not found.

    Args:
        path: The file.
        what: Its content, task or policy, for messages.

    Raises:
        EmbodiedError: there is no such file, its syntax is wrong, or nobody vouches for it. What its own code raises
            goes through.
    """
    path = path.resolve()
    name = f"task_file_{re.sub(r'[^0-9a-zA-Z]', '_', path.stem)}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    content = _content(path, what)
    own = trust.is_own(path, content)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    OWN_FILES.add(str(path))
    sys.modules[name] = module  # dataclasses look for their module while it is being made
    if own and str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        exec(compile(content, path, "exec", dont_inherit=True), vars(module))
    except SyntaxError as error:
        del sys.modules[name]
        where = Path(error.filename).name if error.filename else path.name
        raise EmbodiedError(f"{where}, line {error.lineno}: {error.msg}: {(error.text or '').strip()!r}") from None
    except (UnicodeDecodeError, ValueError) as error:
        del sys.modules[name]
        if _raised_within(error, path):
            raise
        raise EmbodiedError(f"{path.name} is no Python file: {error}") from None
    except BaseException:
        del sys.modules[name]
        raise
    return module


def find_task(module: ModuleType, name: str | None) -> tuple[str, type[Task[Any]]]:
    """A module's task and its name there: the one that is named, or the only one.

    Raises:
        EmbodiedError: there is none of that name, or none or several and none was named; or it lacks methods.
    """
    file = Path(str(module.__file__)).name
    known = {key: value for key, value in vars(module).items() if _is_task(value)}
    tasks = {key: kind for key, kind in known.items() if kind.__module__ == module.__name__}
    complete = [key for key, kind in tasks.items() if not inspect.isabstract(kind)]
    if name is not None and name not in known:
        raise UnknownNameError(f"task in {file}", name, tasks)
    if name is None and len(complete) > 1:
        raise EmbodiedError(f"{file} has {len(complete)} tasks, {listing(complete)}; say which: {file}:{complete[0]}")
    if name is None and not tasks:
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise EmbodiedError(
            f"{file} has no task; expected a class that extends embodied.core.task.Task, it has "
            f"{listing(classes) or 'no class at all'}"
        )
    name = name or [*complete, *tasks][0]
    kind = known[name]
    if lacking := sorted(getattr(kind, "__abstractmethods__", ())):
        raise EmbodiedError(f"the task {kind.__name__} in {file} lacks {listing(lacking)}; write them")
    check_declared(kind)
    for declared in ("timing", "action_size"):
        if not hasattr(kind, declared) and "__init__" not in vars(kind):
            raise EmbodiedError(f"the task {kind.__name__} in {file} says no {declared}; {EXAMPLES[declared]}")
    return name, kind


EXAMPLES = {
    "timing": "for example: timing = Timing(physics_dt=0.002, substeps=10, episode_seconds=5.0)",
    "action_size": "for example: action_size = 6",
}


def summary_of(kind: type[Task[Any]]) -> str:
    """The first sentence of a task class's docstring."""
    text = " ".join((vars(kind).get("__doc__") or "A task without a docstring.").split())
    return text.partition(". ")[0].removesuffix(".") + "."


def _is_task(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Task) and value is not Task


def _content(path: Path, what: str) -> bytes:
    """The text of a file.

    Raises:
        EmbodiedError: there is none; says what is there.
    """
    if os.path.isdir(path):
        raise EmbodiedError(f"{what} file '{path}' is a folder; expected FILE.py:NAME")
    try:
        return read_file(path)
    except FileNotFoundError:
        beside = sorted(file.name for file in path.parent.glob("*.py")) if os.path.isdir(path.parent) else []
        guesses = closest(path.name, beside)
        hint = f"did you mean {guesses[0]!r}? " if guesses else ""
        where = path.parent
        there = f"has {listing(beside)}" if beside else "has no Python file"
        raise EmbodiedError(f"{what} file '{path}' does not exist; {hint}'{where}' {there}") from None
    except OSError as error:
        raise EmbodiedError(f"{what} file '{path}' cannot be read: {reason(error)}") from None


def _raised_within(error: BaseException, path: Path) -> bool:
    """Whether the file's own code raised, not the reader of its text."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            return True
        trace = trace.tb_next
    return False
