"""Credit: within groups its mean is zero, what all share teaches nothing, a critic discounts what it expects."""

from __future__ import annotations

import pytest
import torch

from policies.vla.reinforcement.advantages import GroupJudge, group_advantage, outcome_gae, spread
from tests.policies.vla.toy_arena import BRIEF, ToyArena, fresh_policy, toy_episodes

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
    assert (spread(SCORE, GROUP) > 0).tolist() == [True] * 4 + [False] * 3 + [True] * 2 + [False]


def test_every_episode_weighs_the_same_however_long_it_is():
    experience = toy_episodes(fresh_policy(), ToyArena())
    judge = GroupJudge(BRIEF, 1, 2, torch.device("cpu"), 0)
    credit = judge.judge(experience)
    per_number = credit.weight[:, None, None] * experience.acted[..., None].expand_as(experience.tokens)
    weights = torch.zeros(len(experience)).index_add_(0, experience.episode, per_number.sum((1, 2)))
    torch.testing.assert_close(weights, torch.full((len(experience),), 1 / len(experience)))
    assert experience.length.unique().numel() > 1
    kept = experience.only(judge.worth(experience))
    assert set(kept.group.tolist()) == {
        group for group in range(8) if 0 < experience.success[experience.group == group].float().mean() < 1
    }


def test_a_critics_advantages_are_those_of_each_episode_by_itself():
    experience = toy_episodes(fresh_policy(), ToyArena(), seed=3)
    value = torch.rand(len(experience.episode), generator=torch.Generator().manual_seed(0))
    score = experience.score(0.5)
    advantage, returns = outcome_gae(experience, score, value, 0.9, 0.8)
    torch.testing.assert_close(advantage + value, returns)
    for number in range(len(experience)):
        rows = torch.nonzero(experience.episode == number)[:, 0]
        expected, following, ahead = [], 0.0, 0.0
        reward = score[number].item()
        for row in reversed(rows.tolist()):
            delta = reward + 0.9 * following - value[row].item()
            ahead = delta + 0.9 * 0.8 * ahead
            expected.append(ahead)
            following, reward = value[row].item(), 0.0
        torch.testing.assert_close(advantage[rows], torch.tensor(expected[::-1]))


def test_a_failure_is_worth_less_than_a_success_and_more_the_farther_it_came():
    experience = toy_episodes(fresh_policy(), ToyArena())
    solved, score = experience.success, experience.score(0.5)
    assert 0 < solved.sum() < len(experience)
    assert torch.equal(experience.score(0.0), solved.float())
    assert (score[solved] == 1.0).all()
    torch.testing.assert_close(score[~solved], 0.5 * experience.progress[~solved])
    assert (experience.progress[solved] == 1.0).all()
    assert ((experience.progress >= 0) & (experience.progress <= 1)).all()
    assert experience.progress[~solved].unique().numel() > 1
