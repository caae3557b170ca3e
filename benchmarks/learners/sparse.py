"""Sparse reward from demonstrations: five table tasks, a reward of 1 at success, few noisy demonstrations.

Success counts that has held for a fifth of a second; then the episode ends, as it does in RLBench, for which most of
these methods were published. Evaluations are of the task as it is, over its whole 500 steps. All methods see the same
observation, the same file of demonstrations, and at most as many environment steps.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.learners.cells import EVALUATION_SEED, Budget, Cell, Learned, Problem, environment, learned, scores
from benchmarks.learners.miniature import miniature
from benchmarks.learners.sparse_task import demonstrated, shown, sparse_environment
from policies.data import demonstrations
from policies.imitation.behaviour_cloning import BehaviourCloningConfig
from policies.imitation.dagger_config import DaggerConfig
from policies.imitation.supervision import SupervisedActor
from policies.imitation.warm_start import imitate
from policies.networks.config import relu_network
from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import OffPolicyConfig
from policies.off_policy.idql import IDQLConfig
from policies.off_policy.rlpd import RLPDConfig
from policies.off_policy.sac import SACConfig
from policies.policy import Policy
from policies.ppo.config import PPOConfig
from policies.training.loading import load_policy

SHARED: dict[str, Any] = {"unroll": 50, "save_buffer": False, "warm_up": 1_000, "buffer_size": 150_000,
          "bfloat16_matmul": True, "n_step": 5}  # fmt: skip
"""Of 10,000 control steps of ten environments. Targets sum five rewards: one at a time, a reward came back over the 140
steps of a demonstration so slowly that SAC first succeeded after 70,000 steps (`learners_sac_one_step.json`)."""
ACTOR: dict[str, Any] = {**SHARED, "critic_group": "policy", "tau": 0.01}
"""Critics read what the policy reads: demonstrations of a robot hold no more."""
SAC: dict[str, Any] = {**ACTOR, "entropy_backup": False}
"""No entropy in targets: a success, which ends the episode, would also end the bonus on entropy."""
OFF_POLICY: Mapping[str, Callable[[], OffPolicyConfig]] = {
    "sac": lambda: SACConfig(**SAC, critic_updates=2.0, offline_updates=2_500),
    "rlpd": lambda: RLPDConfig(**SAC, critic_updates=2.0, policy_delay=2),
    "awac": lambda: AWACConfig(**ACTOR, critic_updates=2.0, temperature=0.1, offline_updates=10_000),
    "idql": lambda: IDQLConfig(
        **SHARED, critic_updates=0.5, offline_updates=5_000, samples=16, critic=relu_network(128, 128)
    ),
}
"""Off-policy methods and their settings."""
CLONING = BehaviourCloningConfig(updates=50.0)
CLONING_STEPS = 640  # control steps that pass meanwhile: 32,000 updates at most


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
    return _cloned(cell, budget, CLONING, demonstrated(cell, budget))


def _cloned(
    cell: Cell, budget: Budget, config: BehaviourCloningConfig, path: Path, control_steps: int = CLONING_STEPS
) -> Learned:
    """A clone of a file; `control_steps` pass meanwhile, of which it learns nothing."""
    config = dataclasses.replace(miniature(config) if budget.smoke else config, demonstrations=path)
    env = sparse_environment(cell, budget)
    passing = budget if budget.smoke else dataclasses.replace(budget, steps=control_steps * env.num_envs)
    found = learned(env, config, passing, cell.seed)
    return dataclasses.replace(found, env_steps=0, notes=shown(path))


ADVISER_UPDATES = (125, 250, 500, 1_000, 2_000, 4_000, 8_000)
"""Of clones of which the first that succeeds often enough advises."""
ADVISER_SUCCESS = 0.3  # and, it is hoped, at most 0.6: result files name the value
ADVISER_EPISODES = 50


def advised(cell: Cell, budget: Budget) -> Learned:
    """SAC with demonstrations, and a clone of them that succeeds now and then as its adviser (VARL)."""
    path, env = demonstrated(cell, budget), sparse_environment(cell, budget)
    adviser, told = _adviser(cell, budget, path)
    config = miniature(OFF_POLICY["sac"]()) if budget.smoke else OFF_POLICY["sac"]()
    config = dataclasses.replace(config, demonstrations=path, adviser="a clone")
    found = learned(env, config, budget, cell.seed, adviser=adviser)
    return dataclasses.replace(found, notes={**shown(path), **told})


def _adviser(cell: Cell, budget: Budget, path: Path) -> tuple[Policy, dict[str, float]]:
    """The first clone that succeeds often enough, or the last, and its figures."""
    env = environment(cell, budget, 2 if budget.smoke else ADVISER_EPISODES, EVALUATION_SEED - 1 - cell.seed)
    candidates = ADVISER_UPDATES[: 1 if budget.smoke else None]
    for updates in candidates:
        config = dataclasses.replace(CLONING, held_out=0.0, updates=updates / CLONING.unroll)
        clone = _cloned(cell, budget, config, path, CLONING.unroll)
        success = scores(env, clone.policy, env.num_envs)["success"]
        if success >= ADVISER_SUCCESS or updates == candidates[-1]:
            return clone.policy, {"adviser_success": success, "adviser_updates": clone.updates}
    raise AssertionError("the last clone advises in any case")


PPO_ENVS = 50
PPO = PPOConfig(
    unroll=50, epochs=4, minibatches=4, learning_rate=1e-4, gamma=0.99, initial_std=0.2,
    actor=NetworkConfig((128, 128)), critic=NetworkConfig((128, 128), output_gain=1.0),
)  # fmt: skip
WATCHED = 25_000  # steps of the script that PPO's policy imitates at first: an episode of each environment


def from_expert(cell: Cell, budget: Budget) -> Learned:
    """PPO that begins with an imitation of the script, which acts in its environments (DART): no file is used."""
    config = miniature(PPO) if budget.smoke else PPO
    env = sparse_environment(cell, budget, num_envs=PPO_ENVS)
    watched = 64 if budget.smoke else WATCHED
    imitation = imitate(env, load_policy("expert", env), config, cell.seed, watched)
    found = learned(env, config, budget, cell.seed, start_from=imitation.policy)
    return dataclasses.replace(found, notes={"watched_steps": watched, "explained": imitation.explained})


DAGGER = DaggerConfig(unroll=25, updates=5.0, batch_size=1024, actor=NetworkConfig((128, 128), Activation.RELU))


def asked(cell: Cell, budget: Budget) -> Learned:
    """DAgger: the script is queried in every state that the learner comes to, in its environments: no file is used."""
    config = miniature(DAGGER) if budget.smoke else DAGGER
    env = sparse_environment(cell, budget, num_envs=PPO_ENVS)
    return learned(env, config, budget, cell.seed, adviser=load_policy("expert", env))


ROUNDS = 3  # of deployment with a supervisor and cloning anew (Sirius)


def interventions(cell: Cell, budget: Budget) -> Learned:
    """Cloning in rounds: the clone acts, the script takes over where it goes wrong, and a new clone is made of it all.

    Each round has as many episodes as there are demonstrations.
    """
    path = demonstrated(cell, budget)
    config = dataclasses.replace(CLONING, weigh_interventions=True)
    found, taken, helped = _cloned(cell, budget, CLONING, path), 0, 0
    for number in range(1 if budget.smoke else ROUNDS):
        env = sparse_environment(cell, budget, 1_000 * (1 + number) + cell.seed)
        actor = SupervisedActor(found.policy, load_policy("expert", env), env.num_envs)
        count = 2 if budget.smoke else cell.demonstrations
        new = demonstrations.record_actor(env, actor, count, failures=True)
        earlier = demonstrations.load(path, env.observation_spec, env.action_size)
        both = demonstrations.concatenated([demonstrations.Recording(earlier, demonstrations.load_source(path)), new])
        path = budget.work / f"{cell.task.split('/')[-1]}_{cell.name}_round{number}.safetensors"
        demonstrations.save(path, both.steps, both.source)
        taken += len(new.source)
        helped += int((new.source == int(demonstrations.Source.INTERVENTION)).sum())
        found = _cloned(cell, budget, config, path)
    notes = {**shown(demonstrated(cell, budget)), "intervention_steps": helped}
    return dataclasses.replace(found, env_steps=taken, notes=notes)


def evaluated(cell: Cell, budget: Budget, policy: Policy) -> dict[str, Any]:
    """Success in the task as it is."""
    env = environment(cell, budget, budget.episodes, EVALUATION_SEED + cell.seed)
    return scores(env, policy, budget.episodes)


SPARSE = Problem(
    name="sparse",
    tasks=tuple(
        f"manipulation/{task}" for task in ("drawer-open", "door-open", "push", "pick-place", "peg-insert-side")
    ),
    methods={
        "bc": cloning,
        **{name: functools.partial(off_policy, name) for name in OFF_POLICY},
        "adviser": advised,
        "ppo-from-expert": from_expert,
        "interventions": interventions,
        "dagger": asked,
    },
    evaluated=evaluated,
    steps=100_000,
    demonstrations=(10, 50),
    prepare=demonstrated,
)
