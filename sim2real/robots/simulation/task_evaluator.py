"""`TaskEvaluator`: success and metrics of a task while a deployed policy controls its simulated robot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.task import Task
from embodied.core.world import World
from sim2real.robots.base import TaskResult


class TaskEvaluator:
    """Steps a task's state along with a robot that something else controls."""

    def __init__(self, task: Task[Any], with_command: Callable[[Any], Any], world: World, state: Any = None) -> None:
        """Compile the evaluation.

        Args:
            task: Its outcome and metrics are evaluated.
            with_command: The task's state with the operator's command instead of the one that the task drew.
            world: Any, to compile with.
            state: The task's, as the episode began; None: any.
        """
        self._task, self._with_command = task, with_command
        self._key = jax.random.key(0)
        self._action = jnp.zeros(task.action_shape)
        self.state = with_command(jax.jit(task.reset)(self._key).task_state if state is None else state)
        self._evaluate = jax.jit(self._evaluated)
        jax.block_until_ready(self._evaluate(world, self.state))
        self._substep, self._steps = 0, 0
        self._success = self._failed = False
        self._totals: dict[str, float] = {}

    @property
    def left(self) -> int:
        """Physics steps until the end of the control step."""
        return self._task.timing.substeps - self._substep

    def step(self, world: World, steps: int) -> None:
        """Evaluate the end of a control step; so many physics steps, at most `left`, have led to this world."""
        self._substep += steps
        if self._substep < self._task.timing.substeps:
            return
        self._substep = 0
        state, outcome, metrics = self._evaluate(world, self.state)
        self.state = self._with_command(state)
        self._success = bool(outcome.success)
        self._failed |= bool(outcome.failure)
        self._steps += 1
        for name, value in metrics.items():
            self._totals[name] = self._totals.get(name, 0.0) + float(np.mean(value))

    def result(self) -> TaskResult:
        means = {name: total / max(self._steps, 1) for name, total in self._totals.items() if not math.isnan(total)}
        seconds = self._steps * self._task.timing.control_dt
        return TaskResult(self._success and not self._failed, self._failed, seconds, means)

    def _evaluated(self, world: World, state: Any) -> tuple[Any, Any, Mapping[str, Any]]:
        state = self._task.post_step(world, state, self._action, self._key)
        return state, self._task.outcome(world, state), self._task.metrics(world, state)
