"""DDPG, deep deterministic policy gradient: TD3 without twin critics, delays and target smoothing."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.td3 import TD3Config


@dataclass(frozen=True)
class DDPGConfig(TD3Config):
    """Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

    critics: int = 1
    policy_delay: int = 1
    target_delay: int = 1
    target_noise: float = 0.0
