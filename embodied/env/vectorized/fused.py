"""`FusedSimulator`: task and physics in one compiled program."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.episode import Episode, Transition
from embodied.core.task import KEPT, Task
from embodied.core.world import World
from embodied.engines.base import FusedEngine
from embodied.env.functional import EnvState, FunctionalEnv, restart_ended
from embodied.env.rollout import PerceptronActor, RolloutData
from embodied.env.vec_env import POLICY
from embodied.env.vectorized.base import (
    FEW,
    DivergedState,
    RenderStateFn,
    StepResult,
    add_batch_axis,
    on_default_device,
    row_of,
    step_result,
    with_rows,
)
from embodied.env.vectorized.statistics import EpisodeTotals, add_totals, zero_totals, zeros_like_totals


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FusedState:
    """All state of a `FusedSimulator`: physics, episodes, totals."""

    physics: Any
    episode: Episode[Any]
    totals: EpisodeTotals
    diverged_state: DivergedState


class FusedPrograms:
    """The compiled programs of a task on an engine, for any number of environments; they keep nothing."""

    def __init__(self, task: Task[Any], engine: FusedEngine[Any]) -> None:
        """Prepare the programs; each compiles at its first call."""
        self.task = task
        self.one = FunctionalEnv(task, engine)
        self.reset = jax.jit(self._all_afresh)
        # Two programs, not one: fused into one, XLA's CPU compiler recomputes the physics inside the restart loop
        # (measured on hover, 4,096 environments: 330 ms a step instead of 7).
        self.step = jax.jit(self._advance, donate_argnums=0)
        self.restart = jax.jit(self._restart, donate_argnums=(0, 1))
        self.roll_out = jax.jit(self._steps, donate_argnums=0)
        self.clear = jax.jit(zeros_like_totals, keep_unused=True)
        self.worlds = jax.jit(jax.vmap(engine.world))

    def _all_afresh(self, keys: Array) -> tuple[FusedState, dict[str, Array]]:
        first, observation = jax.vmap(self.one.reset)(keys)
        physics, episode = first.physics, first.episode
        none_yet = DivergedState(
            found=jnp.zeros((), bool),
            physics=row_of(physics, 0),
            episode=row_of(episode, 0),
            action=jnp.zeros(self.task.action_shape),
        )
        return FusedState(physics, episode, zero_totals(episode), none_yet), observation

    def _advance(self, state: FusedState, action: Array) -> tuple[FusedState, Transition, Episode[Any]]:
        """One control step of every environment, and its episodes without their state."""
        action = jnp.clip(action, -1.0, 1.0)
        moved = jax.vmap(self.one.move)(EnvState(state.physics, state.episode), action)
        following, transition = jax.vmap(self.one.after)(moved, action)
        physics, episode = following.physics, following.episode
        overflow = jax.vmap(self.one.overflow)(following)
        diverged_state = self._first_diverged_state(state, action, transition.diverged)
        totals = add_totals(state.totals, transition, episode, overflow)
        return (
            FusedState(physics, episode, totals, diverged_state),
            transition,
            dataclasses.replace(episode, task_state=None),
        )

    def _steps(
        self, state: FusedState, observation: dict[str, Array], actor: PerceptronActor, noise: Array
    ) -> tuple[FusedState, dict[str, Array], RolloutData]:
        """The program of `roll_out`."""

        def step(carry: Any, noise: Array) -> tuple[Any, RolloutData]:
            state, observation = carry
            mean = actor.mean(observation[POLICY])
            action = mean + noise * jnp.exp(actor.log_std)
            state, transition, _ = self._advance(state, action)
            # Else XLA's CPU compiler recomputes the physics inside the restart loop.
            state, transition = jax.lax.optimization_barrier((state, transition))
            physics, episode, following = self._restart(state.physics, state.episode, transition)
            data = RolloutData(
                observation=observation,
                final_observation=transition.observation,
                action=action,
                mean=mean,
                reward=transition.reward,
                terminated=transition.terminated,
                truncated=transition.truncated,
            )
            return (dataclasses.replace(state, physics=physics, episode=episode), following), data

        (state, observation), data = jax.lax.scan(step, (state, observation), noise)
        return state, observation, data

    def _first_diverged_state(self, state: FusedState, action: Array, diverged: Array) -> DivergedState:
        """The diverged state known so far, or the first of this step."""

        # Looked up in every step: a branch would make a GPU's program wait for the answer.
        index = jnp.argmax(diverged)
        physics, episode = row_of(state.physics, index), row_of(state.episode, index)
        now = DivergedState(jnp.ones((), bool), physics, episode, action[index])
        first = jnp.any(diverged) & ~state.diverged_state.found
        return jax.tree.map(lambda new, old: jnp.where(first, new, old), now, state.diverged_state)

    def _restart(self, physics: Any, episode: Any, transition: Transition) -> tuple[Any, Any, Any]:
        """Restart the finished environments."""
        states, ended = EnvState(physics, episode), transition.terminated | transition.truncated
        states, observation = restart_ended(self.one.restart, states, transition.observation, ended)
        return states.physics, states.episode, observation


@functools.lru_cache(maxsize=KEPT)
def fused_programs(task: Task[Any], engine: FusedEngine[Any]) -> FusedPrograms:
    """The programs of a task on an engine: compiled once for all simulators of both."""
    return FusedPrograms(task, engine)


class FusedSimulator:
    """Task and physics in one compiled program."""

    def __init__(
        self, task: Task[Any], engine: FusedEngine[Any], num_envs: int, render_state_fn: RenderStateFn | None = None
    ) -> None:
        """Prepare the program; it compiles at the first call."""
        self.task, self.engine, self.num_envs = task, engine, num_envs
        self.programs = fused_programs(task, engine)
        self._state: FusedState | None = None
        self._restarts_by_resets = num_envs <= FEW and task.restarts_alike and jax.default_backend() == "cpu"
        self._render_state_fn = (
            jax.jit(jax.vmap(lambda physics, episode: render_state_fn(engine.world(physics), episode)))
            if render_state_fn
            else None
        )

    def reset(self, keys: Array) -> dict[str, Array]:
        self._state, observation = self.programs.reset(on_default_device(keys))
        return observation

    def step(self, action: Array) -> StepResult:
        state, transition, ended = self.programs.step(self._state, on_default_device(action))
        # Taken before the restart, which may write to the state's memory.
        final_render_state = self._render_state_fn(state.physics, state.episode) if self._render_state_fn else None
        # On a GPU this check would wait for the device, which costs more than an empty restart.
        if jax.default_backend() == "cpu" and not bool((transition.terminated | transition.truncated).any()):
            self._state = state
            return step_result(transition, transition.observation, ended, final_render_state, final_render_state)
        restart = self._restart_few if self._restarts_by_resets else self.programs.restart
        physics, episode, observation = restart(state.physics, state.episode, transition)
        self._state = dataclasses.replace(state, physics=physics, episode=episode)
        return step_result(transition, observation, ended, self.render_state(), final_render_state)

    def roll_out(
        self, observation: dict[str, Array], actor: PerceptronActor, noise: Array
    ) -> tuple[dict[str, Array], RolloutData]:
        """Act and step once for each row of standard normal `noise` (T, N, A), all in one program.

        Returns:
            The observation after the last step, and what the steps brought.
        """
        arguments = on_default_device((observation, actor, noise))
        self._state, observation, data = self.programs.roll_out(self._state, *arguments)
        return observation, data

    def render_state(self) -> Any:
        return self._render_state_fn(self.state().physics, self.state().episode) if self._render_state_fn else None

    def close(self) -> None:
        self._state = None

    def take_totals(self) -> EpisodeTotals:
        totals = self.state().totals
        self._state = dataclasses.replace(self.state(), totals=self.programs.clear(totals))
        return totals

    def world(self) -> World:
        assert self._state is not None
        return self.programs.worlds(self._state.physics)

    def episode(self) -> Episode[Any]:
        return self.state().episode

    def physics_state(self) -> Any:
        return self.state().physics

    def set_episode(self, episode: Episode[Any]) -> None:
        self._state = dataclasses.replace(self.state(), episode=on_default_device(episode))

    def state(self) -> FusedState:
        assert self._state is not None
        return self._state

    def load_state(self, state: FusedState) -> None:
        self._state = state

    def diverged_state(self) -> DivergedState:
        return self.state().diverged_state

    def diverged_state_template(self) -> DivergedState:
        return self.state().diverged_state

    def load_diverged_state(self, state: DivergedState) -> None:
        physics, episode = on_default_device(add_batch_axis((state.physics, state.episode)))
        self._state = dataclasses.replace(self.state(), physics=physics, episode=episode)

    def _restart_few(self, physics: Any, episode: Episode[Any], transition: Transition) -> tuple[Any, Any, Any]:
        """Restart the finished environments as the first reset starts them, whose program serves."""
        ended = np.flatnonzero(np.asarray(transition.terminated | transition.truncated))
        fresh, observation = self.programs.reset(episode.key)
        rows = jax.tree.map(lambda leaf: np.asarray(leaf)[ended], (fresh.physics, fresh.episode, observation))
        return on_default_device(with_rows((physics, episode, transition.observation), ended, rows))
