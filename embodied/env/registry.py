"""Names of tasks and suites, and their entries. Content registers by a function call; nothing is imported early.

A user's task needs no registration: its file names it, `my_task.py:Reach`.

Third parties join by an entry point in the group `embodied.tasks` that names a function taking the registry:

    [project.entry-points."embodied.tasks"]
    my_lab = "my_lab.tasks:register"
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage import task_names
from embodied.storage.configs import override
from embodied.storage.task_names import OwnFile

if TYPE_CHECKING:
    from embodied.core.task import Task

ENTRY_POINTS = "embodied.tasks"
WRAPPERS = {
    "initial_states": "embodied.env.options:InitialStates",
    "time_limit": "embodied.env.options:TimeLimit",
    "trials": "embodied.env.options:Trials",
}
"""Changes of tasks by flags that exist without content, innermost first."""


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """One registered task. Targets are `module:attribute` strings, imported when first needed."""

    name: str
    """`family/name`, or `/folder/my_task.py:Reach` of a task that is named by its file."""
    target: str
    """The `Task` subclass."""
    summary: str
    """One line for `embodied.list`."""
    engines: tuple[str, ...]
    """Engines that run it; the first that fits the machine is the default (see `embodied.env.factory`)."""
    training: str | None = None
    """Training defaults: a `policies.registry.TrainConfig`."""
    variant_of: str | None = None
    """The task that `embodied list` shows in place of this one, where many differ in one thing only."""
    experimental: bool = False
    """Whether no policy has learned it so far; `embodied list` shows it with `--all` only."""
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of the task's config that have other defaults than its class gives them."""
    robots: tuple[str, ...] = ()
    """Forms of the robots that it takes from a file, as `embodied.robot.forms_of` names them."""

    def load(self) -> type[Task[Any]]:
        """Import the task's class; with `config`, a child of it that has these defaults."""
        kind = load_target(self.target, f"task {self.name!r}")
        return with_defaults(kind, tuple(self.config.items())) if self.config else kind

    def load_training(self) -> Any:
        """Import the task's training defaults, or None where it has none."""
        return None if self.training is None else load_target(self.training, f"training defaults of {self.name!r}")


class TaskEncoding(StrEnum):
    """Encoding of the present task in the observations of a policy of several tasks."""

    ONE_HOT = "one-hot"
    """One for each task: 1 for its own, else 0."""
    WORDS = "words"
    """The task's instruction, as a vector."""


@dataclasses.dataclass(frozen=True)
class Suite:
    """Several tasks under one name, such as `mt10`: to learn one policy for, and to evaluate side by side."""

    name: str
    """One word; it may go on after a colon, as `mt1:push` does."""
    summary: str
    """One line for `embodied.list`."""
    tasks: tuple[str, ...]
    """Names of the tasks to train on and to evaluate, in the order of their identities."""
    held_out: tuple[str, ...] = ()
    """Tasks that are evaluated only: what was learned is to carry over to them."""
    identified: bool = False
    """Whether observations identify the task: by one number for each of `tasks`, or by words."""
    paraphrases: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Task -> further instructions, beside its own, for a policy with tasks encoded by words."""
    held_out_paraphrases: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Task -> instructions with which such a policy is evaluated only."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of the tasks' configs that the suite sets."""
    unseen: str = ""
    """Information hidden from its policies, in the plural, such as goals; only one with memory finds it out."""
    train_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields that it sets in training only, such as a list of starts to train on."""
    seed: int = 1000
    """Seed of the starts on which `tasks` are evaluated."""
    held_out_seed: int = 1000
    """Seed of the starts on which `held_out` are."""
    experimental: bool = False
    """As of a task."""
    episodes: int = 50
    """Episodes of each task in an evaluation."""
    training: str | None = None
    """Training defaults: a `policies.registry.TrainConfig`."""

    def instructions(self, task: str) -> tuple[str, ...]:
        """Instructions from which a policy with tasks encoded by words learns one of `tasks`."""
        language = join_content()[task].load()().language
        return (*(language.instructions if language else ()), *self.paraphrases.get(task, ()))

    def shared_config(self, *, training: bool) -> Any:
        """The options that all tasks have, as the suite sets them; None where none have all of them in common.

        Some tasks may have more: their config extends this one, and `make` takes it for them.
        """
        kinds = {join_content()[task].load().config_type for task in (*self.tasks, *self.held_out)}
        common = next((kind for kind in kinds if all(issubclass(other, kind) for other in kinds)), None)
        if common is None:
            return None
        return override(common(), {**self.options, **(self.train_options if training else {})})

    def __post_init__(self) -> None:
        if not self.tasks or not self.name or "/" in self.name:
            raise EmbodiedError(f"suite {self.name!r} of {len(self.tasks)} tasks: expected a name without '/', tasks")

    def load_training(self) -> Any:
        """Import the suite's training defaults, or None where it has none."""
        return None if self.training is None else load_target(self.training, f"training defaults of {self.name!r}")


