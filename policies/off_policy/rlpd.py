"""RLPD, reinforcement learning with prior data: SAC with demonstrations, ten normalised critics and many updates."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.critics import PolicyValue
from policies.off_policy.sac import SACConfig


@dataclass(frozen=True)
class RLPDConfig(SACConfig):
    """SAC that learns much from few steps and a file of demonstrations (Ball et al. 2023, arXiv:2302.02948)."""

    critics: int = 10
    target_critics: int | None = 2
    policy_value: PolicyValue = PolicyValue.MEAN
    layer_norm: bool = True
    critic_updates: float = 20.0
    policy_delay: int = 20
