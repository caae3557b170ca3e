"""Steering: commands that a person sets, and pushes, while a task runs.

    env = embodied.make("locomotion/go1-joystick-flat", 4, wrappers=[SteeredTask])
    steering = Steering(env)
    env.reset()
    steering.set_command([1.0, 0.0, 0.0])    # m/s, m/s, rad/s, see env.task.operator.ranges
    steering.push(0, body=1, force=[0, 80, 0], seconds=0.1)

The command takes the place of what the task draws wherever the task's state comes out of one of its hooks, so that
rewards, outcome and observation of a step all see the one that was set.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Generic

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import CommandRange, Operator
from embodied.core.task import TaskWrapper
from embodied.core.world import Control, ResetState, StateT, World
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.math.rotations import quat_from_rotation_vector, rotation_vector_from_quat
from embodied.storage.trees import with_leaves


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SteeredState(Generic[StateT]):
    """A task's state, and what a person does to it."""

    task_state: StateT
    steered: Array
    """() bool, whether `command` holds; otherwise what the task draws."""
    command: Array
    """(k,) numbers of `Operator.ranges`."""
    wrench: Array
    """(nbody, 6) N and N m of a push on each body at its centre of mass, world frame."""
    push_steps: Array
    """() int32 control steps for which the push still lasts."""


class SteeredTask(TaskWrapper[SteeredState[Any]]):
    """A task whose command a person may set, and whose robot a person may push, see `Steering`."""

    @functools.cached_property
    def command_ranges(self) -> tuple[CommandRange, ...]:
        """Numbers of its command; empty where a person may set none."""
        return self.operator.ranges if self.operator else ()

    def inner_state(self, state: SteeredState[Any]) -> Any:
        return state.task_state

    def outer_state(self, inner: Any, before: SteeredState[Any] | None) -> SteeredState[Any]:
        if before is None:
            zeros = jnp.zeros((len(self.command_ranges),))
            wrench = jnp.zeros((self.model.nbody, 6))
            before = SteeredState(inner, jnp.zeros((), bool), zeros, wrench, jnp.zeros((), jnp.int32))
        return dataclasses.replace(before, task_state=self.commanded(inner, before))

    def commanded(self, inner: Any, state: SteeredState[Any]) -> Any:
        """The state of the task within, with the command of `state` where it holds."""
        agents = self.team is not None
        for field in {command.field: None for command in self.command_ranges}:
            own = [(number, command) for number, command in enumerate(self.command_ranges) if command.field == field]
            inner = with_default(inner, field, [command for _, command in own])
            written = functools.partial(_written, own, state.command, agents)
            inner = with_leaves(inner, {field: lambda leaf, w=written: jnp.where(state.steered, w(leaf), leaf)})
        still = {name: None for command in self.command_ranges for name in command.derivatives}
        return with_leaves(
            inner, {name: lambda leaf: jnp.where(state.steered, jnp.zeros_like(leaf), leaf) for name in still}
        )

    def command_of(self, state: SteeredState[Any]) -> Array:
        """(k,) the command that holds in a state, a person's or the task's own."""
        return jnp.stack(
            [_read(state.task_state, command, self.team is not None) for command in self.command_ranges]
            or [jnp.zeros(())]
        )[: len(self.command_ranges)]

    def restart(self, key: Array, state: SteeredState[Any]) -> ResetState[SteeredState[Any]]:
        """As the task's own; what a person set outlasts the episode."""
        start = self.task.restart(key, state.task_state)
        return dataclasses.replace(start, task_state=self.outer_state(start.task_state, state))

    def apply_action(self, world: World, state: SteeredState[Any], command: Array) -> tuple[Control, SteeredState[Any]]:
        control, inner = self.task.apply_action(world, state.task_state, command)
        pushed = jnp.where(state.push_steps > 0, state.wrench, 0.0)
        wrench = pushed if control.wrench is None else control.wrench + pushed
        return dataclasses.replace(control, wrench=wrench), self.outer_state(inner, state)

    def post_step(self, world: World, state: SteeredState[Any], action: Array, key: Array) -> SteeredState[Any]:
        inner = self.task.post_step(world, state.task_state, action, key)
        following = dataclasses.replace(state, push_steps=jnp.maximum(state.push_steps - 1, 0))
        return self.outer_state(inner, following)