class Registry:
    """Task names -> entries, and names of suites -> suites."""

    def __init__(self) -> None:
        """Begin empty; `join_content` fills it."""
        self._tasks: dict[str, TaskEntry] = {}
        self._suites: dict[str, Suite] = {}
        self._wrappers = dict(WRAPPERS)

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

    def register_suite(self, suite: Suite) -> None:
        """Add a suite. Its tasks may register later.

        Raises:
            EmbodiedError: another suite has the name already.
        """
        if self._suites.setdefault(suite.name, suite) != suite:
            raise EmbodiedError(f"suite {suite.name!r} is registered twice")

    def register_wrapper(self, name: str, target: str) -> None:
        """Add a change of tasks by flags: `module:attribute` of an `embodied.env.options.Wrapper`, innermost first.

        Raises:
            EmbodiedError: another target has the name already.
        """
        if self._wrappers.setdefault(name, target) != target:
            raise EmbodiedError(f"task wrapper {name!r} is registered twice: by {self._wrappers[name]} and by {target}")

    @property
    def wrappers(self) -> Mapping[str, str]:
        """Name of every change of tasks by flags -> its target; `embodied.env.options.registered` loads them."""
        return self._wrappers

    @property
    def suites(self) -> Mapping[str, Suite]:
        """Name -> suite, in the order in which they registered; those whose tasks are all there."""
        return {
            name: suite
            for name, suite in self._suites.items()
            if all(task in self._tasks for task in (*suite.tasks, *suite.held_out))
        }

    def find(self, name: str) -> TaskEntry | Suite:
        """The task or the suite of a name.

        Raises:
            UnknownNameError: neither; suggests what may have been meant.
            EmbodiedError: the name is that of a file, which does not exist or is no task's.
        """
        if file := task_names.own_file(_text(name)):
            return file_entry(file)
        suites = self.suites
        if name in suites:
            return suites[name]
        if name in self._tasks:
            return self._tasks[name]
        raise UnknownNameError("task", name, [*self._tasks, *suites])

    def __getitem__(self, name: str) -> TaskEntry:
        """The entry of a task.

        Raises:
            UnknownNameError: no such task; suggests what may have been meant.
            EmbodiedError: the name is that of a file, which does not exist or is no task's.
        """
        if file := task_names.own_file(_text(name)):
            return file_entry(file)
        try:
            return self._tasks[name]
        except KeyError:
            raise UnknownNameError("task", name, self._tasks) from None

    def __contains__(self, name: str) -> bool:
        """Whether a task, or a Python file, of that name exists."""
        file = task_names.own_file(name)
        return name in self._tasks if file is None else file.path.is_file()

    def taking(self, forms: Iterable[str]) -> list[str]:
        """Names of the tasks that take a robot of one of these forms from a file, form by form."""
        return [task.name for form in forms for task in self._tasks.values() if form in task.robots]

    def __iter__(self) -> Iterator[str]:
        """Task names, sorted."""
        return iter(sorted(self._tasks))

    def __len__(self) -> int:
        """Number of registered tasks."""
        return len(self._tasks)


def _text(name: object) -> str:
    """A name, if it is a text.

    Raises:
        EmbodiedError: it is none.
    """
    if not isinstance(name, str):
        raise EmbodiedError(f"the task is {name!r}; expected a name, such as 'swarm/hover', or 'my_task.py:Reach'")
    return name


REGISTRY = Registry()
"""The process's registry."""


def file_entry(file: OwnFile) -> TaskEntry:
    """The entry of a task that is named by its file: engines and training defaults are those of the file.

    Raises:
        EmbodiedError: there is no such file, or no such task in it.
    """
    from embodied.core import task_file  # tasks need JAX; their names, which commands list and complete, do not

    module = task_file.import_file(file.path)
    name, kind = task_file.find_task(module, file.member)
    training = task_file.TRAINING
    return TaskEntry(
        name=OwnFile(file.path, name).name,
        target=f"{module.__name__}:{name}",
        summary=task_file.summary_of(kind),
        engines=tuple(kind.engines),
        training=f"{module.__name__}:{training}" if hasattr(module, training) else None,
    )


@functools.cache
def with_defaults(kind: type[Task[Any]], defaults: tuple[tuple[str, Any], ...]) -> type[Task[Any]]:
    """A task's class in which fields of the config have other defaults.

    Raises:
        EmbodiedError: as of `override`.
    """
    base = kind.config_type
    config, hints = override(base(), dict(defaults)), get_type_hints(base, include_extras=True)
    fields = [(name, hints[name], dataclasses.field(default=getattr(config, name))) for name, _ in defaults]
    names = {"__module__": base.__module__, "__doc__": base.__doc__}
    config_type = dataclasses.make_dataclass(base.__name__, fields, bases=(base,), namespace=names, frozen=True)
    own = {"__module__": kind.__module__, "__doc__": kind.__doc__, "config_type": config_type}
    return types.new_class(kind.__name__, (kind,), exec_body=lambda body: body.update(own))


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


CONTENT = ("tasks", "policies", "sim2real")


def check_sibling(package: str) -> None:
    """Check that `import package` finds the folder beside `embodied`.

    Raises:
        EmbodiedError: names the intruder and the two ways out.
    """
    expected = Path(__file__).resolve().parents[2] / package / "__init__.py"
    spec = find_spec(package)
    found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
    if found != expected:
        raise EmbodiedError(
            f"'{package}' should be embodied's own package {expected}, but Python finds {found or 'nothing'}: run from "
            "another folder, or use the command 'embodied' (or 'python -P -m embodied') of an installed package"
        )


@functools.cache
def join_content() -> Registry:
    """The registry with everything that is installed; safe to call often."""
    for package in CONTENT:
        check_sibling(package)
    for package in ("tasks", "sim2real"):
        importlib.import_module(package).register(REGISTRY)
    join_entry_points(REGISTRY)
    return REGISTRY
