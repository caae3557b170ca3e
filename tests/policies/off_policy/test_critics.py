"""Bellman targets: the minimum over critics, over a random subset of them, or each critic's own."""

from typing import Any

import torch

from policies.off_policy.critics import BellmanUpdate
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.td3 import TD3Config
from tests.policies.off_policy.test_learner import QUICK, make


def critics_of(**changes: Any) -> BellmanUpdate:
    critics = make(TD3Config(**QUICK, **changes)).critic_update
    assert isinstance(critics, BellmanUpdate)
    return critics


def test_targets_take_the_lowest_critic_or_each_its_own():
    outputs = torch.tensor([[[1.0], [5.0]], [[3.0], [2.0]]])  # two critics, two states
    rows = Batch({}, torch.zeros(2, 2), torch.zeros(2), torch.ones(2), {})
    lowest = critics_of().target(outputs, rows, 0.0, torch.Generator())
    own = critics_of(clipped_double=False).target(outputs, rows, 0.0, torch.Generator())
    assert lowest.tolist() == [[[1.0], [2.0]]]
    assert own.tolist() == outputs.tolist()
    some = critics_of(target_critics=1)
    generator = torch.Generator().manual_seed(0)
    drawn = {tuple(some.target(outputs, rows, 0.0, generator).flatten().tolist()) for _ in range(20)}
    assert drawn == {(1.0, 5.0), (3.0, 2.0)}
