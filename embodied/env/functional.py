"""`FunctionalEnv`: one environment of a task as pure functions of its state, for `jax.jit`, `vmap`, `scan` and `grad`.

    env = embodied.functional("swarm/hover")                        # on rigid, through which gradients go
    state, observation = env.reset(jax.random.key(0))
    state, transitions = jax.lax.scan(env.step, state, actions)     # actions (T, action_size)
    states, observations = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 1024))

Nothing restarts by itself: `restart` begins the next episode, `restart_ended` that of those environments that ended.

    states, transitions = jax.vmap(env.step)(states, actions)
    ended = transitions.terminated | transitions.truncated
    states, observations = restart_ended(env.restart, states, transitions.observation, ended)

`FusedSimulator` is this environment under `jax.vmap`, so `embodied.make` with the same engine lives through the same
episodes: its environment i is what `reset` begins with `environment_keys(seed, num_envs)[i]`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from embodied.core import episode as episodes
from embodied.core.episode import Episode, Transition
from embodied.core.task import Task
from embodied.core.world import ResetState, StateT, World
from embodied.engines.base import FusedEngine
from embodied.errors import ActionError, EmbodiedError
from embodied.storage.trees import path_name

CHUNKS = 64  # restarts are drawn num_envs / CHUNKS at a time
HALF = 2  # bytes of the smallest floating-point numbers of an action, as in `Env.step`


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
        # Traced once for all programs of an environment.
        self._start, self._world = jax.jit(engine.start), jax.jit(engine.world)
        self._step = jax.jit(engine.step, static_argnums=2)

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
        _, observation = self._reset_shapes
        return {group: array.shape for group, array in observation.items()}

    def reset(self, key: Array) -> tuple[EnvState[Any], dict[str, Array]]:
        """Begin an episode.

        Args:
            key: Random key, of `jax.random.key` or `jax.random.PRNGKey`. All later draws derive from it.

        Returns:
            State, and the first observation: group -> (size,).

        Raises:
            EmbodiedError: `key` is none, or several.
        """
        return self._first(*episodes.begin(self.task, raw_key(key)))

    def restart(self, state: EnvState[Any]) -> tuple[EnvState[Any], dict[str, Array]]:
        """Begin the episode that follows the one in `state`, with its random key; otherwise as `reset`.

        A task with a curriculum takes into account how the episode ended.

        Raises:
            EmbodiedError: `state` is none, or several.
        """
        check_state(state)
        return self._first(*episodes.begin_again(self.task, state.episode.key, state.episode.task_state))

    def step(self, state: EnvState[Any], action: Array) -> tuple[EnvState[Any], Transition]:
        """Advance by one control step.

        Args:
            state: From `reset`, `restart` or `step`.
            action: `action_shape`, clipped to [-1, 1].

        Returns:
            State after the step, and what the step brought: observation, reward, and whether the episode ended. The
            state of an ended episode can be stepped on; what it then brings means nothing.

        Raises:
            ActionError: wrong shape or type; or an array on a CPU, not traced, that is not finite.
            EmbodiedError: `state` is none of this environment's.
        """
        self._check_own(state)
        check_action(action, self.action_shape)
        action = jnp.clip(action, -1.0, 1.0)
        return self.after(self.move(state, action), action)

    def overflow(self, state: EnvState[Any]) -> Array:
        """() bool, whether contacts were ever more than the engine's buffers hold: the physics is then not sound."""
        check_state(state)
        return self.engine.overflow(state.physics)

    def world(self, state: EnvState[Any]) -> World:
        """The joints and named sensors, as the task reads them."""
        check_state(state)
        return self._world(state.physics)

    def move(self, state: EnvState[Any], action: Array) -> EnvState[Any]:
        """The first half of `step`: the clipped action's command, and the physics under it."""
        task, substeps = self.task, self.task.timing.substeps
        command, episode = episodes.before(task, self._world(state.physics), state.episode, action)

        def run(state: EnvState[Any], count: int) -> EnvState[Any]:
            control, episode = episodes.apply_action(task, self._world(state.physics), state.episode, command)
            # Without the barrier XLA's CPU compiler computes a stacked vector's parts once per element that uses them.
            return EnvState(self._step(state.physics, jax.lax.optimization_barrier(control), count), episode)

        commanded = EnvState(state.physics, episode)
        if not task.applies_every_substep:
            return run(commanded, substeps)
        return jax.lax.fori_loop(0, substeps, lambda _, state: run(state, 1), commanded)

    def after(self, state: EnvState[Any], action: Array) -> tuple[EnvState[Any], Transition]:
        """The second half of `step`: rewards, outcome and observation of the state that the physics led to."""
        transition, episode = episodes.after(self.task, self._world(state.physics), state.episode, action)
        return EnvState(state.physics, episode), transition

    @functools.cached_property
    def _reset_shapes(self) -> tuple[EnvState[Any], dict[str, Array]]:
        """What `reset` returns, with the shapes of its arrays for the arrays."""
        return jax.eval_shape(self.reset, jax.eval_shape(jax.random.PRNGKey, 0))

    @functools.cached_property
    def _state_shapes(self) -> dict[str, tuple[int, ...]]:
        """Part of a state -> shape."""
        return _shapes_of(self._reset_shapes[0])

    def _check_own(self, state: Any) -> None:
        """Refuse the state of another task or engine.

        Raises:
            EmbodiedError: it is one; names the first part that differs.
        """
        check_state(state)
        given, expected = _shapes_of(state), self._state_shapes
        if given != expected:
            name = next(name for name in (*expected, *given) if given.get(name) != expected.get(name))
            told = f"{name} {given[name]}" if name in given else f"no {name}"
            wanted = f"{expected[name]} as reset gives it" if name in expected else "a state without it"
            raise EmbodiedError(f"state is not one of {self!r}: it has {told}; expected {wanted}")

    def _first(self, start: ResetState[Any], key: Array) -> tuple[EnvState[Any], dict[str, Array]]:
        """State and first observation of a new episode."""
        physics = self._start(start)
        episode, observation = episodes.first(self.task, self._world(physics), start.task_state, key)
        return EnvState(physics, episode), observation


