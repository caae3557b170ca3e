"""The learner of twin and target: what the target's takes over from the twin's, and when it succeeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from embodied.env.env import Env
from embodied.storage import checkpoints
from embodied.storage.checkpoints import flatten, unflatten
from policies.data.demonstrations import load as load_demonstrations
from policies.data.replay_buffer import combined
from policies.networks.config import relu_network
from policies.off_policy.critics import PolicyValue
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.sac import SACConfig
from policies.policy import Policy
from policies.training.loop import Trainer
from sim2real.twin import sweep


class Part(StrEnum):
    """Part of a twin that the training on the target uses."""

    SYNTHESIS = "synthesis"
    """Solved episodes of the twin, from the whole range of initial states, join the demonstrations."""
    REPLAY = "replay"
    """The end of the twin's replay buffer opens the target's."""
    WEIGHTS = "weights"
    """Policy, critics and statistics go on from the twin's."""
    MAP = "map"
    """The failure map decides where episodes begin, and where a person demonstrates on the target."""


LEARNER = SACConfig(
    critic=relu_network(128, 128),
    actor=relu_network(128, 128),
    critics=4,
    target_critics=2,
    policy_value=PolicyValue.MEAN,
    layer_norm=True,
    critic_learning_rate=5e-4,
    actor_learning_rate=5e-4,
    critic_updates=4.0,
    policy_delay=2,
    gamma=0.97,
    n_step=3,
    reward_scale=0.1,
    warm_up=2_000,
    buffer_size=200_000,
    critic_group="policy",
    initial_temperature=0.02,
    target_entropy=-6.0,
)
"""SAC with four critics and demonstrations as half of every batch (RLPD, Ball et al. 2023), for table tasks: their
rewards reach 10 a step. It reads nothing that a robot does not measure."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """Success on the target after some steps on it."""

    steps: int
    """Environment steps taken on the target, those of its demonstrations included."""
    inside: float
    """At the last step, from initial states in the demonstrated region."""
    outside: float
    """Likewise, from all others."""


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """The target for evaluations, of one episode in each environment."""

    env: Env
    within: np.ndarray
    """(N,) bool, which environments begin in the demonstrated region after a reset."""

    def measured(self, policy: Policy, steps: int) -> Measured:
        """Success at the last step, from the same initial states each time; `steps` were taken on the target."""
        solved = ~sweep(self.env, policy, falls=False)
        return Measured(steps, float(solved[self.within].mean()), float(solved[~self.within].mean()))


def learned_in_twin(
    env: Env,
    config: SACConfig,
    demonstrations: Path,
    steps: int,
    folder: Path,
    seed: int,
    on_iteration: Callable[[Trainer, dict[str, float]], None] = lambda trainer, metrics: None,
) -> None:
    """Train in the twin with the target's demonstrations, and write a checkpoint with the learner and its buffer."""
    config = dataclasses.replace(config, demonstrations=demonstrations)
    trainer = Trainer(env, config, total_steps=steps, seed=seed)
    while not trainer.done:
        on_iteration(trainer, trainer.iterate())
    described, tensors = trainer.policy.to_tensors()
    tree = {"policy": tensors, "learner": trainer.algorithm.state()}
    checkpoints.save(folder, trainer.steps, flatten(tree), {"policy": described, "task": env.name})


def learner_on_target(
    env: Env,
    config: SACConfig,
    demonstrations: list[Path],
    twin: Path | None,
    parts: frozenset[Part],
    carried: int,
    total_steps: int,
    seed: int,
) -> Trainer:
    """A trainer on the target, with what it takes over from the twin.

    Args:
        env: The target, with as many environments as the twin had.
        config: Settings of both learners.
        demonstrations: Files of them; more than one become one set.
        twin: Checkpoint that `learned_in_twin` wrote; None: there is no twin.
        parts: Of it, what is taken over.
        carried: Transitions with which the twin's buffer opens the target's, at most.
        total_steps: Environment steps to take on the target.
        seed: Of the learner.
    """
    trainer = Trainer(env, config, total_steps=total_steps, seed=seed)
    learner = cast("OffPolicyLearner", trainer.algorithm)
    if twin is not None and parts & {Part.WEIGHTS, Part.REPLAY}:
        state = unflatten(checkpoints.load(twin).tensors)["learner"]
        if Part.WEIGHTS in parts:
            learner.load_state({name: part for name, part in state.items() if name != "replay"}, explore_alike=False)
        if Part.REPLAY in parts:
            opened(learner, state["replay"]["buffer"], carried)
    read = [
        load_demonstrations(path, learner.groups.spec, learner.action_size, learner.device) for path in demonstrations
    ]
    learner.add_demonstrations(combined(read, torch.cat))  # (T, 1, ...) each, one after another
    return trainer


def opened(learner: OffPolicyLearner, stored: dict[str, Any], carried: int) -> None:
    """Let the newest `carried` transitions of another learner's buffer, by its state, open a learner's."""
    whole = dict(stored)
    rows, columns = int(whole.pop("rows")), int(whole.pop("num_envs"))
    twins = type(learner.replay.buffer)(
        rows * columns, columns, learner.groups.spec, learner.action_size, gamma=learner.config.gamma,
        n_step=learner.config.n_step, dtype=learner.config.buffer_dtype, device=learner.device,
    )  # fmt: skip
    twins.load_state(whole)
    learner.replay.open_with(twins.newest(carried // columns))


def train_on_target(
    trainer: Trainer,
    target: Evaluated,
    *,
    every: int,
    enough: float,
    already: int,
    on_measured: Callable[[Measured, dict[str, float]], None] = lambda measured, metrics: None,
) -> list[Measured]:
    """Train on the target until the policy succeeds, or to the end of its steps.

    Args:
        trainer: See `learner_on_target`.
        target: On which the policy is evaluated.
        every: Steps from one evaluation to the next; the first is before any step.
        enough: Success at the last step, both inside and outside, at which training ends.
        already: Steps that the target had taken before, in demonstrations.
        on_measured: Called after each evaluation, with the metrics of the last iteration.

    Returns:
        What was measured, in order.
    """
    curve: list[Measured] = []
    metrics: dict[str, float] = {}
    while True:
        if trainer.steps >= len(curve) * every or trainer.done:
            curve.append(target.measured(trainer.policy, already + trainer.steps))
            on_measured(curve[-1], metrics)
            if trainer.done or min(curve[-1].inside, curve[-1].outside) >= enough:
                return curve
        metrics = trainer.iterate()


def steps_to(curve: list[Measured], enough: float) -> dict[str, int | None]:
    """Steps on the target at the first evaluation with enough success: `inside`, `outside`, and in `both` at once."""
    ways: dict[str, Callable[[Measured], float]] = {
        "inside": lambda at: at.inside,
        "outside": lambda at: at.outside,
        "both": lambda at: min(at.inside, at.outside),
    }
    return {name: next((at.steps for at in curve if of(at) >= enough), None) for name, of in ways.items()}
