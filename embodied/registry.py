"""Names of tasks, and what each stands for. Content registers by a function call; nothing is imported early.

Third parties join by an entry point in the group `embodied.tasks` that names a function taking the registry:

    [project.entry-points."embodied.tasks"]
    my_lab = "my_lab.tasks:register"
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from embodied.errors import EmbodiedError, UnknownNameError
from embodied.task import Task

ENTRY_POINTS = "embodied.tasks"


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """One registered task. Targets are `module:attribute` strings, imported when first needed."""

    name: str
    """`family/name`."""
    target: str
    """The `Task` subclass."""
    summary: str
    """One line for `embodied.list`."""
    engines: tuple[str, ...]
    """Engines that run it; the first that fits the machine is the default (see `embodied.factory`)."""
    training: str | None = None
    """Training defaults: a `policies.train_config.TrainConfig`."""
    variant_of: str | None = None
    """The task that stands for this one in default test runs, where many tasks differ in one thing only."""

    def load(self) -> type[Task[Any]]:
        """Import the task's class."""
        return load_target(self.target, f"task {self.name!r}")

    def load_training(self) -> Any:
        """Import the task's training defaults, or None where it has none."""
        return None if self.training is None else load_target(self.training, f"training defaults of {self.name!r}")


class Registry:
    """Task names -> entries."""

    def __init__(self) -> None:
        """Begin empty; `join_content` fills it."""
        self._tasks: dict[str, TaskEntry] = {}

    def register(self, entry: TaskEntry) -> None:
        """Add a task.

        Raises:
            EmbodiedError: the name is malformed, or another target has it already.
        """
        family, slash, name = entry.name.partition("/")
        if not (family and slash and name):
            raise EmbodiedError(f"task name {entry.name!r} is not of the form 'family/name'")
        known = self._tasks.setdefault(entry.name, entry)
        if known != entry:
            raise EmbodiedError(f"task {entry.name!r} is registered twice: by {known.target} and by {entry.target}")

    def __getitem__(self, name: str) -> TaskEntry:
        """The entry of a task.

        Raises:
            UnknownNameError: no such task; suggests what may have been meant.
        """
        try:
            return self._tasks[name]
        except KeyError:
            raise UnknownNameError("task", name, self._tasks) from None

    def __contains__(self, name: str) -> bool:
        """Whether a task of that name exists."""
        return name in self._tasks

    def __iter__(self) -> Iterator[str]:
        """Task names, sorted."""
        return iter(sorted(self._tasks))

    def __len__(self) -> int:
        """How many tasks are registered."""
        return len(self._tasks)


REGISTRY = Registry()
"""The process's registry."""


def load_target(target: str, what: str) -> Any:
    """Import `module:attribute`.

    Raises:
        EmbodiedError: the module or the attribute does not exist.
    """
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EmbodiedError(f"{what} is registered as {target!r}, which cannot be imported: {error}") from error


def join_entry_points(registry: Registry) -> None:
    """Let every installed third party register its tasks.

    Raises:
        EmbodiedError: one of them fails; a silently missing task would be worse.
    """
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()(registry)
        except Exception as error:
            raise EmbodiedError(
                f"the plug-in {point.name!r} ({point.value}) failed to register its tasks: {error}"
            ) from error
