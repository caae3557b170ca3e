"""Every learner, with settings under which it learns a toy in a second, and the toy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from embodied.env.vec_env import StepData
from embodied.storage import trees
from policies.imitation.behaviour_cloning import BehaviourCloningConfig
from policies.imitation.dagger_config import DaggerConfig, PixelDaggerConfig
from policies.multi_agent.happo import HAPPOConfig
from policies.multi_agent.hasac import HASACConfig
from policies.multi_agent.matd3 import MATD3Config
from policies.multi_agent.mixers import Mixer
from policies.multi_agent.qmix import QMIXConfig
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import OffPolicyConfig
from policies.off_policy.idql import IDQLConfig
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.rlpd import RLPDConfig
from policies.off_policy.sac import SACConfig
from policies.off_policy.svea import SVEAConfig
from policies.off_policy.td3 import TD3Config
from policies.ppo.config import CuriosityConfig, PPOConfig, Schedule, SymmetryConfig
from policies.registry import algorithm_of
from policies.training.loop import train
from tests.kit.imitation import homewards
from tests.kit.learning import PixelPointMass, PointMass, Recall, TwoMovers

SMALL = NetworkConfig((32, 32), Activation.RELU)
CRITIC: dict[str, Any] = {"critic": SMALL, "gamma": 0.9, "tau": 0.05, "batch_size": 128, "warm_up": 600,
       "buffer_size": 20_000, "critic_learning_rate": 3e-3}  # fmt: skip
ACTOR_CRITIC: dict[str, Any] = {**CRITIC, "actor": SMALL, "actor_learning_rate": 3e-3}
QUICK: dict[str, Any] = {**ACTOR_CRITIC, "batch_size": 32, "warm_up": 64, "unroll": 4}
"""Settings of an off-policy learner for what needs few updates."""
DAGGER = DaggerConfig(unroll=4, batch_size=64, updates=8.0, learning_rate=3e-3, actor=SMALL)
PPO = PPOConfig(unroll=8, epochs=2, minibatches=2, actor=SMALL, critic=dataclasses.replace(SMALL, output_gain=1.0))
CONFIGS: dict[str, Any] = {
    "ppo": PPO,
    "sac": SACConfig(**ACTOR_CRITIC, temperature_learning_rate=3e-3),
    "rlpd": RLPDConfig(**{**ACTOR_CRITIC, "batch_size": 64}, critics=3, critic_updates=2, policy_delay=2),
    "awac": AWACConfig(**ACTOR_CRITIC, offline_updates=0),
    "idql": IDQLConfig(**CRITIC, offline_updates=0, samples=16, actor_learning_rate=3e-3),
    "svea": SVEAConfig(**ACTOR_CRITIC, features=8),
    "bc": BehaviourCloningConfig(actor=SMALL, batch_size=64, updates=5.0, learning_rate=3e-3, validation_interval=50),
    "dagger": DAGGER,
    "dagger-pixels": PixelDaggerConfig(
        unroll=4, batch_size=64, updates=4.0, learning_rate=3e-3, features=16,
        actor=NetworkConfig((32,), Activation.RELU),
    ),
    "hasac": HASACConfig(**ACTOR_CRITIC, temperature_learning_rate=3e-3),
    "happo": HAPPOConfig(unroll=20, epochs=4, minibatches=4, learning_rate=3e-3, schedule=Schedule.FIXED, gamma=0.9,
                         initial_std=0.5, actor=SMALL, critic=SMALL),
    "matd3": MATD3Config(**ACTOR_CRITIC),
    "qmix": QMIXConfig(**CRITIC, epsilon_steps=8_000, bins=5),
    "td3": TD3Config(**ACTOR_CRITIC),
}  # fmt: skip
"""Of every registered algorithm."""
TEAMS = {name: CONFIGS[name] for name in ("hasac", "happo", "matd3", "qmix")}
TEAMS |= {"vdn": dataclasses.replace(CONFIGS["qmix"], mixer=Mixer.SUM)}
GRU = NetworkConfig((16,), architecture=Architecture.GRU, memory=12)
REMEMBERING = dataclasses.replace(PPO, actor=GRU, critic=dataclasses.replace(GRU, output_gain=1.0))


@dataclasses.dataclass(frozen=True)
class Learner:
    """One learner in its environment."""

    config: Any
    toy: Callable[[int, int], Any]
    """Number of environments and seed to environments."""
    adviser: Callable[[PointMass], Callable[[Mapping[str, Tensor]], Tensor]] | None = None
    """Environments to the policy that advises."""
    shown: bool = False
    """Whether it learns from a file of demonstrations."""
    kind: str = "squashed-mlp"
    """Of its stored policies."""


def toy_of(config: Any) -> type[PointMass]:
    """The environments that suit an algorithm."""
    entry = algorithm_of(config)
    return TwoMovers if entry.of_teams else PixelPointMass if entry.needs_images else PointMass


def told(env: PointMass) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """The script of who knows where the point is, whatever it looks like."""
    return lambda obs: homewards({"policy": env.position})


def short(config: Any) -> Any:
    """The same learner with short rollouts, or a replay buffer that wraps within a few iterations."""
    changes = {"unroll": 4, "batch_size": 16, "warm_up": 64, "n_step": 3, "buffer_size": 160}
    if not hasattr(config, "warm_up"):
        changes = {"unroll": 8, "epochs": 2}
    return dataclasses.replace(config, **changes)


def _learner(config: Any, kind: str = "squashed-mlp", **changes: Any) -> Learner:
    return Learner(short(config), toy_of(config), kind=kind, **changes)


RESUMED = {
    **{name: _learner(CONFIGS[name]) for name in ("sac", "rlpd", "awac", "td3")},
    "idql": _learner(CONFIGS["idql"], "idql"),
    "svea": _learner(CONFIGS["svea"], "squashed-pixels"),
    "ppo": _learner(PPO, "gaussian-mlp"),
    "ppo curious": _learner(dataclasses.replace(PPO, curiosity=CuriosityConfig(weight=0.5)), "gaussian-mlp"),
    "ppo symmetric": _learner(dataclasses.replace(PPO, symmetry=SymmetryConfig(network=True)), "gaussian-mlp"),
    "ppo with a fixed learning rate": _learner(dataclasses.replace(PPO, schedule=Schedule.FIXED), "gaussian-mlp"),
    "ppo in its warm-up": _learner(dataclasses.replace(PPO, critic_warm_up=4), "gaussian-mlp"),
    "ppo remembering": Learner(REMEMBERING, Recall, kind="gaussian-gru"),
    "ppo, a critic with memory": Learner(dataclasses.replace(REMEMBERING, actor=SMALL), Recall, kind="gaussian-mlp"),
    "ppo, an actor with memory": Learner(dataclasses.replace(REMEMBERING, critic=SMALL), Recall, kind="gaussian-gru"),
    "td3 advised": _learner(dataclasses.replace(CONFIGS["td3"], adviser="told", advice_until=40), adviser=told),
    "bc": Learner(dataclasses.replace(CONFIGS["bc"], unroll=4, held_out=0.0), PointMass, shown=True),
    "bc with episodes held out": Learner(
        dataclasses.replace(CONFIGS["bc"], unroll=4, held_out=0.2), PointMass, shown=True
    ),
    "dagger": Learner(dataclasses.replace(DAGGER, action_noise=0.1), PointMass, told, kind="gaussian-mlp"),
    "dagger remembering": Learner(
        dataclasses.replace(DAGGER, action_noise=0.1, actor=dataclasses.replace(GRU, memory=16)), PointMass, told,
        kind="gaussian-gru",
    ),
    "dagger-pixels": Learner(
        dataclasses.replace(CONFIGS["dagger-pixels"], save_buffer=True), PixelPointMass, told, kind="squashed-pixels"
    ),
    **{name: Learner(short(config), TwoMovers, kind="") for name, config in TEAMS.items()},
}  # fmt: skip
"""Learners whose trainings are interrupted and resumed, one for each way in which a training keeps something."""


def brisk(config: Any, **changes: Any) -> Any:
    """The same learner, that takes large steps."""
    large = {"warm_up": 128, "batch_size": 64, "actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2,
             "learning_rate": 1e-2, "epsilon_steps": 800}  # fmt: skip
    return dataclasses.replace(config, **{name: to for name, to in large.items() if hasattr(config, name)}, **changes)


SOLVING = {
    **{name: CONFIGS[name] for name in ("sac", "rlpd", "td3")},
    **TEAMS,
    "ppo": PPOConfig(unroll=16),
    "ppo symmetric": PPOConfig(unroll=16, symmetry=SymmetryConfig(network=True)),
}
"""Learners that find out alone where the point is to go."""


def learner_of(config: OffPolicyConfig, num_envs: int = 4, seed: int = 0) -> OffPolicyLearner:
    """An off-policy learner of the point mass."""
    return OffPolicyLearner(PointMass.observation_spec, 2, num_envs, config, seed=seed)


def assert_one_agent_trains_alike(alone: Any, team: Any, parts: Sequence[str], **changes: Any) -> None:
    """A team's algorithm trains one agent as another algorithm does, bit for bit in these parts of its state."""
    small = {**ACTOR_CRITIC, "warm_up": 64, "batch_size": 32, **changes}
    first, second = (train(PointMass(8), kind(**small), total_steps=8 * 40) for kind in (alone, team))
    obs = PointMass(32, 3).reset()["policy"]
    assert torch.equal(first.policy.network(obs), second.policy.network(obs))
    states = [trees.flatten(trainer.state()) for trainer in (first, second)]
    shared = [key for key in states[0] if any(part in key for part in parts)]
    assert len(shared) > 8
    assert all(torch.equal(states[0][key], states[1][key]) for key in shared)


def observe(num_envs: int = 4, seed: int = 0) -> dict[str, Tensor]:
    """Random observations for it."""
    generator = torch.Generator().manual_seed(seed)
    return {"policy": torch.randn(num_envs, 2, generator=generator),
            "critic": torch.randn(num_envs, 3, generator=generator)}  # fmt: skip


def practise(learner: OffPolicyLearner, steps: int, reward: float | None = None) -> dict[str, float]:
    """Let it act in noise, for random rewards or always the same; returns its metrics."""
    n = learner.num_envs
    for t in range(steps):
        learner.act(observe(n, t))
        earned = (
            torch.randn(n, generator=torch.Generator().manual_seed(t)) if reward is None else torch.full((n,), reward)
        )
        ends = torch.rand(2, n, generator=torch.Generator().manual_seed(t)) < 0.05
        following = observe(n, t + 1)
        learner.record(StepData(following, earned, ends[0], ends[1] & ~ends[0], ends[0], following))
    return learner.update(observe(n, steps))
