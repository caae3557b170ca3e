"""Options of environments: which task, how many, on which engine, with which cameras and changes of the task.

`EnvOptions` is the one description of environments, which commands, runs and policies share. A new change of tasks that
commands offer as flags is a frozen dataclass such as `TimeLimit`, registered in one line:
`registry.register_wrapper(NAME, "module:Class")`. Its fields become flags of every command that makes environments,
arguments of `embodied.make`, and part of a run's config. JAX and torch are imported when a task is wrapped, so that
help stays quick.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

import tyro

from embodied.env.registry import join_content, load_target
from embodied.errors import whole_number
from embodied.rendering.camera_config import CameraConfig
from embodied.storage.configs import Inline, Rare, Switched, Unflagged, from_json, override, places

if TYPE_CHECKING:
    from embodied.core.task import Task

C = TypeVar("C")
O = TypeVar("O", bound="EnvOptions[Any]")  # noqa: E741
MOST = (1 << 31) - 1  # what the int32 counts of steps and episodes hold, as `embodied.core.episode.MOST_STEPS`


@dataclasses.dataclass(frozen=True)
class Wrapper(Switched):
    """A change of a task, by options. Its first field switches it on: with None the task stays as it is."""

    of_policy: ClassVar[bool] = False
    """Whether what is learned under it also acts under it: evaluations have it, and policies note it."""
    of_robot: ClassVar[bool] = False
    """Whether it changes the robot, and so comes before other changes."""

    def __call__(self, task: Task[Any]) -> Task[Any]:
        """The changed task."""
        raise NotImplementedError

    def in_suite(self, task: str) -> Self:
        """The change of one task of a suite."""
        del task
        return self

    def keep(self, folder: Path) -> None:
        """Copy files that a run should keep into its folder."""

    def kept(self, folder: Path) -> Self:
        """The change that reads the copies in a run's folder."""
        del folder
        return self


@dataclasses.dataclass(frozen=True)
class InitialStates(Wrapper):
    """Episodes that begin at states of a file, see `embodied.core.initial_states`."""

    initial_states: Rare[Path | None] = None
    """File of initial states, as python -m sim2real.twin or embodied.snapshots writes it: some episodes begin there. Of
    a suite: the folder with a file for each task."""
    initial_states_share: Rare[float] = 0.5
    """With --initial-states: how many of the episodes, as a fraction."""

    def __call__(self, task: Task[Any]) -> Task[Any]:
        from embodied.core import initial_states

        assert self.initial_states is not None
        buffer = initial_states.load(self.initial_states, task)
        return initial_states.InitialStates(task, buffer, self.initial_states_share)

    def in_suite(self, task: str) -> Self:
        from embodied.core.initial_states import buffer_path

        folder = self.initial_states
        return self if folder is None else dataclasses.replace(self, initial_states=buffer_path(folder, task))


@dataclasses.dataclass(frozen=True)
class TimeLimit(Wrapper):
    """Episodes with another time limit."""

    episode_steps: Rare[int | None] = None
    """Control steps of an episode; by default the task's own time limit."""

    def __post_init__(self) -> None:
        if self.episode_steps is not None:
            whole_number("episode_steps", self.episode_steps, 1, MOST)

    def __call__(self, task: Task[Any]) -> Task[Any]:
        from embodied.core import task as tasks

        assert self.episode_steps is not None
        return tasks.TimeLimit(task, self.episode_steps)


@dataclasses.dataclass(frozen=True)
class Trials(Wrapper):
    """Episodes in trials, see `embodied.env.wrappers.trials`."""

    of_policy: ClassVar[bool] = True

    episodes_per_trial: Annotated[Rare[int | None], tyro.conf.arg(aliases=("--adapt",))] = None
    """Meta-learning (RL^2): so many episodes after another, a trial, begin alike, with the same hidden goal; the policy
    observes previous action and reward, and its memory lives through the trial. Wants a policy with memory, such as
    --ppo.actor.architecture gru --ppo.actor.memory 128. Evaluations count trials, and report each of their episodes."""

    def __post_init__(self) -> None:
        if self.episodes_per_trial is not None:
            whole_number("episodes_per_trial", self.episodes_per_trial, 1, MOST)

    def __call__(self, task: Task[Any]) -> Task[Any]:
        from embodied.env.wrappers import trials

        assert self.episodes_per_trial is not None
        return trials.Trials(task, self.episodes_per_trial)


