"""TD3: exploration noise, and target actions that are smoothed and a target network's."""

from __future__ import annotations

import pytest
import torch

from policies.off_policy.td3 import TD3ActorUpdate, TD3Config
from tests.kit.learners import QUICK, learner_of, observe


def test_it_explores_with_noise_of_the_deviation_that_is_set():
    learner = learner_of(TD3Config(**{**QUICK, "warm_up": 0}, noise=0.2), num_envs=4)
    obs = {group: values[:1].expand(4, -1) for group, values in observe().items()}
    actions = torch.stack([learner.act(obs) for _ in range(400)])
    assert actions.std(0).flatten().tolist() == pytest.approx([0.2] * 8, abs=0.03)


def test_target_actions_are_the_target_network_s_with_clipped_noise():
    update = learner_of(TD3Config(**QUICK, target_noise=0.2, target_noise_clip=0.1)).actor_update
    assert isinstance(update, TD3ActorUpdate)
    obs = torch.randn(64, 2)
    before = update.actor(obs).detach().clone()
    with torch.no_grad():
        update.optimizer.vector.mul_(0.5)  # the actor moves, its target network does not
    action, bonus = update.next_action(obs, torch.full((64, 2), 100.0))
    torch.testing.assert_close(action, (before + 0.1).clamp(-1.0, 1.0))
    assert bonus == 0.0
