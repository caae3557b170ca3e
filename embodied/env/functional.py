"""`FunctionalEnv`: one environment of a task as pure functions of its state, for `jax.jit`, `vmap`, `scan` and `grad`.

    env = embodied.functional("swarm/hover")                        # on rigid, through which gradients go
    state, observation = env.reset(jax.random.key(0))
    state, transitions = jax.lax.scan(env.step, state, actions)     # actions (T, action_size)
    states, observations = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 1024))

Nothing restarts by itself. Where episodes end within a compiled program, both are computed and one is chosen:

    fresh, first = env.restart(state)
    ended = transition.terminated | transition.truncated
    state = jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, state)

`FusedSimulator` is this environment under `jax.vmap`, so `embodied.make` with the same engine lives through the same
episodes: its environment i is what `reset` begins with `environment_keys(seed, num_envs)[i]`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Generic

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core import episode as episodes
from embodied.core.episode import Episode, Transition
from embodied.core.task import Task
from embodied.core.world import ResetState, StateT, World
from embodied.engines.base import FusedEngine


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EnvState(Generic[StateT]):
    """State of one environment between two control steps: a pytree of arrays."""

    physics: Any
    """The engine's own state."""
    episode: Episode[StateT]
    """The running episode: the task's state, the random key, steps, return and sums of reward terms and metrics."""


class FunctionalEnv:
    """One environment of a task on a fused engine, without state of its own. Build it with `embodied.functional`."""

    def __init__(self, task: Task[Any], engine: FusedEngine[Any]) -> None:
        self.task, self.engine = task, engine

    def __repr__(self) -> str:
        return f"FunctionalEnv({self.task!r} on {self.engine.name}: action {self.action_shape})"

    @property
    def action_shape(self) -> tuple[int, ...]:
        """(action_size,), or (agents, action_size) of a task with agents: what `step` takes."""
        return self.task.action_shape

    @property
    def control_dt(self) -> float:
        """s per step."""
        return self.task.timing.control_dt

    @property
    def max_episode_steps(self) -> int:
        """Steps until the time limit."""
        return self.task.timing.max_steps

    @property
    def observation_shapes(self) -> dict[str, tuple[int, ...]]:
        """Group -> (size,), or (agents, size) of a task with agents."""
        _, observation = jax.eval_shape(self.reset, jax.ShapeDtypeStruct((2,), jnp.uint32))
        return {group: array.shape for group, array in observation.items()}

    def reset(self, key: Array) -> tuple[EnvState[Any], dict[str, Array]]:
        """Begin an episode.

        Args:
            key: Random key, of `jax.random.key` or `jax.random.PRNGKey`. All later draws derive from it.

        Returns:
            State, and the first observation: group -> (size,).
        """
        raw = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        return self._first(*episodes.begin(self.task, raw))

    def restart(self, state: EnvState[Any]) -> tuple[EnvState[Any], dict[str, Array]]:
        """Begin the episode that follows the one in `state`, with its random key; otherwise as `reset`.

        A task with a curriculum takes into account how the episode ended.
        """
        return self._first(*episodes.begin_again(self.task, state.episode.key, state.episode.task_state))

    def step(self, state: EnvState[Any], action: Array) -> tuple[EnvState[Any], Transition]:
        """Advance by one control step.

        Args:
            state: From `reset`, `restart` or `step`.
            action: `action_shape`, clipped to [-1, 1].

        Returns:
            State after the step, and what the step brought: observation, reward, and whether the episode ended. The
            state of an ended episode can be stepped on; what it then brings means nothing.
        """
        action = jnp.clip(action, -1.0, 1.0)
        return self.after(self.move(state, action), action)

    def overflow(self, state: EnvState[Any]) -> Array:
        """() bool, whether contacts were ever more than the engine's buffers hold: the physics is then not sound."""
        return self.engine.overflow(state.physics)

    def world(self, state: EnvState[Any]) -> World:
        """The joints and named sensors, as the task reads them."""
        return self.engine.world(state.physics)

    def move(self, state: EnvState[Any], action: Array) -> EnvState[Any]:
        """The first half of `step`: the clipped action's command, and the physics under it."""
        task, engine, substeps = self.task, self.engine, self.task.timing.substeps
        command, episode = episodes.before(task, engine.world(state.physics), state.episode, action)

        def run(state: EnvState[Any], count: int) -> EnvState[Any]:
            control, episode = episodes.apply_action(task, engine.world(state.physics), state.episode, command)
            # Without the barrier XLA's CPU compiler computes a stacked vector's parts once per element that uses them.
            return EnvState(engine.step(state.physics, jax.lax.optimization_barrier(control), count), episode)

        commanded = EnvState(state.physics, episode)
        if not task.applies_every_substep:
            return run(commanded, substeps)
        return jax.lax.fori_loop(0, substeps, lambda _, state: run(state, 1), commanded)

    def after(self, state: EnvState[Any], action: Array) -> tuple[EnvState[Any], Transition]:
        """The second half of `step`: rewards, outcome and observation of the state that the physics led to."""
        transition, episode = episodes.after(self.task, self.engine.world(state.physics), state.episode, action)
        return EnvState(state.physics, episode), transition

    def _first(self, start: ResetState[Any], key: Array) -> tuple[EnvState[Any], dict[str, Array]]:
        """State and first observation of a new episode."""
        physics = self.engine.start(start)
        episode, observation = episodes.first(self.task, self.engine.world(physics), start.task_state, key)
        return EnvState(physics, episode), observation
