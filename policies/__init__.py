"""Policies and the algorithms that train them, in plain torch.

`Policy` is what a robot runs; `PPO` improves one from rollouts of any `VecEnv`, `OffPolicy` from remembered
transitions; `train` runs the loop.
"""

from embodied.env.vec_env import PolicyFunction, Step, VecEnv
from policies.algorithm import Algorithm
from policies.off_policy.ddpg import DDPGConfig
from policies.off_policy.fast_td3 import FastTD3Config
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.pql import PQLConfig
from policies.off_policy.rlpd import RLPDConfig
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.policy import Policy, random_policy, zero_policy
from policies.ppo.config import PPOConfig
from policies.ppo.ppo import PPO
from policies.training.loop import Trainer, train

__all__ = [
    "PPO",
    "Algorithm",
    "DDPGConfig",
    "FastTD3Config",
    "OffPolicyLearner",
    "PPOConfig",
    "PQLConfig",
    "Policy",
    "PolicyFunction",
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
