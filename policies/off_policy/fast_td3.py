"""FastTD3: TD3 with distributional critics, large batches and mixed exploration noise."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.networks.mlp import NetworkConfig
from policies.off_policy.config import relu_network
from policies.off_policy.critics import PolicyValue
from policies.off_policy.td3 import TD3Config


@dataclass(frozen=True)
class FastTD3Config(TD3Config):
    """TD3 with distributional critics, large batches and mixed noise (FastTD3, Seo et al. 2025, arXiv:2505.22642).

    Networks, batches and the replay buffer are smaller than the paper's (critics 1024, 512, 256; policy 512, 256, 128;
    32,768 of the last 51,200 steps of each environment), which want a GPU.
    """

    batch_size: int = 8192
    critic_updates: float = 2.0
    target_delay: int = 1
    tau: float = 0.1
    weight_decay: float = 0.1
    policy_value: PolicyValue = PolicyValue.LOWEST
    atoms: int = 101
    noise_min: float = 0.001
    noise_max: float = 0.4
    target_noise: float = 0.001
    target_actor: bool = False
    random_warm_up: bool = False
    warm_up: int = 1_280
    actor: NetworkConfig = field(default_factory=lambda: relu_network(256, 128, 64))
    critic: NetworkConfig = field(default_factory=lambda: relu_network(256, 128, 64))
