"""The contract of every task: what it declares and implements. Pure, jit-able functions of one environment."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic

import mujoco
from jax import Array

from embodied.core.facets import FACETS, Language, Operator, Pictures, Team
from embodied.core.randomization import Term, without
from embodied.core.scenes import compile_spec
from embodied.core.world import Control, Outcome, ResetState, StateT, World
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror

Observation = Mapping[str, Mapping[str, Array]]
"""Observation group -> term -> value, e.g. `{"policy": {"gyro": (3,), ...}, "critic": {...}}`; order matters."""

PROPRIO = "proprio"
"""Observation group of a robot's own state, beside cameras."""
PIXELS = "pixels/"
"""Prefix of the observation groups of cameras, `pixels/<camera>`."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """The three clocks of a task."""

    physics_dt: float
    """s per physics step."""
    substeps: int
    """physics steps per control step."""
    episode_seconds: float
    """s until the time limit truncates an episode."""

    def __post_init__(self) -> None:
        if self.physics_dt <= 0 or self.substeps < 1 or self.episode_seconds < self.control_dt:
            raise ValueError(
                f"physics_dt={self.physics_dt} s must be positive, substeps={self.substeps} at least 1 and "
                f"episode_seconds={self.episode_seconds} at least one control step"
            )

    @property
    def control_dt(self) -> float:
        """s per control step."""
        return self.physics_dt * self.substeps

    @property
    def max_steps(self) -> int:
        """Control steps per episode."""
        return max(1, round(self.episode_seconds / self.control_dt))


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """Options of a task that has none of its own."""

    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""


@dataclasses.dataclass(frozen=True)
class Changes:
    """Changes to a task that its config does not hold, see `embodied.core.task.Task.rebuilt`."""

    spec_edits: tuple[Callable[[mujoco.MjSpec], None], ...] = ()
    """Changes to the scene before it is compiled, in their order."""
    left_out: tuple[str, ...] = ()
    """Variations that are left out besides those that the config names."""


UNCHANGED = Changes()


class TaskHooks(abc.ABC, Generic[StateT]):
    """A robot's sensors, actions and criteria of success; tasks are children of `embodied.core.task.Task`.

    They hold a frozen `config` and constants only: all state of an episode is in `World` and in the task's state. Every
    method that is given one of them is traced by JAX for one environment and must be pure. Whatever is public here is a
    hook, which wrappers forward; those that few tasks need and one kind of reader asks for are `embodied.core.facets`.
    """

    config_type: ClassVar[type] = TaskConfig
    """The frozen dataclass of this task's options; each field becomes a command-line flag. In a field `without`, names
    of variations to leave out."""
    config: Any
    """One of `config_type`."""
    timing: Timing
    """Physics step, control step and time limit."""
    action_size: int
    """Length of the action vector (of one agent's, where there are several), each entry in [-1, 1]."""
    engines: ClassVar[tuple[str, ...]] = ("mujoco", "mjx")
    """Engines that run a task which is named by its file; a registered one's entry names them."""
    ends_when_solved: ClassVar[bool] = False
    """Whether success ends the episode, as a game ends that is won; else it goes on, and may be unsolved again."""
    applies_every_substep: ClassVar[bool] = False
    """Whether `apply_action` runs at every physics step; otherwise its controls are held for a control step, which
    lets an engine run all substeps in one call. Declared, not inferred: a task may override `apply_action`, to add a
    push, and still hold its controls."""
    language: Language | None = None
    """The task in language, for policies that follow instructions."""
    metric_units: Mapping[str, str] = {}
    """Unit of each of the `metrics` that has one."""
    mirror: Mirror | None = None
    """Left-right reflection of the action and every observed term, where the robot is symmetric and its task does not
    distinguish left from right; None where undeclared."""
    max_reward: ClassVar[float | None] = None
    """Reward of a control step that solves the task, where the reward measures progress towards it from 0 to this;
    None where it measures other things too."""

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        """Take `config`, or the defaults of `config_type`, and the changes of `embodied.core.task.Task.rebuilt`."""
        for name, kind in FACETS.items():
            declared = inspect.getattr_static(type(self), name)
            if declared is not None and not isinstance(declared, kind | property | functools.cached_property):
                raise EmbodiedError(f"{type(self).__name__}.{name} is {declared!r}; expected a {kind.__name__}")
        self.config = self.config_type() if config is None else config
        self.changes = changes

    @functools.cached_property
    def operator(self) -> Operator | None:
        """Commands that a robot is given, and what it is sent itself."""
        return None

    @functools.cached_property
    def pictures(self) -> Pictures | None:
        """Cameras, marks and looks beside those of the model."""
        return None

    @functools.cached_property
    def team(self) -> Team | None:
        """The agents of a task of several; None: one robot, and no axis of agents anywhere."""
        return None

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Reward term -> weight. Its names are exactly those that `rewards` returns."""
        return dataclasses.asdict(self.config.weights)

    def declared_terms(self) -> tuple[Term, ...]:
        """All that can vary between episodes; in the order in which those of model fields are drawn.

        A task that draws an optional term itself draws it only where its name is in `varied`.
        """
        return ()

    @functools.cached_property
    def terms(self) -> tuple[Term, ...]:
        """Variations between episodes: `declared_terms` less those that the config or `changes` leaves out, and less
        those without effect on this model, such as a factor on the friction of joints that have none.

        Raises:
            UnknownNameError: a name that is left out is of no variation of this task.
        """
        kept = without(self.declared_terms(), (*getattr(self.config, "without", ()), *self.changes.left_out))
        return tuple(term for term in kept if not term.factor_of or term.varies(self.model))

    @functools.cached_property
    def varied(self) -> frozenset[str]:
        """Names of `terms`."""
        return frozenset(term.name for term in self.terms)

    @abc.abstractmethod
    def build_spec(self) -> mujoco.MjSpec:
        """Compose the scene; called once for each of the two models."""

    @functools.cached_property
    def model(self) -> mujoco.MjModel:
        """The compiled model that engines run, shared by all environments; treat it as read-only.

        Shapes that are only for the eye are left out: placing them costs time in every physics step.
        """
        spec = self._edited_spec()
        spec.compiler.discardvisual = True
        return compile_spec(spec)

    @functools.cached_property
    def visual_model(self) -> mujoco.MjModel:
        """The same model with its visual shapes, for rendering: joints and sensors are laid out as in `model`."""
        return compile_spec(self._edited_spec())

    def _edited_spec(self) -> mujoco.MjSpec:
        spec = self.build_spec()
        for edit in self.changes.spec_edits:
            edit(spec)
        return spec

    @abc.abstractmethod
    def reset(self, key: Array) -> ResetState[StateT]:
        """Draw the reset state of an episode. `key` is this episode's own random key."""

    def restart(self, key: Array, state: StateT) -> ResetState[StateT]:
        """Draw the reset state that follows an episode which ended with `state`; by default like any other.

        A curriculum overrides this: its level travels in the state, and rises or falls with how the episode went. So
        it is checkpointed and differs between environments. `reset` then draws any level, so that a fresh evaluation
        covers all of them.
        """
        del state
        return self.reset(key)

    def process_action(self, world: World, state: StateT, action: Array, key: Array) -> tuple[Array, StateT]:
        """Turn an action of `action_shape`, in [-1, 1], into a command, once per control step."""
        del world, key
        return action, state

    def apply_action(self, world: World, state: StateT, command: Array) -> tuple[Control, StateT]:
        """Turn the command into controls: rotor lag, drag, motor curves, delays, pushes.

        Runs once per PHYSICS step where `applies_every_substep`, else once per control step.
        """
        del world
        return Control(ctrl=command), state

    def post_step(self, world: World, state: StateT, action: Array, key: Array) -> StateT:
        """Bring the state up to date after the physics of a control step: air time, commands, counters.

        Runs before `rewards`, `outcome` and `observe`, which see the state it returns.
        """
        del world, action, key
        return state

    @abc.abstractmethod
    def observe(self, world: World, state: StateT, key: Array) -> Observation:
        """Named groups of named terms; noise is applied here. The group `policy` always exists."""

    @abc.abstractmethod
    def rewards(self, world: World, state: StateT, action: Array) -> Mapping[str, Array]:
        """Named, unweighted reward terms, each (); of several agents also (agents,)."""

    @abc.abstractmethod
    def outcome(self, world: World, state: StateT) -> Outcome:
        """Success and failure at this instant."""

    def metrics(self, world: World, state: StateT) -> Mapping[str, Array]:
        """Named quantities, each () or (agents,), averaged over an episode and reported beside the return.

        One that is NaN at any step is left out of what is said of that episode.
        """
        del world, state
        return {}

    def expert(self, observation: Mapping[str, Array], state: StateT) -> Array:
        """A scripted action of `action_shape` where the task has one, see `embodied.core.task.has_expert`.

        Raises:
            NotImplementedError: this task has no expert.
        """
        raise NotImplementedError(f"{self} has no scripted expert")
