"""The task of the sparse problem and its demonstrations: a reward of 1 at success, experts with an unsteady hand."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from benchmarks.learners.cells import Budget, Cell, environment
from embodied import cli
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import Outcome, World
from embodied.env.env import Env
from embodied.parts import Held
from policies.data import demonstrations
from policies.training.loading import load_policy

HOLD = 16  # control steps for which success must have held, 0.2 s
NUM_ENVS = 10  # whose episodes end together at most: 500 steps are few enough to learn between
NOISE, DURATION = 0.5, 20  # of demonstrations: largest deviation of actions in [-1, 1]; control steps, 0.25 s
DEMONSTRATION_SEED = 7_000  # starts that neither training nor evaluation has


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SparseState:
    """The state of the task within, and how long it has been solved."""

    inner: Any
    held: Held


class SparseSuccess(TaskWrapper[SparseState]):
    """A task whose reward is 1 where success has held for `HOLD` control steps; there the episode ends."""

    def inner_state(self, state: SparseState) -> Any:
        return state.inner

    def outer_state(self, inner: Any, before: SparseState | None) -> SparseState:
        return SparseState(inner, Held.zero() if before is None else before.held)

    def post_step(self, world: World, state: SparseState, action: Array, key: Array) -> SparseState:
        state = super().post_step(world, state, action, key)
        success = jnp.asarray(self.task.outcome(world, state.inner).success)
        return dataclasses.replace(state, held=state.held.after(success))

    @property
    def reward_weights(self) -> Mapping[str, float]:
        return {"solved": 1.0}

    def rewards(self, world: World, state: SparseState, action: Array) -> Mapping[str, Array]:
        del world, action
        return {"solved": (state.held.steps >= HOLD).astype(jnp.float32)}

    def outcome(self, world: World, state: SparseState) -> Outcome:
        """Both, since learners do not bootstrap beyond a failure, and no reward follows."""
        del world
        solved = state.held.steps >= HOLD
        return Outcome(success=solved, failure=solved)


def sparse(task: Task[Any]) -> Task[Any]:
    return SparseSuccess(task)


def sparse_environment(cell: Cell, budget: Budget, seed: int | None = None, num_envs: int = NUM_ENVS) -> Env:
    """Environments that a method learns on."""
    count = min(num_envs, 2) if budget.smoke else num_envs
    return environment(cell, budget, count, cell.seed if seed is None else seed, wrappers=(sparse,))


def demonstrated(cell: Cell, budget: Budget) -> Path:
    """The file of a cell's demonstrations, which all methods share; recorded where there is none."""
    count = 2 if budget.smoke else cell.demonstrations
    path = budget.work / f"{cell.task.split('/')[-1]}_demos{count}_seed{cell.seed}.safetensors"
    if path.exists():
        return path
    env = sparse_environment(cell, budget, DEMONSTRATION_SEED + cell.seed)
    actor = demonstrations.NoisyDemonstrator(load_policy("expert", env), NOISE, DURATION, cell.seed)
    cli.say(f"recording {count} demonstrations of {cell.task}")
    recording = demonstrations.record_actor(env, actor, count)
    unfinished = path.with_suffix(".unfinished")
    demonstrations.save(unfinished, recording.steps, recording.source)
    unfinished.rename(path)
    return path


def shown(path: Path) -> dict[str, Any]:
    """Notes on the demonstrations in a result."""
    steps = len(demonstrations.load_source(path))
    return {"demonstrated_steps": steps, "demonstrations_sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}
