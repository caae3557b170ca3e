"""HASAC: with one agent it is SAC; agents learn one after the other, each by what those before it just learned."""

from __future__ import annotations

import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.multi_agent.hasac import HASACConfig
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import Sizes
from policies.off_policy.sac import SACConfig
from policies.training.loop import train
from tests.kit.learners import ACTOR_CRITIC, CONFIGS
from tests.kit.learning import PointMass

CONFIG: HASACConfig = CONFIGS["hasac"]


def test_with_one_agent_it_is_sac_bit_for_bit():
    small = {**ACTOR_CRITIC, "warm_up": 64, "batch_size": 32, "temperature_learning_rate": 3e-3}
    alone, team = (train(PointMass(8), kind(**small), total_steps=8 * 40) for kind in (SACConfig, HASACConfig))
    obs = PointMass(32, 3).reset()["policy"]
    assert torch.equal(alone.policy.network(obs), team.policy.network(obs))
    states = [trees.flatten(trainer.state()) for trainer in (alone, team)]
    shared = [key for key in states[0] if "critics" in key or "replay" in key]
    assert shared
    assert all(torch.equal(states[0][key], states[1][key]) for key in shared)


def build(agents: int = 3) -> ActorUpdate:
    sizes = Sizes(policy=2 * agents, critic=2, action=agents, device=torch.device("cpu"), team=agents)
    return CONFIG.build(sizes, torch.Generator().manual_seed(0))[0]


def test_those_who_learn_later_see_what_those_before_them_learned():
    update = build()
    asked: list[torch.Tensor] = []

    def q_value(action: torch.Tensor) -> torch.Tensor:
        asked.append(action.detach())
        return -action.square().sum(-1)

    noise = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    update.update(torch.ones(16, 6), torch.zeros(16, 3), noise, q_value)
    assert len(asked) == 3
    changed = [(asked[i + 1] != asked[i]).any(0) for i in range(2)]
    assert [int(one.sum()) for one in changed] == [1, 1]  # of the agent that just learned, and of nobody else
    assert (changed[0] != changed[1]).any()


def test_it_refuses_to_learn_from_demonstrations_alone():
    nothing = torch.zeros(1, 6)
    with pytest.raises(EmbodiedError, match="expected offline_updates=0"):
        build().update_offline(nothing, nothing, nothing, lambda action: action)