class Steering:
    """A person's control of the environments of a `SteeredTask`: all follow one command, each is pushed by itself."""

    def __init__(self, env: Env) -> None:
        """Take an environment whose task is steered.

        Raises:
            EmbodiedError: its task is none.
        """
        if not isinstance(env.task, SteeredTask):
            raise EmbodiedError(f"{env.name} is not steered; make it with wrappers=[SteeredTask]")
        self.env, self.task = env, env.task
        self.ranges = self.task.command_ranges
        self._set = jax.jit(jax.vmap(self._commanded, (0, None, None)))
        self._read = jax.jit(jax.vmap(lambda world, state: self._reading(world, state)))

    def set_command(self, command: Sequence[float] | np.ndarray | None) -> None:
        """Let every environment follow a command (k,), cut to its ranges; None: the task's own draws again.

        Raises:
            EmbodiedError: a command of another length, or not finite.
        """
        steered = command is not None
        values = np.zeros(len(self.ranges)) if command is None else np.asarray(command, float)
        if values.shape != (len(self.ranges),) or not np.isfinite(values).all():
            names = ", ".join(f"{one.name} ({one.unit})" for one in self.ranges) or "nothing: this task has no command"
            raise EmbodiedError(f"command {values.tolist()}; expected {len(self.ranges)} numbers: {names}")
        low, high = ([getattr(one, end) for one in self.ranges] for end in ("low", "high"))
        values = np.clip(values, low, high) if self.ranges else values
        self.env.task_state = self._set(self.env.task_state, jnp.asarray(steered), jnp.asarray(values, jnp.float32))

    def push(
        self,
        index: int,
        body: int,
        force: Sequence[float] | np.ndarray,
        seconds: float = 0.1,
        torque: Sequence[float] | np.ndarray = (0.0, 0.0, 0.0),
    ) -> None:
        """Push a body of environment `index`: force (3,) N and torque (3,) N m at its centre of mass, world frame.

        The push begins with the next control step and lasts for whole ones, at least one.

        Raises:
            EmbodiedError: there is no such environment, or no such body that could move.
        """
        model = self.task.model
        if not 0 <= index < self.env.num_envs:
            raise EmbodiedError(f"there is no environment {index}; expected 0 to {self.env.num_envs - 1}")
        if not 0 <= body < model.nbody or not model.body_weldid[body]:
            raise EmbodiedError(f"body {body} cannot be pushed; expected one of {', '.join(map(str, movable(model)))}")
        steps = max(1, round(seconds / self.env.control_dt))
        state = self.env.task_state
        wrench = jnp.zeros((model.nbody, 6)).at[body].set(jnp.asarray([*force, *torque], jnp.float32))
        self.env.task_state = dataclasses.replace(
            state, wrench=state.wrench.at[index].set(wrench), push_steps=state.push_steps.at[index].set(steps)
        )

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """(N, k) the commands that hold, and (N, k) what the robots do, in the same numbers; NaN where unknown."""
        command, measured = self._read(self.env.world(), self.env.task_state)
        return np.asarray(command), np.asarray(measured)

    def _commanded(self, state: SteeredState[Any], steered: Array, command: Array) -> SteeredState[Any]:
        state = dataclasses.replace(state, steered=steered, command=command)
        return dataclasses.replace(state, task_state=self.task.commanded(state.task_state, state))

    def _reading(self, world: World, state: SteeredState[Any]) -> tuple[Array, Array]:
        operator = self.task.operator or Operator()
        return self.task.command_of(state), operator.measured_command(world, state)


def movable(model: mujoco.MjModel) -> list[int]:
    """Bodies that are not fixed to the world."""
    return [body for body in range(model.nbody) if model.body_weldid[body]]


def is_rate(command: CommandRange) -> bool:
    """Whether a number is a rate, such as a speed: a joystick's deflection sets it, and letting go makes it zero."""
    return command.unit.endswith("/s")


def with_default(state: Any, field: str, commands: Sequence[CommandRange]) -> Any:
    """The state with the default of a field that is None, from the numbers of the command that are in this field."""
    if getattr(state, field.partition(".")[0], None) is not None:
        return state
    return dataclasses.replace(state, **{field: jnp.asarray([command.default for command in commands])})


def _written(numbered: Sequence[tuple[int, CommandRange]], values: Array, agents: bool, leaf: Array) -> Array:
    """A field with the command's numbers in their places; of a row for each agent, with their mean there."""
    if numbered[0][1].rotation:
        return quat_from_rotation_vector(values[jnp.array([number for number, _ in numbered])])
    for number, command in numbered:
        if agents:
            place = (..., *command.index)
            leaf = leaf.at[place].add(values[number] - jnp.mean(leaf[place]))
        else:
            leaf = leaf.at[command.index].set(values[number])
    return leaf


def _read(state: Any, command: CommandRange, agents: bool) -> Array:
    value = functools.reduce(getattr, command.field.split("."), state)
    if command.rotation:
        value = rotation_vector_from_quat(value)
    return jnp.mean(value[(..., *command.index)]) if agents else value[command.index]
