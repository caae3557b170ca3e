"""Dense rewards: the classic bodies by return after a million steps, hover, Go1 and G1 by the clock.

Returns stand beside those of rl-baselines3-zoo, which are of the same reward and of four times as many updates.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.learners.cells import (
    EVALUATION_SEED,
    SCORES,
    Budget,
    Cell,
    Learned,
    Problem,
    environment,
    learned,
    scores,
)
from benchmarks.learners.miniature import miniature
from embodied.env.registry import join_content
from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.policy import Policy
from policies.training.settings import default_settings

REFERENCES: Mapping[str, Mapping[str, float]] = {
    "locomotion/half-cheetah": {"sac": 9535.0, "td3": 9656.0},
    "locomotion/ant": {"sac": 4616.0, "td3": 5813.0},
}
"""Mean returns of rl-baselines3-zoo after a million steps."""
CLOCK: Mapping[str, float] = {
    "swarm/hover": 20.0,
    "locomotion/go1-joystick-flat": 300.0,
    "locomotion/g1-joystick-flat": 1200.0,
}
"""Tasks that are learned against the clock -> s."""
TRIAL_EPISODES = 64
TRIAL_SEED = 2_000_003  # starts that neither training nor evaluation has seen
NUM_ENVS = 16  # of a million steps
UPDATES_PER_STEP = 0.25  # of an environment; the zoo has 1, which would take a core without AVX-512 five hours
WIDE = NetworkConfig((400, 300), Activation.RELU)  # as TD3's authors have them
AFFORDED: dict[str, Any] = {
    "critic_updates": NUM_ENVS * UPDATES_PER_STEP, "batch_size": 100, "warm_up": 10_000, "save_buffer": False,
    "actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3, "critic_group": "policy", "bfloat16_matmul": True,
}  # fmt: skip
"""Batches and step sizes are TD3's authors' (Fujimoto et al. 2018, table 3), of SAC too."""
MILLION: Mapping[str, Callable[[], Any]] = {
    "sac": lambda: SACConfig(**AFFORDED, temperature_learning_rate=1e-3),
    "td3": lambda: TD3Config(**AFFORDED, actor=WIDE, critic=WIDE),
}
"""Off-policy methods at a million steps; PPO has each task's own settings."""
SMALL = NetworkConfig((64, 64), Activation.RELU), NetworkConfig((128, 128), Activation.RELU)
QUICK: dict[str, Any] = {"actor": SMALL[0], "critic": SMALL[1], "gamma": 0.98, "n_step": 3, "tau": 0.01,
         "actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3, "save_buffer": False}  # fmt: skip
AGAINST_THE_CLOCK: Mapping[str, Callable[[], Any]] = {
    "sac": lambda: SACConfig(**QUICK, temperature_learning_rate=1e-3, initial_temperature=0.05),
    "td3": lambda: TD3Config(**QUICK, noise=0.2),
}  # fmt: skip
"""Settings that two cores can afford; PPO has each task's own, and stops where its schedule does."""


def trained(name: str, cell: Cell, budget: Budget) -> Learned:
    """A method on a task whose reward measures progress at every step."""
    usual = default_settings(join_content().find(cell.task), "ppo")
    config, num_envs = usual.algorithm_config, usual.num_envs
    if name == "ppo":  # whose learning rate goes down with the steps that are left
        budget = dataclasses.replace(budget, steps=min(budget.steps, usual.steps))
    else:
        config = (AGAINST_THE_CLOCK if cell.task in CLOCK else MILLION)[name]()
        num_envs = 64 if cell.task in CLOCK else NUM_ENVS
    if budget.smoke:
        config, num_envs = miniature(config), 4
    options = {} if usual.config is None else {"config": usual.config}
    env = environment(cell, budget, num_envs, cell.seed, **options)
    return learned(env, config, budget, cell.seed, tried(cell, budget) if cell.task in CLOCK else None)


def tried(cell: Cell, budget: Budget) -> Callable[[Policy], dict[str, float]]:
    """A trial of a policy in between: scores over a few episodes of the task as it is, without their intervals."""
    episodes = min(TRIAL_EPISODES, budget.episodes)
    env = environment(cell, budget, episodes, TRIAL_SEED + cell.seed)

    def trial(policy: Policy) -> dict[str, float]:
        found = scores(env, policy, episodes)
        return {name: found[name] for name in SCORES if name in found}

    return trial


def evaluated(cell: Cell, budget: Budget, policy: Policy) -> dict[str, Any]:
    """Success and return, beside the zoo's return where it has one."""
    env = environment(cell, budget, budget.episodes, EVALUATION_SEED + cell.seed)
    found: dict[str, Any] = scores(env, policy, budget.episodes)
    if (reference := REFERENCES.get(cell.task, {}).get(cell.method)) is not None:
        found["reference_return"] = reference
    return found


DENSE = Problem(
    name="dense",
    tasks=(*REFERENCES, *CLOCK),
    methods={name: functools.partial(trained, name) for name in ("ppo", *MILLION)},
    evaluated=evaluated,
    steps=1_000_000,
    clock=CLOCK,
)
