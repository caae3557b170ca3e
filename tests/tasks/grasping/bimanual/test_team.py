"""Two hands as two agents do what both hands do under the joined action, and a script moves either."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import embodied
from policies.training.loading import load_policy

N, STEPS = 2, 12

pytestmark = pytest.mark.timeout(200)


@pytest.mark.parametrize("name", ["catch", pytest.param("hand-over", marks=pytest.mark.slow)])
def test_two_agents_are_both_hands_to_the_bit(name: str) -> None:
    team = embodied.make(f"grasping/leap-{name}-team", N, "mujoco", device="cpu")
    alone = embodied.make(f"grasping/leap-{name}", N, "mujoco", device="cpu")
    assert team.agents == 2
    assert team.action_shape == (N, 2, alone.action_size // 2)
    seen, single = team.reset(seed=1), alone.reset(seed=1)
    script, of_both = load_policy("expert", team), load_policy("expert", alone)
    for _ in range(STEPS):
        assert torch.equal(seen["policy"][..., :-2], single["policy"][:, None].expand(-1, 2, -1))
        assert torch.equal(seen["policy"][..., -2:], torch.eye(2).expand(N, -1, -1))
        actions = script(seen)
        torch.testing.assert_close(actions.flatten(1), of_both(single), rtol=0.0, atol=1e-5)
        ours, theirs = team.step(actions), alone.step(actions.flatten(1))
        assert torch.equal(ours.reward, theirs.reward[:, None].expand(-1, 2))
        np.testing.assert_array_equal(np.asarray(team.world().qpos), np.asarray(alone.world().qpos))
        seen, single = ours.obs, theirs.obs
