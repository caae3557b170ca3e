"""Self-imitation: only successes are learned from, the latest of each task, and as many of each."""

from __future__ import annotations

import dataclasses

import torch

from policies.vla.reinforcement.rollouts import RolloutBatch
from policies.vla.reinforcement.self_imitation import SelfImitationEstimator
from tests.policies.vla.reinforcement.toy_task import BRIEF, fresh_policy, toy_episodes, toy_task


def successes(task: int, seed: int = 0) -> RolloutBatch:
    batch = toy_episodes(fresh_policy(), toy_task(goal=0.5), seed=seed)
    batch = dataclasses.replace(batch, task=torch.full_like(batch.task, task))
    return batch.select(batch.success)


def estimator(**options: int) -> SelfImitationEstimator:
    return SelfImitationEstimator(dataclasses.replace(BRIEF, **options), seed=0)


def replay(made: SelfImitationEstimator, batch: RolloutBatch) -> RolloutBatch:
    replayed = made.estimate(batch).replayed
    assert replayed is not None
    return replayed


def test_what_fails_is_left_out():
    batch = toy_episodes(fresh_policy(), toy_task())
    assert 0 < batch.success.sum() < len(batch)
    assert torch.equal(estimator().keep_mask(batch), batch.success)


def test_each_task_is_replayed_as_often_as_the_others():
    one, other = successes(0), successes(1)
    few = other.select(torch.arange(len(other)) < 3)
    assert len(one) > 5
    replayed = replay(estimator(replay=4), RolloutBatch.concatenate([one, few]))
    assert replayed.task.bincount().tolist() == [4, 3]
    assert replayed.success.all()


def test_the_latest_successes_are_remembered():
    made = estimator(memory=5, replay=100)
    first, second = successes(0, seed=1), successes(0, seed=2)
    assert min(len(first), len(second)) > 5
    last = first.select(torch.arange(len(first)) >= len(first) - 5)
    assert torch.equal(replay(made, first).tokens, last.tokens)
    few = second.select(torch.arange(len(second)) < 2)
    found = replay(made, few)
    assert len(found) == 5
    assert torch.equal(found.select(torch.arange(5) >= 3).tokens, few.tokens)
    assert torch.equal(found.select(torch.arange(5) < 3).tokens, last.select(torch.arange(5) >= 2).tokens)


def test_every_number_counts_the_same():
    advantages = estimator().estimate(batch := successes(0))
    replayed = advantages.replayed
    assert replayed is not None
    assert len(replayed) == min(len(batch), BRIEF.replay)
    numbers = (replayed.executed.sum(1) * replayed.tokens.shape[-1]).float()
    torch.testing.assert_close((advantages.weight * numbers).sum(), torch.tensor(1.0))
    assert advantages.advantage.unique().tolist() == [1.0]
