"""Teams and games: results of algorithms of many agents after equal steps of the same worlds, by what the team earns.

MAPPO and IPPO share one policy among the agents, the others have one for each. Off-policy methods learn at every step
of all worlds together, so they take longer; the table shows how long. In games all sides learn together, and the first
side is then evaluated against the script of the others, who are the same for every method.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.learners.cells import (
    EVALUATION_SEED,
    Budget,
    Cell,
    Learned,
    Problem,
    environment,
    learned,
    scores,
    summarized,
)
from benchmarks.learners.miniature import miniature
from embodied.env.env import Env
from embodied.env.multi_agent import AgentsEnv, TeamEnv
from embodied.env.registry import join_content
from embodied.env.vec_env import POLICY
from embodied.evaluation.rollouts import evaluate
from policies.multi_agent.happo import HAPPOConfig
from policies.multi_agent.hasac import HASACConfig
from policies.multi_agent.matd3 import MATD3Config
from policies.multi_agent.mixers import Mixer
from policies.multi_agent.qmix import QMIXConfig
from policies.networks.config import Activation, NetworkConfig, relu_network
from policies.policy import Policy
from policies.ppo.config import PPOConfig
from policies.training.loading import load_policy
from policies.training.mixed_team import Members, MixedTeam
from policies.training.settings import default_settings

NUM_ENVS = 16  # worlds of off-policy methods
MOST_WORLDS = 64  # of on-policy methods: with hundreds, so few steps would be a handful of iterations
OFF_POLICY: dict[str, Any] = {
    "critic_updates": 2.0, "warm_up": 5_000, "save_buffer": False, "bfloat16_matmul": True, "n_step": 5,
    "actor": relu_network(128, 128), "critic": relu_network(256, 256),
}  # fmt: skip
BINNED = {name: value for name, value in OFF_POLICY.items() if name != "actor"}
NETWORKS = NetworkConfig((128, 128), Activation.TANH), NetworkConfig((128, 128), Activation.TANH, output_gain=1.0)


def happo(ppo: PPOConfig, agents: int) -> HAPPOConfig:
    """PPO's settings, with perceptrons, which need their observations normalised.

    A minibatch has as many rows as MAPPO's, of which each agent is one.
    """
    own = {field.name: getattr(ppo, field.name) for field in dataclasses.fields(PPOConfig)}
    changes = {"actor": NETWORKS[0], "critic": NETWORKS[1], "normalize_observations": True, "observation_clip": 10.0,
               "minibatches": max(1, ppo.minibatches // agents)}  # fmt: skip
    return HAPPOConfig(**(own | changes))


METHODS: Mapping[str, Callable[[PPOConfig, int], Any]] = {
    "mappo": lambda ppo, _: ppo,
    "ippo": lambda ppo, _: dataclasses.replace(
        ppo, critic_group=POLICY, critic=dataclasses.replace(ppo.critic, own=ppo.actor.own)
    ),
    "happo": happo,
    "hasac": lambda *_: HASACConfig(**OFF_POLICY),
    "matd3": lambda *_: MATD3Config(**OFF_POLICY),
    "qmix": lambda *_: QMIXConfig(**BINNED),
    "vdn": lambda *_: QMIXConfig(**BINNED, mixer=Mixer.SUM),
}
"""Method to its settings, from those of the task's PPO and the number of agents."""

OFF_POLICY_METHODS = ("hasac", "matd3", "qmix", "vdn")


def trained(name: str, cell: Cell, budget: Budget) -> Learned:
    """A method on a task of many agents; steps are those of its worlds."""
    usual = default_settings(join_content().find(cell.task), "ppo")
    shared = name in ("mappo", "ippo")
    worlds = 4 if budget.smoke else NUM_ENVS if name in OFF_POLICY_METHODS else min(usual.num_envs, MOST_WORLDS)
    env = environment(cell, budget, worlds, cell.seed, **config_of(usual.config))
    config = METHODS[name](usual.algorithm_config, env.agents or 1)
    config = miniature(config) if budget.smoke else config
    view, rows = (AgentsEnv(env), env.agents or 1) if shared else (TeamEnv(env), 1)
    found = learned(view, config, dataclasses.replace(budget, steps=rows * budget.steps), cell.seed)
    return dataclasses.replace(found, env_steps=found.env_steps // rows, notes={"agents": env.agents})


def config_of(config: Any) -> dict[str, Any]:
    """The task's config as an option, where training has one of its own."""
    return {} if config is None else {"config": config}


def evaluated(cell: Cell, budget: Budget, policy: Policy) -> dict[str, Any]:
    """Success and return, of the agents' mean."""
    return scores(environment(cell, budget, budget.episodes, EVALUATION_SEED + cell.seed), policy, budget.episodes)


def played(cell: Cell, budget: Budget, policy: Policy) -> dict[str, Any]:
    """The first side's success against the script of the others, and the game's own metrics."""
    env: Env = environment(cell, budget, budget.episodes, EVALUATION_SEED + cell.seed)
    assert env.task.team is not None
    first, *others = env.task.team.sides.values()
    rest = tuple(agent for side in others for agent in side)
    players = MixedTeam([Members(first, policy), Members(rest, load_policy("expert", env))])
    found = evaluate(env, players, budget.episodes)
    return summarized(found, budget.episodes) | {"metrics": found.summary()}


TEAMS = Problem(
    name="teams",
    tasks=("locomotion/ant-4x2", "locomotion/half-cheetah-2x3", "swarm/navigation", "grasping/leap-catch-team"),
    methods={name: functools.partial(trained, name) for name in METHODS},
    evaluated=evaluated,
    steps=300_000,
)
GAMES = dataclasses.replace(
    TEAMS,
    name="games",
    tasks=("swarm/tag",),
    methods={name: TEAMS.methods[name] for name in ("mappo", "ippo", "matd3")},
    evaluated=played,
)
"""Whose sides earn opposed rewards: only methods with a reward of each agent learn there."""
