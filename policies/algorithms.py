"""Learners by name: `ppo` from fresh rollouts; `sac`, `rlpd`, `awac`, `ddpg`, `td3`, `fast-td3`, `pql` from memory;
`cqn`, `q-transformer` and `idql` from memory, without a policy that climbs; `svea` from memory, of images; `bc` from
demonstrations alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embodied.errors import UnknownNameError
from policies.imitation.behaviour_cloning import Cloning
from policies.imitation.config import CloningConfig
from policies.off_policy.actor_critics import (
    DDPGConfig,
    FastTD3Config,
    PQLConfig,
    RLPDConfig,
    SACConfig,
    TD3Config,
)
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import MemoryConfig
from policies.off_policy.cqn.config import CQNConfig
from policies.off_policy.idql.config import IDQLConfig
from policies.off_policy.learner import OffPolicy
from policies.off_policy.q_transformer.config import QTransformerConfig
from policies.off_policy.svea import SVEAConfig
from policies.ppo.config import PPOConfig
from policies.ppo.ppo import PPO

if TYPE_CHECKING:
    from embodied.env.vec_env import VecEnv
    from policies.learner import Learner
    from policies.training.defaults import TrainConfig

LearnerConfig = PPOConfig | MemoryConfig | CloningConfig
DEFAULT = "ppo"


@dataclass(frozen=True)
class LearnerEntry:
    """A learner as a command line knows it."""

    config: type[LearnerConfig]
    """Type of its settings."""
    num_envs: int | None = None
    """Environments that suit it; None: what the task says."""
    steps: int | None = None
    """Environment steps that suit it; None: what the task says."""


LEARNERS: dict[str, LearnerEntry] = {
    DEFAULT: LearnerEntry(PPOConfig),
    "sac": LearnerEntry(SACConfig, 64),
    "rlpd": LearnerEntry(RLPDConfig, 16),
    "awac": LearnerEntry(AWACConfig, 16),
    "cqn": LearnerEntry(CQNConfig, 16),
    "q-transformer": LearnerEntry(QTransformerConfig, 16),
    "idql": LearnerEntry(IDQLConfig, 16),
    "svea": LearnerEntry(SVEAConfig, 16, steps=100_000),
    "bc": LearnerEntry(CloningConfig, 16, steps=100_000),
    "ddpg": LearnerEntry(DDPGConfig, 64),
    "td3": LearnerEntry(TD3Config, 64),
    "fast-td3": LearnerEntry(FastTD3Config, 128),
    "pql": LearnerEntry(PQLConfig, 4096),
}


def find_learner(name: str) -> LearnerEntry:
    """The learner of that name.

    Raises:
        UnknownNameError: There is none; lists them.
    """
    if name not in LEARNERS:
        raise UnknownNameError("learner", name, LEARNERS)
    return LEARNERS[name]


def default_config(name: str, training: TrainConfig) -> LearnerConfig:
    """The settings of a learner on a task: the task's own, else the learner's.

    Raises:
        UnknownNameError: There is no such learner.
    """
    kind = find_learner(name).config
    return next((config for config in (training.ppo, *training.off_policy) if type(config) is kind), kind())


def make_learner(env: VecEnv, config: LearnerConfig, seed: int) -> Learner:
    """The learner that a config belongs to, for an environment."""
    sizes = (env.observation_sizes, env.action_size, env.num_envs)
    if isinstance(config, PPOConfig):
        return PPO(*sizes, config, device=env.device, seed=seed)
    if isinstance(config, CloningConfig):
        return Cloning(*sizes, config, device=env.device, seed=seed)
    return OffPolicy(*sizes, config, device=env.device, seed=seed)
