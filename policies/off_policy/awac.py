"""Settings of advantage-weighted actor-critic."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.actor_critics import OffPolicyConfig
from policies.off_policy.config import require


@dataclass(frozen=True)
class AWACConfig(OffPolicyConfig):
    """Advantage-weighted actor-critic (AWAC, Nair et al. 2020, arXiv:2006.09359): demonstrations, then one's own steps.

    Batches and networks are smaller than the paper's (1,024; a policy of four layers of 256).
    """

    demonstrations_in_buffer: bool = True
    offline_updates: int = 25_000
    temperature: float = 1.0
    """Advantage by which an action becomes e times as likely to be repeated, in scaled rewards; large: all are imitated
    alike. The metric weighted_share is the part of a batch that still counts: near 0 it is too small."""
    blur: float = 0.1
    """Standard deviation, before the tangent, with which remembered actions are blurred: the least that the policy will
    explore with. A script repeats itself exactly."""

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        require(self.temperature > 0, "temperature", self.temperature, "positive")
        require(self.blur >= 0, "blur", self.blur, "0 or more")
