"""Sparse reward from demonstrations: five table tasks, a reward of 1 at success, few noisy demonstrations.

Success counts that has held for a fifth of a second; then the episode ends, as it does in RLBench, for which most of
these methods were published. Evaluations are of the task as it is, over its whole 500 steps. All methods see the same
observation, the same file of demonstrations, and at most as many environment steps.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from benchmarks.learners.cells import EVALUATION_SEED, Budget, Cell, Learned, environment, learned, scores
from benchmarks.learners.miniature import miniature
from embodied import cli
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import Outcome, World
from embodied.env.env import Env
from embodied.parts import Held
from policies.imitation import demonstrations
from policies.imitation.behaviour_cloning import BehaviourCloningConfig
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import relu_network
from policies.off_policy.cqn.cqn import CQNConfig
from policies.off_policy.idql.idql import IDQLConfig
from policies.off_policy.q_transformer.q_transformer import QTransformerConfig
from policies.off_policy.rlpd import RLPDConfig
from policies.off_policy.sac import SACConfig
from policies.policy import Policy
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
    """What a method learns on."""
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
    demonstrations.save(path, recording.steps, recording.source)
    return path


def shown(path: Path) -> dict[str, Any]:
    """What a result says of its demonstrations."""
    steps = len(demonstrations.load_source(path))
    return {"demonstrated_steps": steps, "demonstrations_sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}


# Of 10,000 control steps of ten environments each. Where a success ends the episode, so would the bonus on entropy.
SHARED: dict[str, Any] = {"unroll": 50, "save_buffer": False, "warm_up": 1_000, "buffer_size": 150_000,
          "bfloat16_matmul": True}  # fmt: skip
ACTOR: dict[str, Any] = {**SHARED, "critic_group": "policy"}
"""Critics read what the policy reads: demonstrations of a robot hold no more."""
SAC: dict[str, Any] = {**ACTOR, "entropy_backup": False}
COARSE_TO_FINE: dict[str, Any] = {**SHARED, "critic": relu_network(128, 128), "batch_size": 256, "critic_updates": 0.5,
                  "critic_learning_rate": 2e-4}  # fmt: skip
"""Half the published batch, and a larger learning rate for fewer updates: an update of the published size takes half a
second of a core."""
OFF_POLICY: Mapping[str, Callable[[], Any]] = {
    "sac": lambda: SACConfig(**SAC, critic_updates=2.0),
    "rlpd": lambda: RLPDConfig(**SAC, critic_updates=2.0, policy_delay=2),
    "cqn": lambda: CQNConfig(**COARSE_TO_FINE, action_sequence=1),
    "cqn-as": lambda: CQNConfig(**COARSE_TO_FINE),
    "awac": lambda: AWACConfig(**ACTOR, critic_updates=2.0, temperature=0.1, offline_updates=10_000),
    "idql": lambda: IDQLConfig(**SHARED, critic_updates=0.5, offline_updates=5_000, samples=32),
    "q-transformer": lambda: QTransformerConfig(
        **SHARED, critic_updates=0.5, offline_updates=5_000, bins=64, critic=relu_network(128, 128)
    ),
}
"""Off-policy methods and their settings."""
CLONING = BehaviourCloningConfig(updates=50.0)
CLONING_STEPS = 6_400  # environment steps that pass meanwhile, of ten environments: 32,000 updates at most


def off_policy(name: str, cell: Cell, budget: Budget) -> Learned:
    """A learner with a replay buffer and the demonstrations."""
    config = OFF_POLICY[name]()
    config = miniature(config) if budget.smoke else config
    path = demonstrated(cell, budget)
    config = dataclasses.replace(config, demonstrations=path)
    found = learned(sparse_environment(cell, budget), config, budget, cell.seed)
    return dataclasses.replace(found, notes=shown(path))


def cloning(cell: Cell, budget: Budget) -> Learned:
    """Behaviour cloning, which learns nothing from the environment."""
    path = demonstrated(cell, budget)
    config = dataclasses.replace(miniature(CLONING) if budget.smoke else CLONING, demonstrations=path)
    passing = budget if budget.smoke else dataclasses.replace(budget, steps=CLONING_STEPS)
    found = learned(sparse_environment(cell, budget), config, passing, cell.seed)
    return dataclasses.replace(found, env_steps=0, notes=shown(path))


@dataclasses.dataclass(frozen=True)
class Sparse:
    """The problem."""

    name: str = "sparse"
    tasks: tuple[str, ...] = tuple(
        f"manipulation/{task}" for task in ("drawer-open", "door-open", "push", "pick-place", "peg-insert-side")
    )
    steps: int = 100_000
    demonstrations: tuple[int, ...] = (10, 50)

    @property
    def methods(self) -> Mapping[str, Callable[[Cell, Budget], Learned]]:
        return {"bc": cloning} | {name: functools.partial(off_policy, name) for name in OFF_POLICY}

    def evaluated(self, cell: Cell, budget: Budget, policy: Policy) -> dict[str, Any]:
        env = environment(cell, budget, min(budget.episodes, 100), EVALUATION_SEED + cell.seed)
        return scores(env, policy, budget.episodes)