def raw_key(key: Any, several: bool = False) -> Array:
    """The numbers of one random key, of `jax.random.key` or `jax.random.PRNGKey`; or of several (N,).

    Raises:
        EmbodiedError: it is no key, or there are more or fewer.
    """
    raw: Any = None
    if isinstance(key, Array | np.ndarray):
        raw = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        like = jax.eval_shape(jax.random.PRNGKey, 0)
        if raw.dtype == like.dtype and raw.shape[-1:] == like.shape and raw.ndim == 1 + several:
            return raw
    told = _told(key) if raw is None else f"an array {key.shape} of {key.dtype}"
    one = "a key of jax.random, such as jax.random.PRNGKey(0); jax.vmap(env.reset) takes several"
    more = "keys of jax.random, such as jax.random.split(jax.random.PRNGKey(0), num_envs)"
    raise EmbodiedError(f"the random key is {told}; expected {more if several else one}")


def check_action(action: Any, shape: tuple[int, ...]) -> None:
    """Refuse what is no action of this shape. Of an array that JAX traces, or on a GPU, the values are not looked at.

    Raises:
        ActionError: it is none.
    """
    if not isinstance(action, Array | np.ndarray):
        raise ActionError(f"action is {_told(action)}; expected an array {shape} of JAX or numpy")
    if action.shape != shape:
        raise ActionError(f"action has shape {action.shape}; expected {shape}")
    if not jnp.issubdtype(action.dtype, jnp.floating) or action.dtype.itemsize < HALF:
        raise ActionError(f"action has dtype {action.dtype}; expected a floating-point array in [-1, 1]")
    if isinstance(action, Tracer):
        return
    # On a GPU the check would wait for the device; there a NaN shows as a diverged environment.
    here = isinstance(action, np.ndarray) or all(device.platform == "cpu" for device in action.devices())
    if here and not np.isfinite(values := np.asarray(action)).all():
        raise ActionError(f"action is not finite: {values.tolist()!s:.200}; expected [-1, 1]")


def check_state(state: Any) -> None:
    """Refuse what is no state of one environment.

    Raises:
        EmbodiedError: it is none, or several.
    """
    if not isinstance(state, EnvState) or not isinstance(state.episode, Episode):
        raise EmbodiedError(f"state is {_told(state)}; expected an EnvState, the first of what reset or step returns")
    if count := jnp.shape(state.episode.steps):
        raise EmbodiedError(f"state holds {count} environments; expected one: jax.vmap takes several")


def _told(value: Any) -> str:
    """A value in a message: large ones by their type alone."""
    return f"{value!r:.80}" if isinstance(value, int | float | complex | str | None) else f"a {type(value).__name__}"


def _shapes_of(tree: Any) -> dict[str, tuple[int, ...]]:
    """Part of a tree -> shape."""
    return {path_name(path): jnp.shape(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def restart_ended(
    restart: Callable[[EnvState[Any]], tuple[EnvState[Any], Any]],
    states: EnvState[Any],
    observations: Any,
    ended: Array,
) -> tuple[EnvState[Any], Any]:
    """Begin the next episode in those of N environments that ended, a few at a time until none is left.

    Most steps end few episodes, and drawing a reset state for every environment would cost more than some physics.
    No gradient goes backward through it: where one is wanted, `restart` everywhere and choose by `jnp.where`.

    Args:
        restart: `FunctionalEnv.restart`, of one environment.
        states: Every array with a leading axis (N,).
        observations: Those that the last step led to, as `restart` returns it, with a leading axis (N,).
        ended: (N,) bool.

    Returns:
        States and observations, in which the first of the next episode stands where one ended.
    """
    count = len(ended)
    chunk = max(1, count // CHUNKS)

    def restart_chunk(carry: Any) -> Any:
        states, observations, remaining = carry
        ids = jnp.nonzero(remaining, size=chunk, fill_value=count)[0]
        fresh, first = jax.vmap(restart)(rows_of(states, ids))
        return (
            set_rows(states, ids, fresh),
            set_rows(observations, ids, first),
            remaining.at[ids].set(False, mode="drop"),
        )

    carry = (states, observations, ended)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[2]), restart_chunk, carry)[:2]


def rows_of(tree: Any, ids: Array) -> Any:
    """The environments `ids` (k,) of a tree of batched arrays; ids past the end repeat the last one."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, ids, axis=0, mode="clip"), tree)


def set_rows(tree: Any, ids: Array, rows: Any) -> Any:
    """`tree` with `rows` in the environments `ids`; ids past the end are dropped."""
    return jax.tree.map(lambda leaf, new: leaf.at[ids].set(new, mode="drop"), tree, rows)
