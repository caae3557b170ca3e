"""PQL, parallel Q-learning: TD3 with mixed exploration and fixed ratios of updates to steps of many environments."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.critics import PolicyValue
from policies.off_policy.td3 import TD3Config


@dataclass(frozen=True)
class PQLConfig(TD3Config):
    """Parallel Q-learning (Li et al. 2023, arXiv:2307.12983): 8 critic and 4 policy updates per step of thousands of
    environments.

    The paper's three processes are interleaved here, in the same ratios, on one device.
    """

    buffer_size: int = 5_000_000
    batch_size: int = 8192
    critic_updates: float = 8.0
    policy_delay: int = 2
    target_delay: int = 1
    n_step: int = 3
    tau: float = 0.05
    actor_learning_rate: float = 5e-4
    critic_learning_rate: float = 5e-4
    max_grad_norm: float | None = 0.5
    policy_value: PolicyValue = PolicyValue.LOWEST
    noise_min: float = 0.05
    noise_max: float = 0.8
    target_noise: float = 0.8
    target_noise_clip: float = 0.2
    target_actor: bool = False
    random_warm_up: bool = False
    warm_up: int = 131_072
