"""What every simulator offers, and the small pieces they share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.episode import Episode, Transition
from embodied.core.world import World
from embodied.env.vectorized.totals import Totals

Watch = Callable[[World, Episode[Any]], Any]
"""A pure function of one environment, whose result every step returns beside the observation: see `Result.watched`."""
CHUNKS = 64  # restarts are drawn num_envs / CHUNKS at a time


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
    """The episodes as the step left them, before any restart; `state` is dropped."""
    watched: Any = None
    """What the simulator's `watch` tells of the environments now; as `observation`, after any restart."""
    final_watched: Any = None
    """The same of the state the step led to; as `final_observation`, before any restart."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Culprit:
    """One environment just before a step that made it diverge: enough to take that step again."""

    found: Any
    """() bool; while false, the other fields mean nothing."""
    physics: Any
    episode: Any
    action: Any


class VectorizedSimulator(Protocol):
    """What `Env` drives."""

    def reset(self, keys: Array) -> dict[str, Array]:
        """Start every environment afresh, each with its random key (N, 2); returns the first observation."""
        ...

    def step(self, action: Array) -> Result:
        """Advance every environment by one control step."""
        ...

    def watched(self) -> Any:
        """What the simulator's `watch` tells of every environment now."""
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

    def set_steps(self, steps: Array) -> None:
        """Let the running episodes be `steps` (N,) int32 control steps old."""
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


def result_of(
    transition: Transition,
    observation: dict[str, Array],
    episode: Episode[Any],
    watched: Any = None,
    final_watched: Any = None,
) -> Result:
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
        watched=watched,
        final_watched=final_watched,
    )


def placed(tree: Any) -> Any:
    """The tree's arrays, committed to the default device.

    JAX compiles a program anew when an argument that was free to move comes back committed to a device, as
    everything computed from a torch tensor does. So all state is committed from the start.
    """
    return jax.device_put(tree, default_sharding())


@functools.cache
def default_sharding() -> jax.sharding.Sharding:
    """Where arrays lie unless told otherwise; asking JAX takes as long as a step of a small swarm's physics."""
    return jnp.zeros(()).sharding


def take(tree: Any, index: Any) -> Any:
    """One environment's row of a tree of batched arrays."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def lift(tree: Any) -> Any:
    """A batch of one from one environment's row."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)


def put(tree: Any, ids: Array, rows: Any) -> Any:
    """`tree` with `rows` in the environments `ids`; ids past the end are dropped."""
    return jax.tree.map(lambda leaf, new: leaf.at[ids].set(new, mode="drop"), tree, rows)
