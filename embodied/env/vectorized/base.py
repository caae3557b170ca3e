"""Interface of the vectorised simulators, and the small pieces they share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.episode import Episode, Transition
from embodied.core.world import World
from embodied.env.vectorized.statistics import EpisodeTotals

FEW = 8  # environments whose first reset compiles sooner than a program that draws one start at a time
RenderStateFn = Callable[[World, Episode[Any]], Any]
"""A pure function of one environment: what a renderer needs to draw it (`embodied.rendering.render_state`)."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepResult:
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
    """The episodes as the step left them, before any restart; their task state is dropped."""
    render_state: Any = None
    """State for a renderer now, after any restart, like `observation`; None without a `RenderStateFn`."""
    final_render_state: Any = None
    """The same before any restart, like `final_observation`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DivergedState:
    """One environment just before a step that made it diverge: enough to take that step again."""

    found: Any
    """() bool; while false, the other fields mean nothing."""
    physics: Any
    episode: Any
    action: Any


class VectorizedSimulator(Protocol):
    """N environments of a task on an engine, stepped together: what `Env` drives."""

    def reset(self, keys: Array) -> dict[str, Array]:
        """Start every environment afresh, each with its random key (N, 2); returns the first observation.

        Keys, not a seed: environments that begin alike share theirs, and no engine knows of groups.
        """
        ...

    def step(self, action: Array) -> StepResult:
        """Advance every environment by one control step."""
        ...

    def render_state(self) -> Any:
        """Result of the simulator's `RenderStateFn` for every environment now; None without one."""
        ...

    def take_totals(self) -> EpisodeTotals:
        """The totals since the last call, which clears them."""
        ...

    def world(self) -> World:
        """The part of every environment's present state that tasks may know, batched."""
        ...

    def episode(self) -> Episode[Any]:
        """The running episodes, every array with a leading axis (N,)."""
        ...

    def physics_state(self) -> Any:
        """The engine's own state of every environment."""
        ...

    def set_episode(self, episode: Episode[Any]) -> None:
        """Let the running episodes go on as `episode`, of the same shapes."""
        ...

    def state(self) -> Any:
        """All state as a pytree of arrays, for checkpoints."""
        ...

    def load_state(self, state: Any) -> None:
        """Continue from what `state` gave."""
        ...

    def diverged_state(self) -> DivergedState:
        """The first environment that diverged, as it was before that step."""
        ...

    def diverged_state_template(self) -> DivergedState:
        """A diverged state's structure and shapes, to read a dump with; its numbers mean nothing."""
        ...

    def load_diverged_state(self, state: DivergedState) -> None:
        """Become the environment of a diverged state; needs `num_envs` 1."""
        ...

    def close(self) -> None:
        """Release the engine's worlds and all state."""
        ...


def step_result(
    transition: Transition,
    observation: dict[str, Array],
    episode: Episode[Any],
    render_state: Any = None,
    final_render_state: Any = None,
) -> StepResult:
    """A `StepResult` of the transition before restarts, and of the state after them."""
    return StepResult(
        observation=observation,
        final_observation=transition.observation,
        reward=transition.reward,
        terminated=transition.terminated,
        truncated=transition.truncated,
        success=transition.success,
        diverged=transition.diverged,
        ended=episode,
        render_state=render_state,
        final_render_state=final_render_state,
    )


def on_default_device(tree: Any) -> Any:
    """The tree's arrays, committed to the default device.

    JAX compiles a program anew when an argument that was free to move comes back committed to a device, as
    everything computed from a torch tensor does. So all state is committed from the start.
    """
    return jax.device_put(tree, default_sharding())


def on_cpu(tree: Any) -> Any:
    """The tree's arrays, committed to the CPU, and with them every program that takes them.

    A host engine reads and writes its arrays there; on a GPU, each of a task's functions would transfer data twice in
    every control step.
    """
    return jax.device_put(tree, cpu_sharding())


@functools.cache
def cpu_sharding() -> jax.sharding.Sharding:
    """Sharding of the CPU's arrays."""
    return jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])


@functools.cache
def default_sharding() -> jax.sharding.Sharding:
    """Default sharding of arrays; cached, as a query takes as long as a step of a small swarm's physics."""
    return jnp.zeros(()).sharding


def row_of(tree: Any, index: Any) -> Any:
    """One environment of a tree of batched arrays."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def add_batch_axis(tree: Any) -> Any:
    """A batch of one environment."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)


def with_rows(tree: Any, ids: np.ndarray, rows: Any) -> Any:
    """A tree of batched arrays with the first k `rows` in the environments `ids` (k,); nothing is compiled for it."""

    def put(leaf: Array, new: Array) -> np.ndarray:
        changed = np.array(leaf)
        changed[ids] = np.asarray(new)[: len(ids)]
        return changed

    return jax.tree.map(put, tree, rows)
