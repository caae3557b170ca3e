"""Files that `python -m embodied.new` writes: templates filled in with a name, a class and a robot."""

from __future__ import annotations

import dataclasses
import keyword
import os
import string
import sys
from pathlib import Path

from embodied.errors import EmbodiedError, reason
from embodied.robot import Kind, Robot
from embodied.storage.files import write_atomic

OWN = ("embodied", "tasks", "policies", "sim2real", "jax", "numpy", "torch", "mujoco", "brax", "cv2", "pybullet")
"""Modules of the suite and those that it needs: a file of such a name hides them from all beside it."""
TEMPLATES = Path(__file__).parent / "templates"


@dataclasses.dataclass(frozen=True)
class Budget:
    """Training budget of a template's task."""

    num_envs: int
    steps: int


BUDGETS = {
    Kind.ARM: Budget(1024, 2_000_000),
    Kind.MULTIROTOR: Budget(1024, 3_000_000),
    Kind.LEGGED: Budget(1024, 3_000_000),
}
"""A few minutes on two cores each; figures: `benchmarks/results/package/new-task-arm.json`, ...."""


def kind_of(robot: Path | None, kind: str | None) -> Kind:
    """The kind of robot that a new task is for: as given, as its file is understood, else an arm.

    Raises:
        EmbodiedError: there is no template for it.
    """
    if kind is not None and kind not in BUDGETS:
        raise EmbodiedError(f"--kind {kind}: expected one of {', '.join(BUDGETS)}")
    found = Robot.load(robot).kind if robot is not None else Kind(kind or Kind.ARM)
    if kind is not None and found != kind:
        raise EmbodiedError(f"--kind {kind}: '{robot}' is understood as {found}; say kind in robot.toml beside it")
    if found not in BUDGETS:
        raise EmbodiedError(f"'{robot}' is a {found}, for which there is no template; there are {', '.join(BUDGETS)}")
    return found


def contents(name: str, kind: Kind, robot: Path | None, folder: Path) -> dict[Path, str]:
    """Path -> text of the files of a new task: the task, its test and, without a robot, a small robot's model.

    Raises:
        EmbodiedError: the name is none that a module can have.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise EmbodiedError(f"task name {name!r}: expected a name as modules have, such as my_reach")
    if name in (*sys.stdlib_module_names, *OWN):
        raise EmbodiedError(
            f"task name {name!r} is that of a module, which {name}.py would hide; expected another name"
        )
    budget = BUDGETS[kind]
    filled = {
        "NAME": name,
        "FILE": f"{name}.py",
        "TITLE": f"`{name}`",
        "CLASS": "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "Task",
        "ROBOT": _path_expression(robot, folder) if robot else f'Path(__file__).with_name("{name}.xml")',
        "ENVS": f"{budget.num_envs}",
        "STEPS": f"{budget.steps:_}",
    }
    files = {
        folder / f"{name}.py": _filled(f"{kind}.txt", filled),
        folder / f"test_{name}.py": _filled("test.txt", filled),
    }
    if robot is None:
        files[folder / f"{name}.xml"] = (TEMPLATES / f"{kind}.xml").read_text(encoding="utf-8")
    return files


def write(files: dict[Path, str]) -> None:
    """Write new files.

    Raises:
        EmbodiedError: one of them exists, or cannot be written; nothing is overwritten.
    """
    for path in files:
        if path.exists():
            raise EmbodiedError(f"{path} exists already; nothing was written: choose another name, or move it away")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text.encode())
        except OSError as error:
            raise EmbodiedError(f"cannot write '{path}': {reason(error)}") from error


def _path_expression(robot: Path, folder: Path) -> str:
    """Python expression of a robot file's path: from the task's own folder where it lies below that."""
    file, here = robot.resolve(), folder.resolve()
    if file.is_relative_to(here):
        return f"Path(__file__).parent / {os.fspath(file.relative_to(here))!r}"
    return f"Path({os.fspath(file)!r})"


def _filled(template: str, words: dict[str, str]) -> str:
    return string.Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(words)
