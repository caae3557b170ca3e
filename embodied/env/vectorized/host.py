"""`HostSimulator`: a task's compiled functions around an engine that moves its own state."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core import episode as episodes
from embodied.core.episode import Episode, Transition
from embodied.core.task import KEPT, Task
from embodied.core.world import Control, ResetState, World
from embodied.engines.base import HostEngine
from embodied.env.functional import CHUNKS, rows_of, set_rows
from embodied.env.vectorized.base import (
    FEW,
    DivergedState,
    RenderStateFn,
    StepResult,
    add_batch_axis,
    on_cpu,
    row_of,
    step_result,
    with_rows,
)
from embodied.env.vectorized.statistics import EpisodeTotals, add_totals, zero_totals, zeros_like_totals


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HostState:
    """The JAX part of a `HostSimulator`'s state; the physics lives in the engine."""

    episode: Episode[Any]
    totals: EpisodeTotals


class HostPrograms:
    """The compiled functions of a task around any host engine, for any number of environments; they keep nothing."""

    def __init__(self, task: Task[Any]) -> None:
        """Prepare the functions; each compiles at its first call."""
        self.task = task
        self.before = jax.jit(jax.vmap(self._before_one))
        self.act = jax.jit(jax.vmap(functools.partial(episodes.before, task)))
        self.actuate = jax.jit(jax.vmap(functools.partial(episodes.apply_action, task)))
        self.after = jax.jit(self._after_all)
        self.begin = jax.jit(jax.vmap(functools.partial(episodes.begin, task)))
        self.begin_again = jax.jit(self._begin_rows_again)
        self.clear = jax.jit(zeros_like_totals, keep_unused=True)
        self.first = jax.jit(jax.vmap(functools.partial(episodes.first, task)))
        self.set_rows = jax.jit(set_rows)

    def _before_one(self, world: World, episode: Episode[Any], action: Array) -> tuple[Control, Episode[Any]]:
        command, episode = episodes.before(self.task, world, episode, action)
        return episodes.apply_action(self.task, world, episode, command)

    def _after_all(
        self, world: World, episode: Episode[Any], action: Array, totals: EpisodeTotals, overflow: Any
    ) -> tuple[Transition, Episode[Any], EpisodeTotals]:
        transition, episode = jax.vmap(functools.partial(episodes.after, self.task))(world, episode, action)
        return transition, episode, add_totals(totals, transition, episode, overflow)

    def _begin_rows_again(self, keys: Array, state: Any, ids: Array) -> tuple[ResetState[Any], Array]:
        """Starts and keys of the episodes that follow in the environments `ids`; rows past the end mean nothing."""
        ended = rows_of((keys, state), ids)
        return jax.vmap(functools.partial(episodes.begin_again, self.task))(*ended)


@functools.lru_cache(maxsize=KEPT)
def host_programs(task: Task[Any]) -> HostPrograms:
    """The functions of a task: compiled once for all simulators of it."""
    return HostPrograms(task)


