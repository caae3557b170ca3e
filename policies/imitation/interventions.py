"""Who acted, and what that says of how well: imitation of what a robot did while somebody could take over.

Sirius (Liu et al. 2022, arXiv:2211.08416): who takes over shows what to do, and that what the robot did just before was
wrong. So the classes are weighted, not the steps.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

INTERVENTION_SHARE = 0.5  # of what is learned from (Liu et al., section 4.2)
BEFORE_STEPS = 15  # before a take-over, in which the robot went wrong (Liu et al., appendix)


class Source(IntEnum):
    """To whom a step is owed."""

    DEMONSTRATION = 0
    """Somebody who showed a whole episode."""
    ROBOT = 1
    """The robot, by itself."""
    INTERVENTION = 2
    """Somebody who took over from the robot."""
    BEFORE = 3
    """The robot, shortly before somebody took over."""


def with_before(source: Tensor, ends: Tensor, steps: int = BEFORE_STEPS) -> Tensor:
    """Mark what led to take-overs.

    Args:
        source: (T,) of `Source`, the steps of whole episodes one after another.
        ends: (T,) bool, the last step of each episode.
        steps: How long before a take-over the robot's steps count as wrong.

    Returns:
        (T,) the same, with BEFORE where the robot acted within so many steps before an intervention of its episode.
    """
    marked, soon = source.clone(), torch.zeros_like(ends)
    helped = source == Source.INTERVENTION
    for _ in range(steps):
        following = torch.cat([helped[1:] | soon[1:], helped.new_zeros(1)])
        soon = following & ~ends
    marked[soon & (source == Source.ROBOT)] = Source.BEFORE
    return marked


def target_shares(source: Tensor) -> Tensor:
    """Shares of the classes in what is learned from, in the order of `Source`: (T,) to (4,), of sum 1.

    Interventions are half; demonstrations keep their share, as far as the other half holds it; nothing is left of what
    was wrong; the rest is the robot's. Without interventions all stays as it is.
    """
    present = torch.bincount(source, minlength=len(Source)).float() / len(source)
    if not present[Source.INTERVENTION]:
        return present
    shares = torch.zeros_like(present)
    shares[Source.INTERVENTION] = INTERVENTION_SHARE
    shares[Source.DEMONSTRATION] = present[Source.DEMONSTRATION].clamp(max=1 - INTERVENTION_SHARE)
    if present[Source.ROBOT]:
        shares[Source.ROBOT] = 1 - shares.sum()
    return shares / shares.sum()


def weights(source: Tensor) -> Tensor:
    """P*(c) / P(c) of each step's class c (Liu et al., eq. 2): (T,) to (T,), of mean 1."""
    present = torch.bincount(source, minlength=len(Source)).float() / len(source)
    return (target_shares(source) / present.clamp(min=1 / len(source)))[source]


def remembered(source: Tensor, ends: Tensor, capacity: int) -> Tensor:
    """Which steps a memory keeps that is too small: episodes in which somebody took over the most.

    Episodes with the fewest interventions make room first, of equal ones the oldest (Liu et al., section 4.3); those
    that were demonstrated stay.

    Args:
        source: (T,) of `Source`.
        ends: (T,) bool, the last step of each episode.
        capacity: Steps that may stay.

    Returns:
        (T,) bool.
    """
    episode = ends.cumsum(0) - ends.long()
    count = int(episode[-1]) + 1
    length = torch.bincount(episode, minlength=count)
    helped = torch.bincount(episode, (source == Source.INTERVENTION).float(), minlength=count)
    shown = torch.bincount(episode, (source == Source.DEMONSTRATION).float(), minlength=count) > 0
    worth = torch.where(shown, torch.inf, helped)
    order = count - 1 - worth.flip(0).argsort(descending=True, stable=True)  # the newest first among equals
    kept = torch.zeros_like(shown)
    kept[order] = (length[order].cumsum(0) <= capacity) | shown[order]
    return kept[episode]
