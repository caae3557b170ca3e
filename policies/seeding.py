"""Demonstrations laid out as the steps of many environments, for the replay buffer that they seed."""

from __future__ import annotations

import torch

from policies.replay import Transitions, merged


def folded(steps: Transitions, num_envs: int) -> Transitions:
    """Steps of one environment, (T, 1, ...), laid out as those of N: (⌈T / N⌉, N, ...).

    Each column is a stretch of them whose end counts as cut, since what follows in its column belongs to another
    episode. The last column is filled up from the beginning.
    """
    count = len(steps.reward)
    rows = -(-count // num_envs)
    index = torch.arange(rows * num_envs, device=steps.reward.device) % count
    result = merged([steps], lambda parts: parts[0][index, 0].unflatten(0, (num_envs, rows)).transpose(0, 1).clone())
    result.truncated[-1] |= ~result.terminated[-1]
    return result
