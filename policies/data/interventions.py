"""Weighted imitation of robot data with human interventions (Sirius, Liu et al. 2022, arXiv:2211.08416).

An intervention shows the right action, and that the robot's actions just before were wrong: each class of steps has a
weight.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

INTERVENTION_SHARE = 0.5  # of the data, weighted (Liu et al., section 4.2)
BEFORE_STEPS = 15  # before an intervention, in which the robot went wrong (Liu et al., appendix)


class Source(IntEnum):
    """Actor of a step."""

    DEMONSTRATION = 0
    """The demonstrator of a whole episode."""
    ROBOT = 1
    """The robot, by itself."""
    INTERVENTION = 2
    """The supervisor, who took over from the robot."""
    BEFORE = 3
    """The robot, shortly before an intervention."""


def mark_before(source: Tensor, ends: Tensor, steps: int = BEFORE_STEPS) -> Tensor:
    """`source` (T,) of whole episodes, with BEFORE where the robot acted within `steps` before an intervention.

    `ends` (T,) bool marks the last step of each episode.
    """
    marked, soon = source.clone(), torch.zeros_like(ends)
    intervened = source == Source.INTERVENTION
    for _ in range(steps):
        following = torch.cat([intervened[1:] | soon[1:], intervened.new_zeros(1)])
        soon = following & ~ends
    marked[soon & (source == Source.ROBOT)] = Source.BEFORE
    return marked


def target_shares(source: Tensor) -> Tensor:
    """Shares of the classes in the weighted data, in the order of `Source`: (T,) to (4,), of sum 1.

    Interventions are half; demonstrations keep their share, up to the other half; steps before interventions get
    nothing; the rest is the robot's. Without interventions the shares stay as they are.
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


def episodes_to_keep(source: Tensor, ends: Tensor, capacity: int) -> Tensor:
    """Which steps to keep where there is not room for all: those of the episodes with the most interventions.

    Episodes with the fewest interventions are dropped first, among equals the oldest (Liu et al., section 4.3);
    demonstrations stay. `capacity` steps may stay; `ends` (T,) bool marks the last step of each episode.

    Returns:
        (T,) bool.
    """
    episode = ends.cumsum(0) - ends.long()
    count = int(episode[-1]) + 1
    length = torch.bincount(episode, minlength=count)
    interventions = torch.bincount(episode, (source == Source.INTERVENTION).float(), minlength=count)
    is_demo = torch.bincount(episode, (source == Source.DEMONSTRATION).float(), minlength=count) > 0
    priority = torch.where(is_demo, torch.inf, interventions)
    order = count - 1 - priority.flip(0).argsort(descending=True, stable=True)  # the newest first among equals
    kept = torch.zeros_like(is_demo)
    kept[order] = (length[order].cumsum(0) <= capacity) | is_demo[order]
    return kept[episode]