class HostSimulator:
    """The task's compiled functions, on the CPU, around an engine that moves its own state."""

    def __init__(
        self, task: Task[Any], engine: HostEngine, num_envs: int, render_state_fn: RenderStateFn | None = None
    ) -> None:
        """Take the compiled functions; they compile at the first call."""
        self.task, self.engine, self.num_envs = task, engine, num_envs
        # Few restart together: that is the shape of the first reset, whose program serves.
        self.chunk = num_envs if num_envs <= FEW else max(1, num_envs // CHUNKS)
        self.programs = host_programs(task)
        self._state: HostState | None = None
        self._world: World | None = None
        self._diverged_state: DivergedState | None = None
        self._render_state_fn = jax.jit(jax.vmap(render_state_fn)) if render_state_fn else None

    def reset(self, keys: Array) -> dict[str, Array]:
        everyone = np.arange(self.num_envs)
        episode, observation = self._first_episodes(everyone, *self.programs.begin(on_cpu(keys)))
        self._state = HostState(episode, on_cpu(zero_totals(episode)))
        self._world = self.engine.world()
        self._diverged_state = None
        return observation

    def step(self, action: Array) -> StepResult:
        assert self._state is not None
        assert self._world is not None
        action = jnp.clip(on_cpu(action), -1.0, 1.0)
        before = self.engine.snapshot()
        episode = self._move(self._state.episode, action)
        overflow = np.asarray([self.engine.overflow()])
        world = self.engine.world()
        transition, episode, totals = self.programs.after(world, episode, action, self._state.totals, overflow)
        diverged = np.asarray(transition.diverged)
        if self._diverged_state is None and diverged.any():
            self._diverged_state = self._diverged_state_at(int(diverged.argmax()), before, action)
        ended = episode
        observation = transition.observation
        render_state = final_render_state = self._render_state_fn(world, episode) if self._render_state_fn else None
        done = np.flatnonzero(np.asarray(transition.terminated) | np.asarray(transition.truncated))
        if len(done):
            episode, observation = self._restart(episode, observation, done)
            world = self.engine.world()
            render_state = self._render_state_fn(world, episode) if self._render_state_fn else None
        self._world = world
        self._state = HostState(episode, totals)
        return step_result(
            transition, observation, dataclasses.replace(ended, task_state=None), render_state, final_render_state
        )

    def render_state(self) -> Any:
        return self._render_state_fn(self.world(), self.episode()) if self._render_state_fn else None

    def close(self) -> None:
        self.engine.close()
        self._state = self._world = self._diverged_state = None

    def take_totals(self) -> EpisodeTotals:
        assert self._state is not None
        totals = self._state.totals
        self._state = HostState(self._state.episode, self.programs.clear(totals))
        return totals

    def world(self) -> World:
        assert self._world is not None
        return self._world

    def episode(self) -> Episode[Any]:
        assert self._state is not None
        return self._state.episode

    def physics_state(self) -> Any:
        return self.engine.state()

    def set_episode(self, episode: Episode[Any]) -> None:
        assert self._state is not None
        self._state = dataclasses.replace(self._state, episode=on_cpu(episode))

    def state(self) -> dict[str, Any]:
        return {"engine": self.engine.state(), "episodes": self._state}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.engine.load_state(state["engine"])
        self._state = on_cpu(state["episodes"])
        self._world = self.engine.world()

    def diverged_state(self) -> DivergedState:
        assert self._diverged_state is not None
        return self._diverged_state

    def diverged_state_template(self) -> DivergedState:
        return self._diverged_state_at(0, self.engine.snapshot(), jnp.zeros((1, *self.task.action_shape)))

    def load_diverged_state(self, state: DivergedState) -> None:
        self.engine.load_state(add_batch_axis(state.physics))
        assert self._state is not None
        self._state = dataclasses.replace(self._state, episode=on_cpu(add_batch_axis(state.episode)))
        self._world = self.engine.world()

    def _diverged_state_at(self, index: int, before: Mapping[str, np.ndarray], action: Array) -> DivergedState:
        """Environment `index`, whose engine state was row `index` of `before`; nothing was restarted yet."""
        assert self._state is not None
        physics = {name: values[index] for name, values in {**self.engine.state(), **before}.items()}
        return DivergedState(np.True_, physics, row_of(self._state.episode, index), action[index])

    def _move(self, episode: Episode[Any], action: Array) -> Episode[Any]:
        """Run the physics of one control step; returns the episodes with the state that acting left."""
        substeps = self.task.timing.substeps
        if not self.task.applies_every_substep:
            control, episode = self.programs.before(self._world, episode, action)
            self.engine.step(as_numpy(control), substeps)
            return episode
        command, episode = self.programs.act(self._world, episode, action)
        for substep in range(substeps):
            world = self._world if substep == 0 else self.engine.world()
            control, episode = self.programs.actuate(world, episode, command)
            self.engine.step(as_numpy(control), 1)
        return episode

    def _restart(self, episode: Episode[Any], observation: dict[str, Array], done: np.ndarray) -> tuple[Any, Any]:
        """Restart the environments `done`, `chunk` at a time: one compiled shape serves any number."""
        for first in range(0, len(done), self.chunk):
            ids = done[first : first + self.chunk]
            padded = np.full(self.chunk, self.num_envs)
            padded[: len(ids)] = ids
            rows = self._first_episodes(ids, *self._begin_again(episode, padded))
            if self.num_envs <= FEW:  # to compile takes longer than it saves
                episode, observation = on_cpu(with_rows((episode, observation), ids, rows))
            else:
                episode, observation = self.programs.set_rows((episode, observation), padded, rows)
        return episode, observation

    def _begin_again(self, episode: Episode[Any], ids: np.ndarray) -> tuple[ResetState[Any], Array]:
        """Starts and keys of the episodes that follow in the environments `ids`; rows past the end mean nothing."""
        if not self.task.restarts_alike:
            return self.programs.begin_again(episode.key, episode.task_state, ids)
        return self.programs.begin(on_cpu(np.asarray(episode.key)[np.minimum(ids, self.num_envs - 1)]))

    def _first_episodes(
        self, ids: np.ndarray, start: ResetState[Any], keys: Array
    ) -> tuple[Episode[Any], dict[str, Array]]:
        """Begin episodes in the environments `ids`; start and keys may have more rows, which mean nothing."""
        self.engine.reset(ids, jax.tree.map(lambda leaf: np.asarray(leaf)[: len(ids)], start))
        return self.programs.first(self.engine.world(np.resize(ids, len(keys))), start.task_state, keys)


def as_numpy(control: Control) -> Control:
    """`control` with numpy arrays, for engines outside JAX."""
    return jax.tree.map(np.asarray, control)
