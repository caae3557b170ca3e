"""PPO: advantages are each episode's own GAE."""

from __future__ import annotations

import torch

from policies.vla.reinforcement.ppo import outcome_gae
from tests.kit.vla import fresh_policy, toy_episodes, toy_task


def test_a_critics_advantages_are_those_of_each_episode_by_itself():
    batch = toy_episodes(fresh_policy(), toy_task(), seed=3)
    value = torch.rand(len(batch.episode), generator=torch.Generator().manual_seed(0))
    score = batch.score(0.5)
    advantage, returns = outcome_gae(batch, score, value, 0.9, 0.8)
    torch.testing.assert_close(advantage + value, returns)
    for number in range(len(batch)):
        rows = torch.nonzero(batch.episode == number)[:, 0]
        expected, following, ahead = [], 0.0, 0.0
        reward = score[number].item()
        for row in reversed(rows.tolist()):
            delta = reward + 0.9 * following - value[row].item()
            ahead = delta + 0.9 * 0.8 * ahead
            expected.append(ahead)
            following, reward = value[row].item(), 0.0
        torch.testing.assert_close(advantage[rows], torch.tensor(expected[::-1]))
