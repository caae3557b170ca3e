"""`FusedSimulator`: task and physics in one compiled program."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core import episode as episodes
from embodied.core.episode import Episode, Transition
from embodied.core.task import Task
from embodied.core.world import ResetState, World
from embodied.engines.base import FusedEngine
from embodied.env.vectorized.base import CHUNKS, Culprit, Result, Watch, lift, placed, put, result_of, take
from embodied.env.vectorized.totals import Totals, add_totals, cleared, no_totals


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FusedState:
    """All state of a `FusedSimulator`: physics, episodes, totals."""

    physics: Any
    episode: Episode[Any]
    totals: Totals
    culprit: Culprit


class FusedSimulator:
    """Task and physics in one compiled program."""

    def __init__(self, task: Task[Any], engine: FusedEngine[Any], num_envs: int, watch: Watch | None = None) -> None:
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
        self._watch = (
            jax.jit(jax.vmap(lambda physics, episode: watch(engine.world(physics), episode))) if watch else None
        )

    def reset(self, keys: Array) -> dict[str, Array]:
        """Start every environment afresh; see `VectorizedSimulator.reset`."""
        self._state, observation = self._reset(placed(keys))
        return observation

    def step(self, action: Array) -> Result:
        """Advance every environment; see `VectorizedSimulator.step`."""
        state, transition, ended = self._step(self._state, placed(action))
        # Taken before the restart, which is given the state's state to write to.
        final_watched = self._watch(state.physics, state.episode) if self._watch else None
        # On a GPU the question would wait for the device, which costs more than a restart of nobody.
        if jax.default_backend() == "cpu" and not bool((transition.terminated | transition.truncated).any()):
            self._state = state
            return result_of(transition, transition.observation, ended, final_watched, final_watched)
        physics, episode, observation = self._renew(state.physics, state.episode, transition)
        self._state = dataclasses.replace(state, physics=physics, episode=episode)
        return result_of(transition, observation, ended, self.watched(), final_watched)

    def watched(self) -> Any:
        """What `watch` tells now; see `VectorizedSimulator.watched`."""
        return self._watch(self.tree().physics, self.tree().episode) if self._watch else None

    def take_totals(self) -> Totals:
        """The totals since the last call; see `VectorizedSimulator.take_totals`."""
        totals = self.tree().totals
        self._state = dataclasses.replace(self.tree(), totals=self._clear(totals))
        return totals

    def world(self) -> World:
        """What tasks may know now; see `VectorizedSimulator.world`."""
        assert self._state is not None
        return self._worlds(self._state.physics)

    def episode(self) -> Episode[Any]:
        """The running episodes; see `VectorizedSimulator.episode`."""
        return self.tree().episode

    def set_steps(self, steps: Array) -> None:
        """Change how old the episodes are; see `VectorizedSimulator.set_steps`."""
        state = self.tree()
        self._state = dataclasses.replace(state, episode=dataclasses.replace(state.episode, steps=placed(steps)))

    def tree(self) -> FusedState:
        """All state; see `VectorizedSimulator.tree`."""
        assert self._state is not None
        return self._state

    def load_tree(self, tree: FusedState) -> None:
        """Take back what `tree` gave."""
        self._state = tree

    def culprit(self) -> Culprit:
        """The first environment that diverged; see `VectorizedSimulator.culprit`."""
        return self.tree().culprit

    def template(self) -> Culprit:
        """The structure of a dump; see `VectorizedSimulator.template`."""
        return self.tree().culprit

    def load_culprit(self, culprit: Culprit) -> None:
        """Become that environment; see `VectorizedSimulator.load_culprit`."""
        physics, episode = placed((lift(culprit.physics), lift(culprit.episode)))
        self._state = dataclasses.replace(self.tree(), physics=physics, episode=episode)

    def _first(self, start: ResetState[Any], key: Array) -> tuple[Any, Episode[Any], dict[str, Array]]:
        """Physics, episode and first observation of one new episode."""
        physics = self.engine.start(start)
        return physics, *episodes.first(self.task, self.engine.world(physics), start.task_state, key)

    def _all_afresh(self, keys: Array) -> tuple[FusedState, dict[str, Array]]:
        physics, episode, observation = jax.vmap(lambda key: self._first(*episodes.begin(self.task, key)))(keys)
        nobody = Culprit(
            found=jnp.zeros((), bool),
            physics=take(physics, 0),
            episode=take(episode, 0),
            action=jnp.zeros(self.task.action_shape),
        )
        return FusedState(physics, episode, no_totals(episode), nobody), observation

    def _advance(self, state: FusedState, action: Array) -> tuple[FusedState, Transition, Episode[Any]]:
        """One control step of every environment, and its episodes without their state."""
        action = jnp.clip(action, -1.0, 1.0)
        physics, episode = self._move(state.physics, state.episode, action)
        transition, episode, overflow = jax.vmap(self._after_one)(physics, episode, action)
        culprit = self._find_culprit(state, action, transition.diverged)
        totals = add_totals(state.totals, transition, episode, overflow)
        return FusedState(physics, episode, totals, culprit), transition, dataclasses.replace(episode, task_state=None)

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
            control, episode = episodes.apply_action(task, engine.world(physics), episode, command)
            # Without the barrier XLA's CPU compiler computes a stacked vector's parts once per element that uses them.
            return engine.step(physics, jax.lax.optimization_barrier(control), count), episode

        def moved(count: int) -> Any:
            return jax.vmap(functools.partial(move, count=count))

        command, episode = jax.vmap(act)(physics, episode, action)
        if not task.applies_every_substep:
            return moved(substeps)(physics, episode, command)
        step = moved(1)
        return jax.lax.fori_loop(0, substeps, lambda _, carry: step(*carry, command), (physics, episode))

    def _after_one(self, physics: Any, episode: Episode[Any], action: Array) -> tuple[Transition, Episode[Any], Array]:
        """What one environment's step brought, and whether its engine overflowed."""
        transition, episode = episodes.after(self.task, self.engine.world(physics), episode, action)
        return transition, episode, self.engine.overflow(physics)

    def _restart(self, physics: Any, episode: Any, transition: Transition) -> tuple[Any, Any, Any]:
        """Restart the finished environments, `chunk` at a time until none is left."""

        def again(key: Array, state: Any) -> tuple[Any, Episode[Any], dict[str, Array]]:
            return self._first(*episodes.begin_again(self.task, key, state))

        def restart_chunk(carry: Any) -> Any:
            physics, episode, observation, remaining = carry
            ids = jnp.nonzero(remaining, size=self.chunk, fill_value=self.num_envs)[0]
            ended = jax.tree.map(
                lambda leaf: jnp.take(leaf, ids, axis=0, mode="clip"), (episode.key, episode.task_state)
            )
            fresh_physics, fresh_episode, fresh_observation = jax.vmap(again)(*ended)
            return (
                put(physics, ids, fresh_physics),
                put(episode, ids, fresh_episode),
                put(observation, ids, fresh_observation),
                remaining.at[ids].set(False, mode="drop"),
            )

        carry = (physics, episode, transition.observation, transition.terminated | transition.truncated)
        return jax.lax.while_loop(lambda carry: jnp.any(carry[3]), restart_chunk, carry)[:3]
