"""Episodes with recorded decisions: groups begin alike, go apart, and nobody looks at what is over."""

from __future__ import annotations

import pytest
import torch

from policies.vla.reinforcement.rollouts import RolloutBatch
from tests.kit.vla import COARSE, ToyEnv, fresh_policy, toy_episodes, toy_task


def test_a_group_begins_alike_is_told_the_same_and_goes_apart():
    batch = toy_episodes(fresh_policy(), toy_task())
    first = batch.decision_index == 0
    assert first.sum() == len(batch) == 32
    for group in range(8):
        own = batch.group == group
        seen = batch.pixels[first][own]
        assert torch.equal(seen, seen[:1].expand_as(seen))
        assert batch.instruction[own].unique().numel() == 1
        assert batch.tokens[first][own].flatten(1).unique(dim=0).shape[0] > 1
    assert batch.success[batch.group == 0].numel() == 4


@pytest.mark.parametrize("execute", [0, 3])
def test_what_is_over_is_neither_looked_at_nor_counted(execute):
    task = toy_task()
    assert isinstance(task.env, ToyEnv)
    batch = toy_episodes(fresh_policy(execute=execute), task)
    assert torch.equal(batch.action_counts, batch.length)
    assert sum(map(len, task.env.cameras.looked)) == len(batch.episode)
    stride = execute or COARSE.chunk
    for number in range(len(batch)):
        rows = batch.episode == number
        assert rows.sum() == -(-batch.length[number] // stride)
        assert torch.equal(batch.elapsed[rows], torch.arange(int(rows.sum())) * stride / task.horizon)
    assert not batch.executed[:, stride:].any()
    assert (batch.length < task.horizon).any()


def test_experience_is_selected_and_joined_without_losing_whose_is_what():
    one, other = (toy_episodes(fresh_policy(), toy_task(), seed=seed) for seed in (0, 1))
    joined = RolloutBatch.concatenate([one, other])
    assert joined.group.unique().tolist() == list(range(16))
    assert joined.instructions == one.instructions
    again = joined.select(joined.group >= 8)
    assert torch.equal(again.episode, other.episode)
    for name in ("pixels", "tokens", "log_prob", "executed", "success", "instruction"):
        assert torch.equal(getattr(again, name), getattr(other, name))


def test_a_failure_is_worth_less_than_a_success_and_more_the_farther_it_came():
    batch = toy_episodes(fresh_policy(), toy_task())
    solved, score = batch.success, batch.score(0.5)
    assert 0 < solved.sum() < len(batch)
    assert torch.equal(batch.score(0.0), solved.float())
    assert (score[solved] == 1.0).all()
    torch.testing.assert_close(score[~solved], 0.5 * batch.progress[~solved])
    assert (batch.progress[solved] == 1.0).all()
    assert ((batch.progress >= 0) & (batch.progress <= 1)).all()
    assert batch.progress[~solved].unique().numel() > 1


def test_what_is_reached_and_lost_again_is_no_success_and_worth_more_the_longer_it_lasted():
    once, held = (toy_episodes(fresh_policy(), toy_task(goal=0.5, hold=hold)) for hold in (1, 4))
    lost = once.success & ~held.success
    assert lost.any()
    assert held.success.any()
    assert (held.length[held.success] >= 4).all()
    assert (held.length[held.success] >= once.length[held.success] + 3).all()
    assert (held.progress[lost] < 1.0).all()
    assert held.progress[lost].unique().numel() > 1
    torch.testing.assert_close(held.progress[held.success], torch.ones(int(held.success.sum())))
