"""`Judge`: how a deployment on a stand-in went, by the task's own measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.task import Task
from embodied.core.world import World


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the task itself says."""

    success: bool
    """Solved at the end, and never failed."""
    failed: bool
    """Fell, crashed or left."""
    seconds: float
    """s that were judged."""
    metrics: Mapping[str, float]
    """Means over the control steps, in the task's units."""


class Judge:
    """Steps a task's state along with a robot that something else controls."""

    def __init__(self, task: Task[Any], command: np.ndarray, world: World) -> None:
        """Get ready for a command that stays; `world` is any, to compile with."""
        self._task, self._command = task, command
        self._key = jax.random.key(0)
        self._action = jnp.zeros(task.action_shape)
        # The tasks keep the command in the state, or have one point, see `Hover.target`.
        if hasattr(task, "target"):
            task.target = command.astype(np.float32)
        self._memory = self._commanded(jax.jit(task.reset)(self._key).task_state)
        self._judge = jax.jit(self._judged)
        jax.block_until_ready(self._judge(world, self._memory))
        self._substep, self._steps = 0, 0
        self._success = self._failed = False
        self._totals: dict[str, float] = {}

    @property
    def left(self) -> int:
        """Physics steps until the next control step is judged."""
        return self._task.timing.substeps - self._substep

    def step(self, world: World, steps: int) -> None:
        """So many physics steps, at most `left`, have led to this world; judges at every control step."""
        self._substep += steps
        if self._substep < self._task.timing.substeps:
            return
        self._substep = 0
        self._memory, outcome, metrics = self._judge(world, self._memory)
        self._memory = self._commanded(self._memory)
        self._success = bool(outcome.success)
        self._failed |= bool(outcome.failure)
        self._steps += 1
        for name, value in metrics.items():
            self._totals[name] = self._totals.get(name, 0.0) + float(value)

    def verdict(self) -> Verdict:
        """How it went so far."""
        means = {name: total / max(self._steps, 1) for name, total in self._totals.items()}
        seconds = self._steps * self._task.timing.control_dt
        return Verdict(self._success and not self._failed, self._failed, seconds, means)

    def _judged(self, world: World, state: Any) -> tuple[Any, Any, Mapping[str, Any]]:
        state = self._task.post_step(world, state, self._action, self._key)
        return state, self._task.outcome(world, state), self._task.metrics(world, state)

    def _commanded(self, state: Any) -> Any:
        """The state with our command instead of the one that the task drew."""
        if not hasattr(state, "command"):
            return state
        return dataclasses.replace(state, command=jnp.asarray(self._command, jnp.float32))
