"""The clipped objective of token policies."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Surrogate(NamedTuple):
    """The objective of B decisions, and how far the policy has moved."""

    loss: Tensor
    """() to be made small."""
    clipped: Tensor
    """() share of the actions' numbers that have moved far enough and no longer count."""
    kl: Tensor
    """() nats of an action's number, E[r - 1 - log r] of the rollout's policy from the present one (Schulman 2020)."""


def surrogate(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, weight: Tensor, acted: Tensor, low: float, high: float
) -> Surrogate:
    """Sum over the decisions of weight times the sum over their tokens of max(-A r, -A clip(r)), r = pi / pi_old.

    Each number of each action has a ratio of its own (SimpleVLA-RL, eq. 6; PPO, Schulman et al. 2017, eq. 7).

    Args:
        log_prob: (B, chunk, A) of the tokens now, nats.
        old_log_prob: (B, chunk, A) when they were drawn.
        advantage: (B,).
        weight: (B,) of one number of an action.
        acted: (B, chunk) bool; what was not carried out does not count.
        low: By which share a probability may fall before it no longer counts.
        high: By which it may rise: farther, so that what is rare may become likely (DAPO, Yu et al. 2025).
    """
    counts = acted[..., None].expand_as(log_prob)
    change = (log_prob - old_log_prob).masked_fill(~counts, 0.0)
    ratio = change.exp()
    gain = ratio * advantage[:, None, None]
    bound = ratio.clamp(1 - low, 1 + high) * advantage[:, None, None]
    worst = torch.minimum(gain, bound).masked_fill(~counts, 0.0)
    loss = -(worst.sum((1, 2)) * weight).sum()
    with torch.no_grad():
        total = counts.sum().clamp(min=1)
        clipped = ((bound < gain) & counts).sum() / total
        kl = ((ratio - 1 - change) * counts).sum() / total
    return Surrogate(loss, clipped, kl)
