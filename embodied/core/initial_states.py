"""A bank of starts: whole beginnings of episodes that a task draws again, each as often as its weight says.

Where a policy fails (TwinRL, arXiv:2602.09023), or where a teacher has been (SnapshotRL), is written down as starts;
training begins some of its episodes there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.episode import first_keys
from embodied.core.task import Task, turned_into
from embodied.core.world import ResetState
from embodied.errors import EmbodiedError, listing, reason
from embodied.storage.trees import path_name

M = TypeVar("M")

WEIGHT = "weight"
"""Name of the weights in a file of starts."""


@dataclasses.dataclass(frozen=True)
class StartBank:
    """Starts, and how often each is drawn."""

    starts: ResetState[Any]
    """Every array with a leading axis (K,)."""
    weights: np.ndarray
    """(K,) not negative; only their ratios matter."""

    def __post_init__(self) -> None:
        """Check the weights.

        Raises:
            EmbodiedError: there is none, one is negative or not finite, or all are zero.
        """
        weights = np.asarray(self.weights, float)
        if weights.shape != (len(self),) or not len(self):
            raise EmbodiedError(f"{weights.shape} weights for {len(self)} starts; expected one for each, at least one")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise EmbodiedError("weights of starts must be finite and not negative, and one must be positive")

    def __len__(self) -> int:
        return int(np.shape(self.starts.qpos)[0])

    def take(self, rows: np.ndarray) -> StartBank:
        """Some of the starts, with their weights."""
        return StartBank(jax.tree.map(lambda leaf: np.asarray(leaf)[rows], self.starts), self.weights[rows])


def first_starts(task: Task[Any], seed: int, count: int) -> ResetState[Any]:
    """The starts of environments 0 to count - 1 after `Env.reset(seed)`, with a leading axis (count,)."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(task.reset))(first_keys(seed, count)))


def with_starts(task: Task[M], bank: StartBank, share: float = 0.5) -> Task[M]:
    """The same task, a `share` of whose episodes begin at starts of the bank, the others as ever.

    Raises:
        EmbodiedError: `share` is no fraction, or the starts are not this task's.
    """
    if not 0 < share <= 1:
        raise EmbodiedError(f"a share {share} of starts from the bank; expected a fraction in (0, 1]")
    _require_same(task, bank.starts)
    starts = jax.tree.map(jnp.asarray, bank.starts)
    odds = jnp.log(jnp.asarray(bank.weights, jnp.float32))

    def mixed(key: Array, own: ResetState[M]) -> ResetState[M]:
        pick, choose = jax.random.split(key)
        row = jax.random.categorical(pick, odds)
        banked = jax.random.uniform(choose) < share
        return jax.tree.map(lambda ours, theirs: jnp.where(banked, ours[row], theirs), starts, own)

    base: Any = type(task)  # a task is known by its class, so the mixture is one

    class Banked(base):
        def reset(self, key: Array) -> ResetState[M]:
            key, fresh = jax.random.split(key)
            return mixed(key, super().reset(fresh))

        def restart(self, key: Array, state: M) -> ResetState[M]:
            key, fresh = jax.random.split(key)
            return mixed(key, super().restart(fresh, state))

    return turned_into(task, Banked)


def bank_path(folder: Path, task: str) -> Path:
    """Where a folder of starts holds those of a task."""
    return Path(folder) / f"{task}.safetensors"


def save(path: Path, bank: StartBank) -> None:
    """Write a bank as safetensors: one tensor for each array, named by its place, and the weights."""
    from safetensors.numpy import save as to_bytes

    from embodied.storage.files import write_atomic

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(path), to_bytes({**_named(bank.starts), WEIGHT: np.asarray(bank.weights, np.float64)}))


def load(path: Path, task: Task[Any]) -> StartBank:
    """Read what `save` wrote for this task.

    Raises:
        EmbodiedError: there is no such file, it is damaged, or it holds starts of another task.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    try:
        arrays = from_bytes(Path(path).read_bytes())
    except (OSError, SafetensorError) as error:
        raise EmbodiedError(f"no starts can be read from '{path}': {reason(error)}") from None
    template = _template(task)
    expected = {path_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(template)}
    if wrong := expected.symmetric_difference(arrays.keys() - {WEIGHT}):
        raise EmbodiedError(f"'{path}' does not hold starts of {type(task).__name__}: {listing(sorted(wrong))} differ")
    names = [path_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(template)]
    starts = jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in names])
    _require_same(task, starts)
    return StartBank(starts, arrays.get(WEIGHT, np.ones(len(starts.qpos))))


def _template(task: Task[Any]) -> ResetState[Any]:
    """Shapes and kinds of one start."""
    return jax.eval_shape(task.reset, jax.ShapeDtypeStruct((2,), np.uint32))


def _named(starts: ResetState[Any]) -> Mapping[str, np.ndarray]:
    leaves = jax.tree_util.tree_leaves_with_path(starts)
    return {path_name(where): np.ascontiguousarray(leaf) for where, leaf in leaves}


def _require_same(task: Task[Any], starts: ResetState[Any]) -> None:
    """Compare the starts' structure and shapes with the task's own.

    Raises:
        EmbodiedError: they differ.
    """
    template = _template(task)
    if jax.tree.structure(template) != jax.tree.structure(starts):
        raise EmbodiedError(f"these starts are not those of {type(task).__name__}: their state or model fields differ")
    for (where, one), many in zip(jax.tree_util.tree_leaves_with_path(template), jax.tree.leaves(starts), strict=True):
        if np.shape(many)[1:] != one.shape or np.asarray(many).dtype != one.dtype:
            raise EmbodiedError(
                f"start '{path_name(where)}' has shape {np.shape(many)[1:]} of {np.asarray(many).dtype}; "
                f"{type(task).__name__} has {one.shape} of {one.dtype}"
            )
