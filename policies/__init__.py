"""Policies and the algorithms that train them, in plain torch.

`Policy` is what a robot runs; `PPO` improves one from rollouts of any `VecEnv`, `OffPolicy` from remembered
transitions; `train` runs the loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embodied.env.vec_env import PolicyFunction, Step, VecEnv
    from policies.algorithm import Algorithm
    from policies.off_policy.learner import OffPolicyLearner
    from policies.off_policy.rlpd import RLPDConfig
    from policies.off_policy.sac import SACConfig
    from policies.off_policy.td3 import TD3Config
    from policies.policy import Policy, random_policy, zero_policy
    from policies.ppo.config import PPOConfig
    from policies.ppo.ppo import PPO
    from policies.training.loop import Trainer, train

__all__ = [
    "PPO", "Algorithm", "OffPolicyLearner", "PPOConfig", "Policy", "PolicyFunction", "RLPDConfig", "SACConfig", "Step",
    "TD3Config", "Trainer", "VecEnv", "random_policy", "train", "zero_policy",
]  # fmt: skip

_LAZY = {
    "Algorithm": "policies.algorithm",
    "OffPolicyLearner": "policies.off_policy.learner",
    "PPO": "policies.ppo.ppo",
    "PPOConfig": "policies.ppo.config",
    "Policy": "policies.policy",
    "PolicyFunction": "embodied.env.vec_env",
    "RLPDConfig": "policies.off_policy.rlpd",
    "SACConfig": "policies.off_policy.sac",
    "Step": "embodied.env.vec_env",
    "TD3Config": "policies.off_policy.td3",
    "Trainer": "policies.training.loop",
    "VecEnv": "embodied.env.vec_env",
    "random_policy": "policies.policy",
    "train": "policies.training.loop",
    "zero_policy": "policies.policy",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use: configs, which command lines read, need no torch."""
    if name not in _LAZY:
        raise AttributeError(f"module 'policies' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
