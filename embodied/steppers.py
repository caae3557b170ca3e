"""Steppers: N environments of a task on an engine, one control step at a time, in JAX arrays.

`FusedStepper` compiles task and physics into one program; `HostStepper` calls the task's compiled functions
around an engine that moves its own state. Both restart finished environments from freshly drawn starts, a
chunk at a time: most steps end few episodes, and drawing a start for every environment would cost more than
the physics of some.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied import episodes
from embodied.engines.base import FusedEngine, HostEngine
from embodied.episodes import Episode, Transition
from embodied.task import Task
from embodied.world import Control, World

CHUNKS = 64  # restarts are drawn num_envs / CHUNKS at a time


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums over the episodes that ended, and what went wrong. Read and cleared by `Env.statistics`."""

    episodes: Array
    length: Array
    returns: Array
    success: Array
    """Episodes that were solved at their last step."""
    success_any: Array
    """Episodes that were solved at any step."""
    failure: Array
    diverged: Array
    overflow: Array
    """() int32, environments whose engine ran out of buffer."""
    terms: dict[str, Array]
    """Per reward term, the sum over episodes of its weighted sum."""
    metrics: dict[str, Array]
    """Per metric, the sum over episodes of its mean over the episode."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Result:
    """One control step of N environments, every array with a leading axis (N,)."""

    observation: dict[str, Array]
    """The next observation; where an episode ended, the first of the next episode."""
    final_observation: dict[str, Array]
    """The observation the step led to, before any restart."""
    reward: Array
    terminated: Array
    truncated: Array
    success: Array
    diverged: Array
    ended: Episode[Any]
    """The episodes as the step left them, before any restart; `memory` is dropped."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Culprit:
    """One environment just before a step that made it diverge: enough to take that step again."""

    found: Any
    """() bool; while false, the other fields mean nothing."""
    physics: Any
    episode: Any
    action: Any


class Stepper(Protocol):
    """What `Env` drives."""

    def reset(self, seed: int) -> dict[str, Array]:
        """Start every environment afresh; returns the first observation."""
        ...

    def step(self, action: Array) -> Result:
        """Advance every environment by one control step."""
        ...

    def take_totals(self) -> Totals:
        """The totals since the last call, which clears them."""
        ...

    def world(self) -> World:
        """What tasks may know of every environment now, batched."""
        ...

    def episode(self) -> Episode[Any]:
        """The running episodes, every array with a leading axis (N,): for viewers and scripted experts."""
        ...

    def tree(self) -> Any:
        """All state as a pytree of arrays, for checkpoints."""
        ...

    def load_tree(self, tree: Any) -> None:
        """Take back what `tree` gave."""
        ...

    def culprit(self) -> Culprit:
        """The first environment that diverged, as it was before that step."""
        ...

    def template(self) -> Culprit:
        """A culprit of the first environment as it is now, for the structure of a dump."""
        ...

    def load_culprit(self, culprit: Culprit) -> None:
        """Become the environment of a culprit; needs `num_envs` 1."""
        ...


def no_totals(episode: Episode[Any]) -> Totals:
    """Totals of nothing, for the terms and metrics that `episode` counts."""
    count = lambda: jnp.zeros((), jnp.int32)  # noqa: E731  Each field has its own buffer: they are donated.
    return Totals(
        episodes=count(),
        length=count(),
        returns=jnp.zeros(()),
        success=count(),
        success_any=count(),
        failure=count(),
        diverged=count(),
        overflow=count(),
        terms={name: jnp.zeros(()) for name in episode.terms},
        metrics={name: jnp.zeros(()) for name in episode.metrics},
    )


def cleared(totals: Totals) -> Totals:
    """Zeros in place of every sum."""
    return jax.tree.map(jnp.zeros_like, totals)