@dataclasses.dataclass(frozen=True)
class Wrappers(Inline):
    """Every registered change with its options, innermost first; `registered` makes them."""

    def __iter__(self) -> Iterator[Wrapper]:
        """Those that are given; those of the robot first."""
        every = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return iter(sorted((one for one in every if one.is_given), key=lambda one: not one.of_robot))

    def mapped(self, change: Any) -> Self:
        """Every one of them, replaced by what a function makes of it."""
        every = {field.name: change(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **every)

    @property
    def of_policy(self) -> Self:
        """Without those that only training has."""
        return self.mapped(lambda wrapper: wrapper if wrapper.of_policy else type(wrapper)())


@functools.cache
def wrappers_of(kinds: tuple[tuple[str, type[Wrapper]], ...]) -> type[Wrappers]:
    """The type of `Wrappers` with a field of each kind, whose flags begin without its name."""
    fields = [
        (name, Annotated[kind, tyro.conf.OmitArgPrefixes], dataclasses.field(default=kind())) for name, kind in kinds
    ]
    return dataclasses.make_dataclass("RegisteredWrappers", fields, bases=(Wrappers,), frozen=True)


def registered() -> Wrappers:
    """Every registered change of tasks, none of them given."""
    targets = join_content().wrappers
    return wrappers_of(tuple((name, load_target(at, f"task wrapper {name!r}")) for name, at in targets.items()))()


@dataclasses.dataclass(frozen=True)
class NoConfig:
    """Stands in for the options of a task that is not loaded, or not known yet: it has none."""


@dataclasses.dataclass(frozen=True)
class EnvOptions(Generic[C]):
    """Environments of one task, or of the tasks of a suite; `embodied.env.factory.build` makes them.

    Settings of commands extend it: flags, keys of a run's config and arguments of `embodied.make` have the same names.
    """

    task: tyro.conf.Positional[str]
    """Task or suite; python -m embodied.list names them all. A task of your own is FILE.py:CLASS."""
    num_envs: int = 1
    """Environments that step together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 0
    """Seed of every random draw."""
    device: str | None = None
    """Device of the policy: cpu, cuda or cuda:N; by default the engine's."""
    engine_options: Unflagged[Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """Options of the engine, such as `{"impl": "jax"}` for mjx or `{"threads": 1}` for mujoco."""
    camera_config: tyro.conf.OmitArgPrefixes[CameraConfig] = dataclasses.field(default_factory=CameraConfig)
    """Cameras that are observed."""
    wrappers: tyro.conf.OmitArgPrefixes[Wrappers] = dataclasses.field(default_factory=registered)
    """Changes of the task."""
    config: C = None  # type: ignore[assignment]
    """The task's own options."""


def with_options(options: O, values: Mapping[str, Any]) -> O:
    """Options with some replaced by name: their own, those of cameras and changes, and fields of the task's config.

    Raises:
        EmbodiedError: as of `override`, which names the fields of the config.
    """
    known = places(options)
    own = {name: value for name, value in values.items() if name in known}
    fields = {name: value for name, value in values.items() if name not in known}
    return override(options, own | ({"config": override(options.config, fields)} if fields else {}))


def typed(options: EnvOptions[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of JSON as the options of these names have them; without those that neither options nor config have."""
    kinds = places(options) if options.config is None else places(options.config) | places(options)
    return {name: from_json(kinds[name].kind, value, name) for name, value in values.items() if name in kinds}
