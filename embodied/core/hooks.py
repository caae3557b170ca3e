"""The contract of every task: what it declares and implements. Pure, jit-able functions of one environment."""

from __future__ import annotations

import abc
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import FACETS, Language, Operator, Pictures, Team
from embodied.core.randomization import Term, without
from embodied.core.scenes import compile_spec
from embodied.core.world import Control, Outcome, ResetState, StateT, World
from embodied.errors import EmbodiedError
from embodied.math.rewards import weigh
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
        whole = self.substeps >= 1 and self.substeps % 1 == 0
        lasts = math.isfinite(self.episode_seconds) and self.episode_seconds >= self.control_dt
        if not (whole and lasts and self.physics_dt > 0):  # of NaN, none
            raise ValueError(
                f"physics_dt={self.physics_dt} s must be positive, substeps={self.substeps} a whole number of at "
                f"least 1 and episode_seconds={self.episode_seconds} finite and at least one control step"
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let every hook of the class say where it is written if it returns or takes what it should not."""
        super().__init_subclass__(**kwargs)
        for name in RESULTS:
            hook = vars(cls).get(name)
            if hook is not None and not callable(hook):
                raise EmbodiedError(f"{cls.__name__}.{name} is {shown(hook)}; expected a method")
            if hook is not None and hasattr(hook, "__get__") and not isinstance(hook, staticmethod | classmethod):
                setattr(cls, name, _placed(cls, name, hook))

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        """Take `config`, or the defaults of `config_type`, and the changes of `embodied.core.task.Task.rebuilt`."""
        check_declared(type(self))
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


MOST_ACTIONS = 100_000  # numbers of an action; a swarm of a thousand has 4,000
DECLARED: Mapping[str, tuple[type, ...]] = {
    **{name: (kind, type(None)) for name, kind in FACETS.items()},
    "timing": (Timing,), "action_size": (int,), "engines": (tuple, list), "config_type": (type,),
    "ends_when_solved": (bool,), "applies_every_substep": (bool,), "metric_units": (Mapping,),
    "reward_weights": (Mapping,), "language": (Language, type(None)), "mirror": (Mirror, type(None)),
}  # fmt: skip
"""What a class of tasks declares -> its types, where it is no property."""


def check_declared(kind: type[TaskHooks[Any]]) -> None:
    """Check the types of what a class of tasks declares.

    Raises:
        EmbodiedError: one has another; says where the class is written.
    """
    for name, types in DECLARED.items():
        value = inspect.getattr_static(kind, name, None)
        if value is None and type(None) not in types and name not in vars(kind):
            continue  # of a class that makes it in its constructor
        if not isinstance(value, types) and not hasattr(type(value), "__get__"):
            expected = " or ".join(one.__name__ for one in types if one is not type(None))
            raise EmbodiedError(f"{place_of(kind)}{kind.__name__}.{name} is {shown(value)}; expected a {expected}")
    if not kind.engines:
        raise EmbodiedError(f"{place_of(kind)}{kind.__name__}.engines names none; expected one at least")
    size = inspect.getattr_static(kind, "action_size", 1)
    if isinstance(size, int) and not 1 <= size <= MOST_ACTIONS:
        raise EmbodiedError(
            f"{place_of(kind)}{kind.__name__}.action_size is {size}; expected a whole number from 1 to {MOST_ACTIONS}"
        )
    if not dataclasses.is_dataclass(kind.config_type):
        raise EmbodiedError(f"{place_of(kind)}{kind.__name__}.config_type is {kind.config_type}; expected a dataclass")
    try:
        kind.config_type()
    except TypeError as error:
        raise EmbodiedError(
            f"{place_of(kind)}{kind.__name__}.config_type cannot be made without arguments ({error}); expected a "
            "dataclass whose fields have defaults"
        ) from None


def shown(value: Any) -> str:
    """A value in one short line, whatever it is."""
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return f"{value.dtype} of shape {tuple(value.shape)}"
        text = " ".join(repr(value).split())
    except Exception:  # of a user's own class
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


_checked = contextvars.ContextVar("checked", default=True)


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Let hooks return what they like meanwhile, for those who say more of it."""
    token = _checked.set(False)
    try:
        yield
    finally:
        _checked.reset(token)


POLICY = "policy"
"""The observation group every environment has: what the robot senses."""
SHOWN = 80  # characters of a value


def place_of(written: Any) -> str:
    """Where a class or a function is written, `my_task.py, line 40: `; empty where that is not known."""
    try:
        code = getattr(inspect.unwrap(written), "__code__", None)
        line = inspect.getsourcelines(written)[1] if code is None else code.co_firstlineno
        file = inspect.getsourcefile(written) if code is None else code.co_filename
    except (OSError, TypeError):
        return ""
    return f"{Path(str(file)).name}, line {line}: "


def _placed(owner: type, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook whose faults say where it is written."""
    what = f"{place_of(hook)}{owner.__name__}.{name}"

    @functools.wraps(hook)
    def placed(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = hook(self, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            expected = inspect.signature(getattr(TaskHooks, name))  # it was not even entered
            raise EmbodiedError(f"{what} takes {inspect.signature(hook)}; expected {expected}") from None
        except BaseException as error:
            ctrl_c = type(error) is KeyboardInterrupt and not error.args
            if isinstance(error, Exception) or ctrl_c:
                raise
            raise EmbodiedError(f"{what} raised {type(error).__name__}: {error}") from error
        outermost = getattr(type(self), name, None) is placed  # not that of a base, whose child goes on with it
        if outermost and _checked.get() and (expected := RESULTS[name](self, result, args)):
            raise EmbodiedError(f"{what} returned {shown(result)}; expected {expected}")
        return result

    return placed


def _is_array(value: Any, *shapes: tuple[int, ...]) -> bool:
    """Whether a value is numbers that JAX computes with, of one of these shapes, or of any."""
    if not isinstance(value, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic | bool | int | float):
        return False
    kind = jnp.result_type(value)
    known = any(jnp.issubdtype(kind, one) for one in (np.bool_, np.integer, np.floating))
    return known and (not shapes or jnp.shape(value) in shapes)


def _are_arrays(tree: Any) -> bool:
    return all(_is_array(leaf) for leaf in jax.tree.leaves(tree))


def _like(state: Any, given: Any) -> str | None:
    """What is expected in place of a state that is not of the structure and shapes of the one that was given."""
    if not _are_arrays(state) or jax.tree.structure(state) != jax.tree.structure(given):
        return f"the state, a {type(given).__name__} of arrays"
    shapes, before = (list(map(jnp.shape, jax.tree.leaves(one))) for one in (state, given))
    return None if shapes == before else f"a state of the shapes {shown(jax.tree.map(jnp.shape, given))}"


def _of_reset(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    del args
    if not isinstance(result, ResetState):
        return "a ResetState"
    model, task_state = task.model, result.task_state
    for name, size in (("qpos", model.nq), ("qvel", model.nv)):
        if not _is_array(getattr(result, name), (size,)):
            return f"{name} of shape ({size},), not {shown(getattr(result, name))}"
    if not _are_arrays(task_state):
        return f"a task_state of arrays, not {shown(task_state)}"
    if not isinstance(result.model, Mapping):
        return f"model as a mapping of fields, not {shown(result.model)}"
    for name, value in result.model.items():
        if not hasattr(model, str(name)) or not _is_array(value, np.shape(getattr(model, name))):
            return f"model with fields of MjModel in their shapes, not {name}={shown(value)}"
    return None


def _of_action(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    del task
    if not isinstance(result, tuple) or len(result) != 2 or not _are_arrays(result[0]):
        return "(command, state)"
    return _like(result[1], args[1])


def _of_control(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    del task  # whose shapes `embodied.core.episode` compares
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Control):
        return "(Control, state)"
    return _like(result[1], args[1]) if _are_arrays(result[0]) else "a Control of arrays"


def _of_observe(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    del args
    if not isinstance(result, Mapping) or not all(isinstance(terms, Mapping) and terms for terms in result.values()):
        return "groups of terms, such as {'policy': {'speed': world.qvel}}"
    if POLICY not in result:
        return f"a group {POLICY!r} among its groups, which are {shown(list(result))}"
    for group, terms in result.items():
        if not isinstance(group, str):
            return f"groups with names, not {shown(group)}"
        for name, term in terms.items():
            if not isinstance(name, str) or not _is_array(term):
                return f"arrays with names, not {name!r}: {shown(term)} in {group!r}"
            if task.team is not None and jnp.shape(term)[:1] != (task.team.agents,):
                return f"a row for each of {task.team.agents} agents, not {name!r}: {shown(term)} in {group!r}"
    return None


def _of_terms(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    del args
    if not isinstance(result, Mapping):
        return "a mapping of names to numbers"
    shapes = ((),) if task.team is None else ((), (task.team.agents,))
    for name, term in result.items():
        if not isinstance(name, str) or not _is_array(term, *shapes):
            return f"numbers of shape {' or '.join(map(str, shapes))} with names, not {name!r}: {shown(term)}"
    return None


def _of_rewards(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    if expected := _of_terms(task, result, args):
        return expected
    weights = task.reward_weights
    if not isinstance(weights, Mapping) or not all(_is_array(weight, ()) for weight in weights.values()):
        return f"terms for reward_weights, which are {shown(weights)}, not a mapping of names to numbers"
    try:
        weigh(result, weights)
    except ValueError as error:
        return f"the terms that have weights: {error}"
    return None


def _of_outcome(task: Any, result: Any, args: tuple[Any, ...]) -> str | None:
    del task, args
    if not isinstance(result, Outcome):
        return "an Outcome"
    for name in ("success", "failure"):
        value = getattr(result, name)
        if not _is_array(value, ()) or not jnp.issubdtype(jnp.result_type(value), np.bool_):
            return f"{name} as one true or false, not {shown(value)}"
    return None


RESULTS: Mapping[str, Callable[[Any, Any, tuple[Any, ...]], str | None]] = {
    "build_spec": lambda task, result, args: None if isinstance(result, mujoco.MjSpec) else "a mujoco.MjSpec",
    "reset": _of_reset,
    "restart": _of_reset,
    "process_action": _of_action,
    "apply_action": _of_control,
    "post_step": lambda task, result, args: _like(result, args[1]),
    "observe": _of_observe,
    "rewards": _of_rewards,
    "outcome": _of_outcome,
    "metrics": _of_terms,
    "declared_terms": lambda task, result, args: (
        None if isinstance(result, tuple | list) and all(isinstance(one, Term) for one in result) else "a tuple of Term"
    ),
}
"""Hook -> what is expected in place of a result, from task, result and arguments; None: it is as expected."""
