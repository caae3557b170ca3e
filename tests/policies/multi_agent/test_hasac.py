"""HASAC: with one agent it is SAC; agents learn one after the other, each by what those before it just learned."""

from __future__ import annotations

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.multi_agent.hasac import HASACConfig
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import Sizes
from policies.off_policy.sac import SACConfig
from tests.kit.learners import CONFIGS, assert_one_agent_trains_alike

CONFIG: HASACConfig = CONFIGS["hasac"]


def test_with_one_agent_it_is_sac_bit_for_bit():
    assert_one_agent_trains_alike(SACConfig, HASACConfig, ("critics", "replay"), temperature_learning_rate=3e-3)


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
