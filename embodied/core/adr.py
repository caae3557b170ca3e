"""Automatic domain randomisation: what an episode draws of the physics widens as the policy copes with it.

Every environment has a width in [0, 1] of its own. At 0 the physics is the model's, at 1 it is what the task draws, and
between them it lies in between. An episode that ends in success widens the next one, another narrows it, in such steps
that the widths rest where the policy succeeds in a given share of the episodes: that share is kept, and the widths are
the result. Closest relatives: ADR (OpenAI, arXiv:1910.07113), which widens one range at a time for all environments,
and DORAEMON (arXiv:2311.01885), which maximises entropy under a bound on success.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.instruction import Instruction
from embodied.core.task import Observation, Task, turned_into
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.errors import EmbodiedError

M = TypeVar("M")

STEP = 0.1  # of the width: after an episode it changes by STEP times (1 for success, else 0) less the share kept


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState(Generic[M]):
    """A task's state, and how wide its episode's draws are."""

    own: M
    """What the task itself carries along."""
    width: Array
    """() in [0, 1]."""
    success: Array
    """() bool, whether the task is solved at this instant."""


def narrowed_fields(task: Task[Any], fields: Mapping[str, Array], width: Array) -> dict[str, Array]:
    """An episode's model fields, brought back towards the model's own: all the way at width 0."""
    model = task.model
    nominal = {name: jnp.asarray(getattr(model, name), jnp.float32) for name in fields}
    return {name: nominal[name] + width * (value - nominal[name]) for name, value in fields.items()}


def widening(task: Task[M], keep: float = 0.8) -> Task[TaskState[M]]:
    """The same task, whose physics differs between episodes as much as the policy copes with.

    `Task.narrowed` says what a width means; the metric `width` reports it.

    Args:
        task: Draws model fields, or parameters that its `narrowed` knows, at every reset.
        keep: Share of episodes that shall succeed, in (0, 1).

    Raises:
        EmbodiedError: `keep` is no such share.
    """
    if not 0 < keep < 1:
        raise EmbodiedError(f"widening that keeps a share {keep} of successes; expected a number between 0 and 1")
    inner = task

    base: Any = type(task)  # a task is known by its class, so the wider one is its child

    class Widening(base):
        def reset(self, key: Array) -> ResetState[TaskState[M]]:
            return self._wide(inner.reset(key), jnp.zeros(()))

        def restart(self, key: Array, state: TaskState[M]) -> ResetState[TaskState[M]]:
            width = jnp.clip(state.width + STEP * (state.success - keep), 0.0, 1.0)
            return self._wide(inner.restart(key, state.own), width)

        def _wide(self, start: ResetState[M], width: Array) -> ResetState[TaskState[M]]:
            narrow: ResetState[Any] = inner.narrowed(start, width)
            return dataclasses.replace(narrow, task_state=TaskState(narrow.task_state, width, jnp.zeros((), bool)))

        def process_action(
            self, world: World, state: TaskState[M], action: Array, key: Array
        ) -> tuple[Array, TaskState[M]]:
            command, own = inner.process_action(world, state.own, action, key)
            return command, dataclasses.replace(state, own=own)

        def apply_action(self, world: World, state: TaskState[M], command: Array) -> tuple[Control, TaskState[M]]:
            control, own = inner.apply_action(world, state.own, command)
            return control, dataclasses.replace(state, own=own)

        def post_step(self, world: World, state: TaskState[M], action: Array, key: Array) -> TaskState[M]:
            own = inner.post_step(world, state.own, action, key)
            success = jnp.asarray(inner.outcome(world, own).success)
            return dataclasses.replace(state, own=own, success=success)

        def observe(self, world: World, state: TaskState[M], key: Array) -> Observation:
            return inner.observe(world, state.own, key)

        def rewards(self, world: World, state: TaskState[M], action: Array) -> Mapping[str, Array]:
            return inner.rewards(world, state.own, action)

        def outcome(self, world: World, state: TaskState[M]) -> Outcome:
            return inner.outcome(world, state.own)

        def metrics(self, world: World, state: TaskState[M]) -> Mapping[str, Array]:
            return {**inner.metrics(world, state.own), "width": state.width}

        def debug_markers(self, world: World, state: TaskState[M]) -> Mapping[str, Array]:
            return inner.debug_markers(world, state.own)

        def goal_visualization(self, world: World, state: TaskState[M]) -> Mapping[str, Array]:
            return inner.goal_visualization(world, state.own)

        def geom_appearance(self, state: TaskState[M]) -> Mapping[str, Array]:
            return inner.geom_appearance(state.own)

        def mocap_positions(self, state: TaskState[M]) -> Array | None:
            return inner.mocap_positions(state.own)

        def episode_instruction(self, state: TaskState[M]) -> Instruction:
            return inner.episode_instruction(state.own)

        def expert(self, observation: Mapping[str, Array], state: TaskState[M]) -> Array:
            return inner.expert(observation, state.own)

    return turned_into(task, Widening)
