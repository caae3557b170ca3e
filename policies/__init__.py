"""Policies and the algorithms that train them, in plain torch.

`Policy` is what a robot runs; `PPO` improves one from the transitions of any `VecEnv`; `train` runs the loop.
"""

from policies.policy import ActionRule, Policy, random_policy, zero_policy
from policies.ppo import PPO
from policies.ppo_config import PPOConfig
from policies.trainer import Trainer, train
from policies.vec_env import Step, VecEnv

__all__ = [
    "PPO",
    "ActionRule",
    "PPOConfig",
    "Policy",
    "Step",
    "Trainer",
    "VecEnv",
    "random_policy",
    "train",
    "zero_policy",
]
