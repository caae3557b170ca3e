"""Automatic domain randomisation (ADR): physics is randomised as widely as the policy copes with.

Every environment has a randomisation scale in [0, 1] of its own. At 0 the physics is nominal, at 1 it is what the task
draws, and between them it lies in between. An episode that ends in success raises the scale of the next one, another
lowers it, in such steps that the scales rest where the policy succeeds in a given share of the episodes: that success
rate is kept, and the scales are the result. Closest relatives: ADR (OpenAI, arXiv:1910.07113), which widens one range
at a time for all environments, and DORAEMON (arXiv:2311.01885), which maximises entropy under a bound on success.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.randomization import scaled
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import ResetState, StateT, World
from embodied.errors import EmbodiedError

STEP = 1.0  # of the scale: after an episode it changes by STEP times (1 for success, else 0) less the success rate


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ADRState(Generic[StateT]):
    """The state of the task within, and the randomisation scale of the episode."""

    inner: StateT
    scale: Array
    """() in [0, 1]."""
    success: Array
    """() bool, whether the task is solved at this instant."""


class AutomaticDomainRandomization(TaskWrapper[ADRState[Any]]):
    """A task whose physics differs between episodes as much as the policy copes with.

    `embodied.core.randomization.scaled` says what a scale means; the metric `adr_scale` reports it.
    """

    def __init__(self, task: Task[Any], success_rate: float = 0.8) -> None:
        """Scale what `task` draws of model fields and physical parameters so that a share of the episodes succeeds.

        Raises:
            EmbodiedError: `success_rate` is not in (0, 1).
        """
        if not 0 < success_rate < 1:
            raise EmbodiedError(f"ADR with a success rate of {success_rate}; expected a number between 0 and 1")
        super().__init__(task)
        self.success_rate = success_rate

    def inner_state(self, state: ADRState[Any]) -> Any:
        return state.inner

    def outer_state(self, inner: Any, before: ADRState[Any] | None) -> ADRState[Any]:
        if before is None:
            return ADRState(inner, jnp.zeros(()), jnp.zeros((), bool))
        return dataclasses.replace(before, inner=inner)

    def reset(self, key: Array) -> ResetState[ADRState[Any]]:
        return self._scaled(self.task.reset(key), jnp.zeros(()))

    def restart(self, key: Array, state: ADRState[Any]) -> ResetState[ADRState[Any]]:
        scale = jnp.clip(state.scale + STEP * (state.success - self.success_rate), 0.0, 1.0)
        return self._scaled(self.task.restart(key, state.inner), scale)

    def _scaled(self, drawn: ResetState[Any], scale: Array) -> ResetState[ADRState[Any]]:
        reset_state = scaled(self.model, self.terms, drawn, scale)
        return dataclasses.replace(reset_state, task_state=ADRState(reset_state.task_state, scale, jnp.zeros((), bool)))

    def post_step(self, world: World, state: ADRState[Any], action: Array, key: Array) -> ADRState[Any]:
        state = super().post_step(world, state, action, key)
        return dataclasses.replace(state, success=jnp.asarray(self.outcome(world, state).success))

    def metrics(self, world: World, state: ADRState[Any]) -> Mapping[str, Array]:
        return {**super().metrics(world, state), "adr_scale": state.scale}
