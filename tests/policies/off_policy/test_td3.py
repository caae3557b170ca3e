"""TD3 and its relatives: what DDPG leaves out, and exploration noise of each environment's own."""

from typing import Any

import pytest
import torch

from policies.off_policy.ddpg import DDPGConfig
from policies.off_policy.fast_td3 import FastTD3Config
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.td3 import TD3Config
from policies.training.loop import train
from tests.policies.off_policy.test_learner import QUICK, make, observe
from tests.policies.toys import PointMass


def test_ddpg_is_td3_with_one_critic_and_no_delay_or_smoothing():
    def trained(config: TD3Config) -> torch.Tensor:
        learner = train(PointMass(8), config, total_steps=512).algorithm
        assert isinstance(learner, OffPolicyLearner)
        return learner.actor_update.state()["actor"]["parameters"]

    ddpg = trained(DDPGConfig(**QUICK))
    undelayed: dict[str, Any] = {"critics": 1, "policy_delay": 1, "target_delay": 1}
    assert torch.equal(ddpg, trained(TD3Config(**QUICK, **undelayed, target_noise=0.0)))
    assert not torch.equal(ddpg, trained(TD3Config(**QUICK, **undelayed)))
    assert not torch.equal(ddpg, trained(TD3Config(**QUICK, target_noise=0.0)))


def test_environments_explore_with_noise_of_their_own():
    learner = make(FastTD3Config(**{**QUICK, "warm_up": 0}, noise_min=0.0, noise_max=0.3), num_envs=4)
    obs = {group: values[:1].expand(4, -1) for group, values in observe().items()}
    actions = torch.stack([learner.act(obs) for _ in range(400)])
    assert actions.std(0).mean(-1).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3], abs=0.02)
