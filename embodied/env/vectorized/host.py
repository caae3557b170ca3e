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
from embodied.core.task import Task
from embodied.core.world import Control, ResetState, World
from embodied.engines.base import HostEngine
from embodied.env.vectorized.base import CHUNKS, Culprit, Result, Watch, lift, placed, put, result_of, take
from embodied.env.vectorized.totals import Totals, add_totals, cleared, no_totals


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HostState:
    """What a `HostSimulator` keeps in JAX; the physics lives in the engine."""

    episode: Episode[Any]
    totals: Totals


class HostSimulator:
    """The task's compiled functions around an engine that moves its own state."""

    def __init__(self, task: Task[Any], engine: HostEngine, num_envs: int, watch: Watch | None = None) -> None:
        """Prepare the compiled functions; they compile at the first call."""
        self.task, self.engine, self.num_envs = task, engine, num_envs
        self.chunk = max(1, num_envs // CHUNKS)
        self._state: HostState | None = None
        self._world: World | None = None
        self._culprit: Culprit | None = None
        self._before = jax.jit(jax.vmap(self._before_one))
        self._act = jax.jit(jax.vmap(functools.partial(episodes.before, task)))
        self._actuate = jax.jit(jax.vmap(functools.partial(episodes.apply_action, task)))
        self._after = jax.jit(self._after_all)
        self._begin = jax.jit(jax.vmap(functools.partial(episodes.begin, task)))
        self._begin_again = jax.jit(self._begin_rows_again)
        self._clear = jax.jit(cleared, keep_unused=True)
        self._first = jax.jit(jax.vmap(functools.partial(episodes.first, task)))
        self._watch = jax.jit(jax.vmap(watch)) if watch else None
        self._put = jax.jit(lambda episode, observation, ids, rows: put((episode, observation), ids, rows))

    def reset(self, keys: Array) -> dict[str, Array]:
        """Start every environment afresh; see `VectorizedSimulator.reset`."""
        everyone = np.arange(self.num_envs)
        episode, observation = self._first_episodes(everyone, *self._begin(placed(keys)))
        self._state = HostState(episode, placed(no_totals(episode)))
        self._world = self.engine.world()
        self._culprit = None
        return observation

    def step(self, action: Array) -> Result:
        """Advance every environment; see `VectorizedSimulator.step`."""
        assert self._state is not None
        assert self._world is not None
        action = jnp.clip(placed(action), -1.0, 1.0)
        before = self.engine.snapshot()
        episode = self._move(self._state.episode, action)
        overflow = jnp.asarray([self.engine.overflow()])
        world = self.engine.world()
        transition, episode, totals = self._after(world, episode, action, self._state.totals, overflow)
        diverged = np.asarray(transition.diverged)
        if self._culprit is None and diverged.any():
            self._culprit = self._culprit_at(int(diverged.argmax()), before, action)
        ended = episode
        observation = transition.observation
        watched = final_watched = self._watch(world, episode) if self._watch else None
        done = np.flatnonzero(np.asarray(transition.terminated) | np.asarray(transition.truncated))
        if len(done):
            episode, observation = self._restart(episode, observation, done)
            world = self.engine.world()
            watched = self._watch(world, episode) if self._watch else None
        self._world = world
        self._state = HostState(episode, totals)
        return result_of(transition, observation, dataclasses.replace(ended, task_state=None), watched, final_watched)

    def watched(self) -> Any:
        """What `watch` tells now; see `VectorizedSimulator.watched`."""
        return self._watch(self.world(), self.episode()) if self._watch else None

    def take_totals(self) -> Totals:
        """The totals since the last call; see `VectorizedSimulator.take_totals`."""
        assert self._state is not None
        totals = self._state.totals
        self._state = HostState(self._state.episode, self._clear(totals))
        return totals

    def world(self) -> World:
        """What tasks may know now; see `VectorizedSimulator.world`."""
        assert self._world is not None
        return self._world

    def episode(self) -> Episode[Any]:
        """The running episodes; see `VectorizedSimulator.episode`."""
        assert self._state is not None
        return self._state.episode

    def set_steps(self, steps: Array) -> None:
        """Change how old the episodes are; see `VectorizedSimulator.set_steps`."""
        assert self._state is not None
        self._state = dataclasses.replace(
            self._state, episode=dataclasses.replace(self._state.episode, steps=placed(steps))
        )

    def tree(self) -> dict[str, Any]:
        """All state; see `VectorizedSimulator.tree`."""
        return {"engine": self.engine.state(), "episodes": self._state}

    def load_tree(self, tree: Mapping[str, Any]) -> None:
        """Take back what `tree` gave."""
        self.engine.load_state(tree["engine"])
        self._state = tree["episodes"]
        self._world = self.engine.world()

    def culprit(self) -> Culprit:
        """The first environment that diverged; see `VectorizedSimulator.culprit`."""
        assert self._culprit is not None
        return self._culprit

    def template(self) -> Culprit:
        """The structure of a dump; see `VectorizedSimulator.template`."""
        return self._culprit_at(0, self.engine.snapshot(), jnp.zeros((1, *self.task.action_shape)))

    def load_culprit(self, culprit: Culprit) -> None:
        """Become that environment; see `VectorizedSimulator.load_culprit`."""
        self.engine.load_state(lift(culprit.physics))
        assert self._state is not None
        self._state = dataclasses.replace(self._state, episode=placed(lift(culprit.episode)))
        self._world = self.engine.world()

    def _culprit_at(self, index: int, before: Mapping[str, np.ndarray], action: Array) -> Culprit:
        """The culprit `index`, whose engine state was row `index` of `before`; nothing was restarted yet."""
        assert self._state is not None
        physics = {name: values[index] for name, values in {**self.engine.state(), **before}.items()}
        return Culprit(np.True_, physics, take(self._state.episode, index), action[index])

    def _before_one(self, world: World, episode: Episode[Any], action: Array) -> tuple[Control, Episode[Any]]:
        command, episode = episodes.before(self.task, world, episode, action)
        return episodes.apply_action(self.task, world, episode, command)

    def _move(self, episode: Episode[Any], action: Array) -> Episode[Any]:
        """Run the physics of one control step; returns the episodes with the state that acting left."""
        substeps = self.task.timing.substeps
        if not self.task.applies_every_substep:
            control, episode = self._before(self._world, episode, action)
            self.engine.step(as_numpy(control), substeps)
            return episode
        command, episode = self._act(self._world, episode, action)
        for substep in range(substeps):
            world = self._world if substep == 0 else self.engine.world()
            control, episode = self._actuate(world, episode, command)
            self.engine.step(as_numpy(control), 1)
        return episode

    def _after_all(
        self, world: World, episode: Episode[Any], action: Array, totals: Totals, overflow: Array
    ) -> tuple[Transition, Episode[Any], Totals]:
        transition, episode = jax.vmap(functools.partial(episodes.after, self.task))(world, episode, action)
        return transition, episode, add_totals(totals, transition, episode, overflow)

    def _restart(self, episode: Episode[Any], observation: dict[str, Array], done: np.ndarray) -> tuple[Any, Any]:
        """Restart the environments `done`, `chunk` at a time: one compiled shape serves any number."""
        for first in range(0, len(done), self.chunk):
            ids = done[first : first + self.chunk]
            padded = np.full(self.chunk, self.num_envs)
            padded[: len(ids)] = ids
            rows = self._first_episodes(ids, *self._begin_again(episode.key, episode.task_state, padded))
            episode, observation = self._put(episode, observation, padded, rows)
        return episode, observation

    def _begin_rows_again(self, keys: Array, state: Any, ids: Array) -> tuple[ResetState[Any], Array]:
        """Starts and keys of the episodes that follow in the environments `ids`; rows past the end mean nothing."""
        ended = jax.tree.map(lambda leaf: jnp.take(leaf, ids, axis=0, mode="clip"), (keys, state))
        return jax.vmap(functools.partial(episodes.begin_again, self.task))(*ended)

    def _first_episodes(
        self, ids: np.ndarray, start: ResetState[Any], keys: Array
    ) -> tuple[Episode[Any], dict[str, Array]]:
        """Begin episodes in the environments `ids`; start and keys may have more rows, which mean nothing."""
        self.engine.reset(ids, jax.tree.map(lambda leaf: np.asarray(leaf)[: len(ids)], start))
        return self._first(self.engine.world(np.resize(ids, len(keys))), start.task_state, keys)


def as_numpy(control: Control) -> Control:
    """`control` with numpy arrays, for engines outside JAX."""
    return jax.tree.map(np.asarray, control)