def add_totals(totals: Totals, transition: Transition, episode: Episode[Any], overflow: Array) -> Totals:
    """`totals` with the episodes that `transition` ended; all arguments batched on axis 0."""
    done = transition.terminated | transition.truncated
    count = lambda mask: jnp.sum(mask, dtype=jnp.int32)  # noqa: E731
    length = jnp.maximum(episode.steps, 1)
    return Totals(
        episodes=totals.episodes + count(done),
        length=totals.length + jnp.sum(jnp.where(done, episode.steps, 0), dtype=jnp.int32),
        returns=totals.returns + jnp.sum(jnp.where(done, episode.total, 0.0)),
        success=totals.success + count(done & transition.success),
        success_any=totals.success_any + count(done & episode.success_any),
        failure=totals.failure + count(transition.terminated),
        diverged=totals.diverged + count(transition.diverged),
        overflow=totals.overflow + count(overflow),
        terms={k: v + jnp.sum(jnp.where(done, episode.terms[k], 0.0)) for k, v in totals.terms.items()},
        metrics={k: v + jnp.sum(jnp.where(done, episode.metrics[k] / length, 0.0)) for k, v in totals.metrics.items()},
    )


def result_of(transition: Transition, observation: dict[str, Array], episode: Episode[Any]) -> Result:
    """Assemble a `Result`."""
    return Result(
        observation=observation,
        final_observation=transition.observation,
        reward=transition.reward,
        terminated=transition.terminated,
        truncated=transition.truncated,
        success=transition.success,
        diverged=transition.diverged,
        ended=episode,
    )


def placed(tree: Any) -> Any:
    """The tree's arrays, committed to the default device.

    JAX compiles a program anew when an argument that was free to move comes back committed to a device, as
    everything computed from a torch tensor does. So all state is committed from the start.
    """
    return jax.device_put(tree, jnp.zeros(()).sharding)


def take(tree: Any, index: Any) -> Any:
    """One environment's row of a tree of batched arrays."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def lift(tree: Any) -> Any:
    """A batch of one from one environment's row."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)


def put(tree: Any, ids: Array, rows: Any) -> Any:
    """`tree` with `rows` in the environments `ids`; ids past the end are dropped."""
    return jax.tree.map(lambda leaf, new: leaf.at[ids].set(new, mode="drop"), tree, rows)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FusedState:
    """All state of a `FusedStepper`: physics, episodes, totals."""

    physics: Any
    episode: Episode[Any]
    totals: Totals
    culprit: Culprit


