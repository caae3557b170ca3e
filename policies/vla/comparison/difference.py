"""What one policy does differently from another that began at the same places.

Reinforcement learning by outcome finds ways to succeed that nobody showed, such as pushing what the demonstrations
grasped ("pushcut", SimpleVLA-RL, section 6). Success alone does not tell; paths, actions and fingers do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from embodied.evaluation.rollouts import wilson
from policies.vla.comparison.behaviour import Trace

APART = (0.05, 0.9)  # opening of fingers that something may keep apart: neither closed nor open
STILL = 0.005  # change of the opening per control step below which fingers rest
LEAST = 0.01  # m off a path that nobody would call another way
POINTS = 100  # of a path, evenly spaced in time, that are compared


@dataclasses.dataclass(frozen=True)
class Manner:
    """What one policy did."""

    success: float
    success_low: float
    success_high: float
    """95 % interval."""
    steps: float | None
    """Control steps to success, mean over episodes that were solved; None where none was."""
    closed: float
    """How far the gripper was closed on average: 0 open, 1 closed."""
    holding: float
    """Share of the time in which fingers rested neither open nor closed, as when something is between them."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """What two policies did from the same E starts of one task."""

    task: str
    before: Manner
    after: Manner
    action_distance: float
    """Between the distributions of what they did: 1-Wasserstein, mean over an action's numbers, which range over 2."""
    action_distance_within: float
    """The same between every second episode of the first policy and its others: what chance and starts do."""
    path_shift: float
    """m from the hand's path to the first policy's from the same start, mean over the points of a path."""
    path_spread: float
    """m from each path of the first policy to its nearest other one: its own spread."""
    path_deviation: float
    """From the second policy's paths to the nearest of the first's from another start, in units of its spread,
    at least a centimetre."""
    outside: float | None
    """Share of the second policy's successes that are farther from all that the first did than any of its own paths
    from the others, and than a centimetre; of E paths of the same kind 1 / E would be. None without a success."""


def compare(task: str, before: Sequence[Trace], after: Sequence[Trace]) -> Difference:
    """Compare traces from the same starts, in the same order; at least two of each."""
    apart = path_distances(before, before)
    apart.fill_diagonal_(torch.inf)
    between = path_distances(after, before)
    shift = between.diagonal().mean().item()
    between.fill_diagonal_(torch.inf)  # the same start makes paths alike: neither policy is compared with it
    own, new = apart.amin(1), between.amin(1)
    solved = torch.tensor([trace.success for trace in after])
    outside = (new > own.max().clamp(min=LEAST))[solved].float().mean().item() if solved.any() else None
    spread = own.mean().item()
    return Difference(
        task=task,
        before=manner(before),
        after=manner(after),
        action_distance=action_distance(before, after),
        action_distance_within=action_distance(before[::2], before[1::2]),
        path_shift=shift,
        path_spread=spread,
        path_deviation=new.mean().item() / max(spread, LEAST),
        outside=outside,
    )


def manner(traces: Sequence[Trace]) -> Manner:
    """What a policy did in some episodes."""
    solved = [trace for trace in traces if trace.success]
    low, high = wilson(len(solved), len(traces))
    opening = torch.cat([trace.opening for trace in traces])
    moved = torch.cat([torch.diff(trace.opening, prepend=trace.opening[:1]).abs() for trace in traces])
    holding = (opening > APART[0]) & (opening < APART[1]) & (moved < STILL)
    return Manner(
        success=len(solved) / len(traces),
        success_low=low,
        success_high=high,
        steps=sum(len(trace.hand) for trace in solved) / len(solved) if solved else None,
        closed=1.0 - opening.mean().item(),
        holding=holding.float().mean().item(),
    )


def path_distances(some: Sequence[Trace], others: Sequence[Trace]) -> Tensor:
    """(E, F) m: mean over the points of a path of the distance to the nearest point of another, at any time."""
    ours, theirs = (torch.stack([resampled(trace.hand) for trace in traces]) for traces in (some, others))
    return torch.stack([torch.cdist(path.expand_as(theirs), theirs).amin(2).mean(1) for path in ours])


def resampled(path: Tensor) -> Tensor:
    """(POINTS, 3) of a path (T, 3), evenly spaced in time."""
    places = torch.linspace(0, len(path) - 1, POINTS)
    first = places.floor().long()
    return torch.lerp(path[first], path[(first + 1).clamp(max=len(path) - 1)], (places - first)[:, None])


def action_distance(some: Sequence[Trace], others: Sequence[Trace]) -> float:
    """Mean over an action's numbers of the 1-Wasserstein distance: the area between two cumulative distributions."""
    ours, theirs = (torch.cat([trace.action for trace in traces]) for traces in (some, others))
    levels = torch.linspace(0.0, 1.0, 257)[:-1] + 1 / 512
    return (quantiles(ours, levels) - quantiles(theirs, levels)).abs().mean().item()


def quantiles(values: Tensor, levels: Tensor) -> Tensor:
    """(levels, A) of (n, A), for any n."""
    ranks = (levels * len(values)).long().clamp(max=len(values) - 1)
    return values.sort(0).values[ranks]
