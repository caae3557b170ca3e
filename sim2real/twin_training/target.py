"""A stand-in for a robot: the task on an engine that is not the twin's, with hidden parameters."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.hooks import Timing
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import ResetState, World
from embodied.errors import EmbodiedError
from embodied.storage.bounds import Bound, Bounded
from sim2real.robots.simulation.mismatch import ModelMismatch

STEPS = Bound("0 control steps or more", lambda steps: steps >= 0)


@dataclasses.dataclass(frozen=True)
class HiddenParameters(Bounded):
    """Differences of a target from the model, unknown to the twin."""

    latency: Annotated[int, STEPS] = 1
    """Control steps by which actions are late."""
    motor_strength: float = 0.8
    """Factor on stiffness and damping of servos, and on the gripper's force."""
    friction: float = 1.6
    """Factor on the sliding friction of what never moves, such as the table."""
    joint_damping: float = 1.5
    """Factor on the damping of every joint, the robot's and others'."""
    mass: float = 1.2
    """Factor on the mass of every body."""

    @property
    def mismatch(self) -> ModelMismatch:
        """All but the latency."""
        names = ("motor_strength", "friction", "joint_damping", "mass")
        return ModelMismatch(**{name: getattr(self, name) for name in names})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LateState:
    """The state of the task within, and the actions that are on their way."""

    inner: Any
    actions: Array
    """(latency, A), the next one to arrive first."""


class HiddenTask(TaskWrapper[LateState]):
    """A task with hidden parameters: other physics, and actions that arrive late; before the first, all are zero."""

    def __init__(self, task: Task[Any], hidden: HiddenParameters) -> None:
        super().__init__(task)
        self.hidden = hidden

    def inner_state(self, state: LateState) -> Any:
        return state.inner

    def outer_state(self, inner: Any, before: LateState | None) -> LateState:
        if before is None:
            return LateState(inner, jnp.zeros((self.hidden.latency, self.action_size)))
        return dataclasses.replace(before, inner=inner)

    def reset(self, key: Array) -> ResetState[LateState]:
        return self._changed(super().reset(key))

    def restart(self, key: Array, state: LateState) -> ResetState[LateState]:
        return self._changed(super().restart(key, state))

    def _changed(self, drawn: ResetState[LateState]) -> ResetState[LateState]:
        fields = self.hidden.mismatch.fields(self.model)
        model = {name: jnp.asarray(values, jnp.float32) for name, values in fields.items()}
        inner = drawn.task_state.inner if isinstance(drawn.task_state, LateState) else drawn.task_state
        return dataclasses.replace(drawn, model={**model, **drawn.model}, task_state=self.outer_state(inner, None))

    def process_action(self, world: World, state: LateState, action: Array, key: Array) -> tuple[Any, LateState]:
        coming = jnp.concatenate([state.actions, action[None]])
        state = dataclasses.replace(state, actions=coming[1:])
        return super().process_action(world, state, coming[0], key)


class ShortEpisodes(TaskWrapper[Any]):
    """A task whose episodes end earlier."""

    def __init__(self, task: Task[Any], seconds: float) -> None:
        """End episodes after so many seconds.

        Raises:
            EmbodiedError: the task's own are not longer.
        """
        super().__init__(task)
        longest = task.timing.episode_seconds
        if not task.timing.control_dt <= seconds <= longest:
            raise EmbodiedError(f"episodes of {seconds:g} s; {task.unwrapped} has episodes of at most {longest:g} s")
        self.seconds = seconds

    @property
    def timing(self) -> Timing:  # type: ignore[override]
        return dataclasses.replace(self.task.timing, episode_seconds=self.seconds)
