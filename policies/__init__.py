"""Policies and the algorithms that train them, in plain torch.

`Policy` is what a robot runs; `PPO` improves one from rollouts of any `VecEnv`, `OffPolicy` from remembered
transitions; `train` runs the loop.
"""

from policies.learner import Learner
from policies.off_policy import OffPolicy
from policies.off_policy_config import DDPGConfig, FastTD3Config, PQLConfig, RLPDConfig, SACConfig, TD3Config
from policies.policy import ActionRule, Policy, random_policy, zero_policy
from policies.ppo import PPO
from policies.ppo_config import PPOConfig
from policies.trainer import Trainer, train
from policies.vec_env import Step, VecEnv

__all__ = [
    "PPO",
    "ActionRule",
    "DDPGConfig",
    "FastTD3Config",
    "Learner",
    "OffPolicy",
    "PPOConfig",
    "PQLConfig",
    "Policy",
    "RLPDConfig",
    "SACConfig",
    "Step",
    "TD3Config",
    "Trainer",
    "VecEnv",
    "random_policy",
    "train",
    "zero_policy",
]