class FusedStepper:
    """Task and physics in one compiled program."""

    def __init__(self, task: Task[Any], engine: FusedEngine[Any], num_envs: int) -> None:
        """Prepare the program; it compiles at the first call."""
        self.task, self.engine, self.num_envs = task, engine, num_envs
        self.chunk = max(1, num_envs // CHUNKS)
        self._state: FusedState | None = None
        jit = functools.partial(jax.jit, compiler_options=dict(engine.compiler_options))
        self._reset = jit(self._all_afresh)
        # Two programs, not one: fused into one, XLA's CPU compiler recomputes the physics inside the restart loop
        # (measured on hover, 4,096 environments: 330 ms a step instead of 7).
        self._step = jit(self._advance, donate_argnums=0)
        self._renew = jit(self._restart, donate_argnums=(0, 1))
        self._clear = jax.jit(cleared, keep_unused=True)
        self._worlds = jax.jit(jax.vmap(engine.world))

    def reset(self, seed: int) -> dict[str, Array]:
        """Start every environment afresh; see `Stepper.reset`."""
        self._state, observation = self._reset(placed(environment_keys(seed, self.num_envs)))
        return observation

    def step(self, action: Array) -> Result:
        """Advance every environment; see `Stepper.step`."""
        state, transition, ended = self._step(self._state, placed(action))
        # On a GPU the question would wait for the device, which costs more than a restart of nobody.
        if jax.default_backend() == "cpu" and not bool((transition.terminated | transition.truncated).any()):
            self._state = state
            return result_of(transition, transition.observation, ended)
        physics, episode, observation = self._renew(state.physics, state.episode, transition)
        self._state = dataclasses.replace(state, physics=physics, episode=episode)
        return result_of(transition, observation, ended)

    def take_totals(self) -> Totals:
        """The totals since the last call; see `Stepper.take_totals`."""
        totals = self.tree().totals
        self._state = dataclasses.replace(self.tree(), totals=self._clear(totals))
        return totals

    def world(self) -> World:
        """What tasks may know now; see `Stepper.world`."""
        assert self._state is not None
        return self._worlds(self._state.physics)

    def episode(self) -> Episode[Any]:
        """The running episodes; see `Stepper.episode`."""
        return self.tree().episode

    def tree(self) -> FusedState:
        """All state; see `Stepper.tree`."""
        assert self._state is not None
        return self._state

    def load_tree(self, tree: FusedState) -> None:
        """Take back what `tree` gave."""
        self._state = tree

    def culprit(self) -> Culprit:
        """The first environment that diverged; see `Stepper.culprit`."""
        return self.tree().culprit

    def template(self) -> Culprit:
        """The structure of a dump; see `Stepper.template`."""
        return self.tree().culprit

    def load_culprit(self, culprit: Culprit) -> None:
        """Become that environment; see `Stepper.load_culprit`."""
        physics, episode = placed((lift(culprit.physics), lift(culprit.episode)))
        self._state = dataclasses.replace(self.tree(), physics=physics, episode=episode)

    def _afresh(self, keys: Array) -> tuple[Any, Episode[Any], dict[str, Array]]:
        """Physics, episode and first observation of new episodes; `keys` (k, 2)."""

        def one(key: Array) -> tuple[Any, Episode[Any], dict[str, Array]]:
            start, key = episodes.begin(self.task, key)
            physics = self.engine.start(start)
            return physics, *episodes.first(self.task, self.engine.world(physics), start.memory, key)

        return jax.vmap(one)(keys)

    def _all_afresh(self, keys: Array) -> tuple[FusedState, dict[str, Array]]:
        physics, episode, observation = self._afresh(keys)
        nobody = Culprit(
            found=jnp.zeros((), bool),
            physics=take(physics, 0),
            episode=take(episode, 0),
            action=jnp.zeros(self.task.action_size),
        )
        return FusedState(physics, episode, no_totals(episode), nobody), observation

    def _advance(self, state: FusedState, action: Array) -> tuple[FusedState, Transition, Episode[Any]]:
        """One control step of every environment, and its episodes without their memory."""
        action = jnp.clip(action, -1.0, 1.0)
        physics, episode = self._move(state.physics, state.episode, action)
        transition, episode, overflow = jax.vmap(self._after_one)(physics, episode, action)
        culprit = self._find_culprit(state, action, transition.diverged)
        totals = add_totals(state.totals, transition, episode, overflow)
        return FusedState(physics, episode, totals, culprit), transition, dataclasses.replace(episode, memory=None)

    def _find_culprit(self, state: FusedState, action: Array, diverged: Array) -> Culprit:
        """The culprit known so far, or the first of this step."""

        def found() -> Culprit:
            index = jnp.argmax(diverged)
            physics, episode = take(state.physics, index), take(state.episode, index)
            return Culprit(jnp.ones((), bool), physics, episode, action[index])

        return jax.lax.cond(jnp.any(diverged) & ~state.culprit.found, found, lambda: state.culprit)

    def _move(self, physics: Any, episode: Episode[Any], action: Array) -> tuple[Any, Episode[Any]]:
        """Act, and run the physics of one control step of every environment."""
        task, engine = self.task, self.engine
        substeps = task.timing.substeps

        def act(physics: Any, episode: Episode[Any], action: Array) -> tuple[Array, Episode[Any]]:
            return episodes.before(task, engine.world(physics), episode, action)

        def move(physics: Any, episode: Episode[Any], command: Array, count: int) -> tuple[Any, Episode[Any]]:
            control, episode = episodes.actuate(task, engine.world(physics), episode, command)
            # Without the barrier XLA's CPU compiler computes a stacked vector's parts once per element that uses them.
            return engine.step(physics, jax.lax.optimization_barrier(control), count), episode

        def moved(count: int) -> Any:
            return jax.vmap(functools.partial(move, count=count))

        command, episode = jax.vmap(act)(physics, episode, action)
        if not task.actuates_every_step:
            return moved(substeps)(physics, episode, command)
        step = moved(1)
        return jax.lax.fori_loop(0, substeps, lambda _, carry: step(*carry, command), (physics, episode))

    def _after_one(self, physics: Any, episode: Episode[Any], action: Array) -> tuple[Transition, Episode[Any], Array]:
        """What one environment's step brought, and whether its engine overflowed."""
        transition, episode = episodes.after(self.task, self.engine.world(physics), episode, action)
        return transition, episode, self.engine.overflow(physics)

    def _restart(self, physics: Any, episode: Any, transition: Transition) -> tuple[Any, Any, Any]:
        """Restart the finished environments, `chunk` at a time until none is left."""

        def restart_chunk(carry: Any) -> Any:
            physics, episode, observation, remaining = carry
            ids = jnp.nonzero(remaining, size=self.chunk, fill_value=self.num_envs)[0]
            keys = jnp.take(episode.key, ids, axis=0, mode="clip")
            fresh_physics, fresh_episode, fresh_observation = self._afresh(keys)
            return (
                put(physics, ids, fresh_physics),
                put(episode, ids, fresh_episode),
                put(observation, ids, fresh_observation),
                remaining.at[ids].set(False, mode="drop"),
            )

        carry = (physics, episode, transition.observation, transition.terminated | transition.truncated)
        return jax.lax.while_loop(lambda carry: jnp.any(carry[3]), restart_chunk, carry)[:3]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HostState:
    """What a `HostStepper` keeps in JAX; the physics lives in the engine."""

    episode: Episode[Any]
    totals: Totals


class HostStepper:
    """The task's compiled functions around an engine that moves its own state."""

    def __init__(self, task: Task[Any], engine: HostEngine, num_envs: int) -> None:
        """Prepare the compiled functions; they compile at the first call."""
        self.task, self.engine, self.num_envs = task, engine, num_envs
        self.chunk = max(1, num_envs // CHUNKS)
        self._state: HostState | None = None
        self._world: World | None = None
        self._culprit: Culprit | None = None
        self._before = jax.jit(jax.vmap(self._before_one))
        self._act = jax.jit(jax.vmap(functools.partial(episodes.before, task)))
        self._actuate = jax.jit(jax.vmap(functools.partial(episodes.actuate, task)))
        self._after = jax.jit(self._after_all)
        self._begin = jax.jit(jax.vmap(functools.partial(episodes.begin, task)))
        self._clear = jax.jit(cleared, keep_unused=True)
        self._first = jax.jit(jax.vmap(functools.partial(episodes.first, task)))
        self._put = jax.jit(lambda episode, observation, ids, rows: put((episode, observation), ids, rows))

    def reset(self, seed: int) -> dict[str, Array]:
        """Start every environment afresh; see `Stepper.reset`."""
        everyone = np.arange(self.num_envs)
        episode, observation = self._begin_episodes(everyone, placed(environment_keys(seed, self.num_envs)))
        self._state = HostState(episode, placed(no_totals(episode)))
        self._world = self.engine.world()
        self._culprit = None
        return observation

    def step(self, action: Array) -> Result:
        """Advance every environment; see `Stepper.step`."""
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
        done = np.flatnonzero(np.asarray(transition.terminated) | np.asarray(transition.truncated))
        if len(done):
            episode, observation = self._restart(episode, observation, done)
            world = self.engine.world()
        self._world = world
        self._state = HostState(episode, totals)
        return result_of(transition, observation, dataclasses.replace(ended, memory=None))

    def take_totals(self) -> Totals:
        """The totals since the last call; see `Stepper.take_totals`."""
        assert self._state is not None
        totals = self._state.totals
        self._state = HostState(self._state.episode, self._clear(totals))
        return totals

    def world(self) -> World:
        """What tasks may know now; see `Stepper.world`."""
        assert self._world is not None
        return self._world

    def episode(self) -> Episode[Any]:
        """The running episodes; see `Stepper.episode`."""
        assert self._state is not None
        return self._state.episode

    def tree(self) -> dict[str, Any]:
        """All state; see `Stepper.tree`."""
        return {"engine": self.engine.state(), "episodes": self._state}

    def load_tree(self, tree: Mapping[str, Any]) -> None:
        """Take back what `tree` gave."""
        self.engine.load_state(tree["engine"])
        self._state = tree["episodes"]
        self._world = self.engine.world()

    def culprit(self) -> Culprit:
        """The first environment that diverged; see `Stepper.culprit`."""
        assert self._culprit is not None
        return self._culprit

    def template(self) -> Culprit:
        """The structure of a dump; see `Stepper.template`."""
        return self._culprit_at(0, self.engine.snapshot(), jnp.zeros((1, self.task.action_size)))

    def load_culprit(self, culprit: Culprit) -> None:
        """Become that environment; see `Stepper.load_culprit`."""
        self.engine.load_state(lift(culprit.physics))
        self._state = dataclasses.replace(self._state, episode=placed(lift(culprit.episode)))
        self._world = self.engine.world()

    def _culprit_at(self, index: int, before: Mapping[str, np.ndarray], action: Array) -> Culprit:
        """The culprit `index`, whose engine state was row `index` of `before`; nothing was restarted yet."""
        assert self._state is not None
        physics = {name: values[index] for name, values in {**self.engine.state(), **before}.items()}
        return Culprit(np.True_, physics, take(self._state.episode, index), action[index])

    def _before_one(self, world: World, episode: Episode[Any], action: Array) -> tuple[Control, Episode[Any]]:
        command, episode = episodes.before(self.task, world, episode, action)
        return episodes.actuate(self.task, world, episode, command)

    def _move(self, episode: Episode[Any], action: Array) -> Episode[Any]:
        """Run the physics of one control step; returns the episodes with the memory that acting left."""
        substeps = self.task.timing.substeps
        if not self.task.actuates_every_step:
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
        keys = np.asarray(episode.key)
        for first in range(0, len(done), self.chunk):
            ids = done[first : first + self.chunk]
            padded = np.full(self.chunk, self.num_envs)
            padded[: len(ids)] = ids
            rows = self._begin_episodes(ids, keys[np.minimum(padded, self.num_envs - 1)])
            episode, observation = self._put(episode, observation, padded, rows)
        return episode, observation

    def _begin_episodes(self, ids: np.ndarray, keys: Any) -> tuple[Episode[Any], dict[str, Array]]:
        """Start episodes in the environments `ids`; `keys` may have more rows, whose results mean nothing."""
        start, keys = self._begin(keys)
        self.engine.reset(ids, jax.tree.map(lambda leaf: np.asarray(leaf)[: len(ids)], start))
        return self._first(self.engine.world(np.resize(ids, len(keys))), start.memory, keys)


def environment_keys(seed: int, num_envs: int) -> Array:
    """(num_envs, 2) one random key each; the key of environment i does not depend on how many there are."""
    return jax.random.split(jax.random.PRNGKey(seed), num_envs)


def as_numpy(control: Control) -> Control:
    """`control` with numpy arrays, for engines outside JAX."""
    return jax.tree.map(np.asarray, control)
