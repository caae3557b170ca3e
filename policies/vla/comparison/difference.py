"""Differences in behaviour between two policies from the same initial states.

RL by outcome finds undemonstrated ways to succeed, such as pushing what the demonstrations grasp ("pushcut",
SimpleVLA-RL, section 6). The success rate does not show it; paths, actions and gripper do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from embodied.evaluation.rates import wilson
from policies.vla.comparison.trajectories import Trajectory

PARTLY_OPEN = (0.05, 0.9)  # gripper opening that may be around an object: neither closed nor open
STILL = 0.005  # change of the opening per control step below which the gripper rests
MIN_DISTANCE = 0.01  # m between paths that count as the same
POINTS = 100  # of a path, evenly spaced in time


@dataclasses.dataclass(frozen=True)
class BehaviourSummary:
    """Success and gripper use of one policy."""

    success: float
    success_low: float
    success_high: float
    """95 % interval."""
    steps: float | None
    """Control steps to success, mean over episodes that were solved; None where none was."""
    closed: float
    """Mean gripper closing: 0 open, 1 closed."""
    holding: float
    """Share of time in which the gripper rested partly open, as around an object."""


@dataclasses.dataclass(frozen=True)
class BehaviourDifference:
    """Two policies from the same E initial states of one task."""

    task: str
    before: BehaviourSummary
    after: BehaviourSummary
    action_distance: float
    """1-Wasserstein distance between the distributions of actions, mean over an action's numbers in [-1, 1]."""
    action_distance_within: float
    """The same between every second episode of the first policy and its others: the effect of chance."""
    path_shift: float
    """m from the hand's path to the first policy's from the same initial state, mean over a path."""
    path_spread: float
    """m from each path of the first policy to its nearest other one."""
    path_deviation: float
    """Distance of the second policy's paths to the nearest of the first's from another initial state, over
    `path_spread`, or over a centimetre if that is more."""
    outside: float | None
    """Share of the second policy's successes whose path is farther from all of the first's than any of those from the
    others, and than a centimetre; for E paths of the same kind it would be 1 / E. None without a success."""


def compare(task: str, before: Sequence[Trajectory], after: Sequence[Trajectory]) -> BehaviourDifference:
    """Compare trajectories from the same initial states, in the same order; at least two of each."""
    apart = path_distances(before, before)
    apart.fill_diagonal_(torch.inf)
    between = path_distances(after, before)
    shift = between.diagonal().mean().item()
    between.fill_diagonal_(torch.inf)  # paths from the same initial state are alike in any case
    own, new = apart.amin(1), between.amin(1)
    solved = torch.tensor([trajectory.success for trajectory in after])
    outside = (new > own.max().clamp(min=MIN_DISTANCE))[solved].float().mean().item() if solved.any() else None
    spread = own.mean().item()
    return BehaviourDifference(
        task=task,
        before=summarize(before),
        after=summarize(after),
        action_distance=action_distance(before, after),
        action_distance_within=action_distance(before[::2], before[1::2]),
        path_shift=shift,
        path_spread=spread,
        path_deviation=new.mean().item() / max(spread, MIN_DISTANCE),
        outside=outside,
    )


def summarize(trajectories: Sequence[Trajectory]) -> BehaviourSummary:
    """Success and gripper use over some episodes."""
    solved = [trajectory for trajectory in trajectories if trajectory.success]
    low, high = wilson(len(solved), len(trajectories))
    opening = torch.cat([trajectory.opening for trajectory in trajectories])
    moved = torch.cat(
        [torch.diff(trajectory.opening, prepend=trajectory.opening[:1]).abs() for trajectory in trajectories]
    )
    holding = (opening > PARTLY_OPEN[0]) & (opening < PARTLY_OPEN[1]) & (moved < STILL)
    return BehaviourSummary(
        success=len(solved) / len(trajectories),
        success_low=low,
        success_high=high,
        steps=sum(len(trajectory.hand) for trajectory in solved) / len(solved) if solved else None,
        closed=1.0 - opening.mean().item(),
        holding=holding.float().mean().item(),
    )


def path_distances(some: Sequence[Trajectory], others: Sequence[Trajectory]) -> Tensor:
    """(E, F) m: mean distance from the points of a path to the nearest point of another, at any time."""
    ours, theirs = (
        torch.stack([resampled(trajectory.hand) for trajectory in trajectories]) for trajectories in (some, others)
    )
    return torch.stack([torch.cdist(path.expand_as(theirs), theirs).amin(2).mean(1) for path in ours])


def resampled(path: Tensor) -> Tensor:
    """(POINTS, 3) of a path (T, 3), evenly spaced in time."""
    places = torch.linspace(0, len(path) - 1, POINTS)
    first = places.floor().long()
    return torch.lerp(path[first], path[(first + 1).clamp(max=len(path) - 1)], (places - first)[:, None])


def action_distance(some: Sequence[Trajectory], others: Sequence[Trajectory]) -> float:
    """1-Wasserstein distance, the area between two cumulative distributions; mean over an action's numbers."""
    ours, theirs = (torch.cat([trajectory.action for trajectory in trajectories]) for trajectories in (some, others))
    levels = torch.linspace(0.0, 1.0, 257)[:-1] + 1 / 512
    return (quantiles(ours, levels) - quantiles(theirs, levels)).abs().mean().item()


def quantiles(values: Tensor, levels: Tensor) -> Tensor:
    """(levels, A) of (n, A), for any n."""
    ranks = (levels * len(values)).long().clamp(max=len(values) - 1)
    return values.sort(0).values[ranks]
