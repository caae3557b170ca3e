"""How large the things are that a learner's networks read and write."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Extent:
    """Sizes of observations and actions, and where they lie."""

    policy: int
    """Length of the observation that the policy reads."""
    critic: int
    """Length of the observation that the critics read."""
    action: int
    """Length of an action."""
    num_envs: int
    """N."""
    device: torch.device
