"""Initial-state buffer: reset states that a task draws again, in proportion to their weights.

States where a policy fails (TwinRL, arXiv:2602.09023), or where a teacher has been (SnapshotRL), are stored as reset
states; training begins some of its episodes there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.episode import first_keys
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import ResetState, StateT
from embodied.errors import EmbodiedError, listing, reason
from embodied.storage import task_names
from embodied.storage.trees import path_name

WEIGHT = "weight"
"""Name of the weights in a file of reset states."""


@dataclasses.dataclass(frozen=True)
class InitialStateBuffer:
    """Reset states, and how often each is drawn."""

    reset_states: ResetState[Any]
    """Every array with a leading axis (K,)."""
    weights: np.ndarray
    """(K,) not negative; only their ratios matter."""

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, float)
        if weights.shape != (len(self),) or not len(self):
            raise EmbodiedError(
                f"{weights.shape} weights for {len(self)} reset states; expected one for each, at least one"
            )
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise EmbodiedError("weights of reset states must be finite and not negative, and one must be positive")

    def __len__(self) -> int:
        return int(np.shape(self.reset_states.qpos)[0])

    def take(self, rows: np.ndarray) -> InitialStateBuffer:
        """Some of the reset states, with their weights."""
        reset_states = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], self.reset_states)
        return InitialStateBuffer(reset_states, self.weights[rows])


def first_reset_states(task: Task[Any], seed: int, count: int) -> ResetState[Any]:
    """The reset states of environments 0 to count - 1 after `Env.reset(seed)`, with a leading axis (count,)."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(task.reset))(first_keys(seed, count)))


class InitialStates(TaskWrapper[StateT]):
    """A task that begins a share of its episodes at reset states of a buffer, the others as before."""

    def __init__(self, task: Task[StateT], buffer: InitialStateBuffer, share: float = 0.5) -> None:
        """Begin a fraction `share` in (0, 1] of the episodes in the buffer.

        Raises:
            EmbodiedError: `share` is no such fraction, or the reset states are not this task's.
        """
        if not 0 < share <= 1:
            raise EmbodiedError(f"a share {share} of initial states from the buffer; expected a fraction in (0, 1]")
        _require_same(task, buffer.reset_states)
        super().__init__(task)
        self.share = share
        self._buffered = jax.tree.map(jnp.asarray, buffer.reset_states)
        self._log_weights = jnp.log(jnp.asarray(buffer.weights, jnp.float32))

    def reset(self, key: Array) -> ResetState[StateT]:
        key, fresh = jax.random.split(key)
        return self._mixed(key, self.task.reset(fresh))

    def restart(self, key: Array, state: StateT) -> ResetState[StateT]:
        key, fresh = jax.random.split(key)
        return self._mixed(key, self.task.restart(fresh, state))

    def _mixed(self, key: Array, own: ResetState[StateT]) -> ResetState[StateT]:
        pick, choose = jax.random.split(key)
        row = jax.random.categorical(pick, self._log_weights)
        from_buffer = jax.random.uniform(choose) < self.share
        return jax.tree.map(lambda ours, theirs: jnp.where(from_buffer, ours[row], theirs), self._buffered, own)


def buffer_path(folder: Path, task: str) -> Path:
    """Path of a task's initial states in a folder."""
    return Path(folder) / f"{task_names.run_folder(task)}.safetensors"


def save(path: Path, buffer: InitialStateBuffer) -> None:
    """Write a buffer as safetensors: one tensor for each array, named by its place, and the weights."""
    from safetensors.numpy import save as to_bytes

    from embodied.storage.files import write_atomic

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(path), to_bytes({**_named(buffer.reset_states), WEIGHT: np.asarray(buffer.weights, np.float64)}))


def load(path: Path, task: Task[Any]) -> InitialStateBuffer:
    """Read what `save` wrote for this task.

    Raises:
        EmbodiedError: there is no such file, it is damaged, or it holds reset states of another task.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    from embodied.storage.files import read_file

    try:
        arrays = from_bytes(read_file(Path(path)))
    except (OSError, SafetensorError) as error:
        raise EmbodiedError(f"no initial states can be read from '{path}': {reason(error)}") from None
    template = _template(task)
    expected = {path_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(template)}
    if wrong := expected.symmetric_difference(arrays.keys() - {WEIGHT}):
        raise EmbodiedError(
            f"'{path}' does not hold initial states of {task.unwrapped}: {listing(sorted(wrong))} differ"
        )
    names = [path_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(template)]
    reset_states = jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in names])
    _require_same(task, reset_states)
    return InitialStateBuffer(reset_states, arrays.get(WEIGHT, np.ones(len(reset_states.qpos))))


def _template(task: Task[Any]) -> ResetState[Any]:
    """Shapes and dtypes of one reset state."""
    return jax.eval_shape(task.reset, jax.ShapeDtypeStruct((2,), np.uint32))


def _named(reset_states: ResetState[Any]) -> Mapping[str, np.ndarray]:
    leaves = jax.tree_util.tree_leaves_with_path(reset_states)
    return {path_name(where): np.ascontiguousarray(leaf) for where, leaf in leaves}


def _require_same(task: Task[Any], reset_states: ResetState[Any]) -> None:
    """Compare the structure and shapes of reset states with the task's own.

    Raises:
        EmbodiedError: they differ, or a number is not finite.
    """
    template = _template(task)
    if jax.tree.structure(template) != jax.tree.structure(reset_states):
        raise EmbodiedError(f"these reset states are not those of {task.unwrapped}: their state or model fields differ")
    leaves = jax.tree_util.tree_leaves_with_path(template)
    count = np.size(reset_states.qpos, 0) if np.ndim(reset_states.qpos) else 0
    for (where, one), many in zip(leaves, map(np.asarray, jax.tree.leaves(reset_states)), strict=True):
        if many.shape[1:] != one.shape or many.dtype != one.dtype:
            raise EmbodiedError(
                f"reset states' '{path_name(where)}' has shape {many.shape[1:]} of {many.dtype}; "
                f"{task.unwrapped} has {one.shape} of {one.dtype}"
            )
        if many.shape[:1] != (count,):
            raise EmbodiedError(f"reset states' '{path_name(where)}' has {many.shape[:1]} rows; qpos has {count}")
        if not np.isfinite(many).all():
            raise EmbodiedError(f"reset states' '{path_name(where)}' holds numbers that are not finite")
