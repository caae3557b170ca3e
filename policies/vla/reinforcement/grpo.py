"""GRPO's advantages: returns relative to a group of episodes from the same initial state.

Shao et al. 2024; for action tokens SimpleVLA-RL (Li et al. 2025), eq. 5-7. No critic, no KL term, no entropy bonus.
"""

from __future__ import annotations

import torch
from torch import Tensor

from policies.vla.reinforcement.advantages import EPSILON, AdvantageEstimator, Advantages
from policies.vla.reinforcement.rollouts import RolloutBatch
from policies.vla.reinforcement.settings import RLConfig


class GRPOEstimator(AdvantageEstimator):
    """Group-relative advantages; groups of equal returns are dropped (dynamic sampling)."""

    def __init__(self, config: RLConfig) -> None:
        self.group_size, self._partial_credit = config.group_size, config.partial_credit

    def keep_mask(self, batch: RolloutBatch) -> Tensor:
        """Episodes of groups whose returns differ."""
        return group_std(batch.score(self._partial_credit), batch.group) > 0

    def estimate(self, batch: RolloutBatch) -> Advantages:
        """Every decision of an episode has its advantage; every episode has the same weight, however long it is."""
        advantage = group_advantage(batch.score(self._partial_credit), batch.group)
        numbers = batch.action_counts * batch.tokens.shape[-1]
        weight = 1.0 / (len(batch) * numbers)
        return Advantages(advantage[batch.episode], weight[batch.episode], {})


def group_advantage(score: Tensor, group: Tensor) -> Tensor:
    """(E,) (r - mean) / (std + 1e-6) within each group, with the unbiased standard deviation."""
    return (score - group_mean(score, group)) / (group_std(score, group) + EPSILON)


def group_mean(score: Tensor, group: Tensor) -> Tensor:
    """(E,) the mean score of each episode's group."""
    count = torch.bincount(group).clamp(min=1)
    return (torch.bincount(group, score) / count)[group]


def group_std(score: Tensor, group: Tensor) -> Tensor:
    """(E,) the unbiased standard deviation of scores within each episode's group; 0 for a single episode."""
    count = torch.bincount(group)
    squares = torch.bincount(group, (score - group_mean(score, group)).square())
    return (squares / (count - 1).clamp(min=1)).sqrt()[group]
