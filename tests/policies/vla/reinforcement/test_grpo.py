"""GRPO: advantages have mean zero within a group, and groups of equal returns are dropped."""

from __future__ import annotations

import pytest
import torch

from policies.vla.reinforcement.grpo import GRPOEstimator, group_advantage, group_std
from tests.kit.vla import BRIEF, fresh_policy, toy_episodes, toy_task

GROUP = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 3])
SCORE = torch.tensor([1, 0, 0, 1, 1, 1, 1, 0, 1, 1.0])


def test_advantages_have_mean_zero_and_deviation_one_in_each_group():
    advantage = group_advantage(SCORE, GROUP)
    for group, mixed in ((0, True), (1, False), (2, True), (3, False)):
        own = advantage[group == GROUP]
        assert own.mean().abs() < 1e-6
        assert not mixed or own.std().item() == pytest.approx(1.0, abs=1e-4)
        assert mixed or not own.any()
    assert ((advantage > 0) <= (SCORE > 0)).all()


def test_groups_without_spread_teach_nothing():
    assert (group_std(SCORE, GROUP) > 0).tolist() == [True] * 4 + [False] * 3 + [True] * 2 + [False]


def test_every_episode_weighs_the_same_however_long_it_is():
    batch = toy_episodes(fresh_policy(), toy_task())
    estimator = GRPOEstimator(BRIEF)
    advantages = estimator.estimate(batch)
    per_number = advantages.weight[:, None, None] * batch.executed[..., None].expand_as(batch.tokens)
    weights = torch.zeros(len(batch)).index_add_(0, batch.episode, per_number.sum((1, 2)))
    torch.testing.assert_close(weights, torch.full((len(batch),), 1 / len(batch)))
    assert batch.length.unique().numel() > 1
    kept = batch.select(estimator.keep_mask(batch))
    assert set(kept.group.tolist()) == {
        group for group in range(8) if 0 < batch.success[batch.group == group].float().mean() < 1
    }
