"""Two hands as two agents do what both hands do under the joined action, and a script moves either."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

import embodied
from embodied.core.facets import Team
from embodied.core.world import World
from policies.training.loading import load_policy
from tests.kit.worlds import jitted, task_of

N, STEPS = 2, 12

pytestmark = pytest.mark.timeout(200)


def test_agents_of_two_hands_see_the_same_and_act_as_both() -> None:
    team, alone = task_of("grasping/leap-catch-team"), task_of("grasping/leap-catch")
    assert team.team == Team(2)
    assert team.action_shape == (2, (alone.action_size or 0) // 2)
    start = jitted(alone.reset)(jax.random.key(0))
    world, state, key = World.posed(alone.model, start.qpos, start.qvel), start.task_state, jax.random.key(1)
    seen, single = (jitted(task.observe)(world, state, key)["policy"] for task in (team, alone))
    (number,) = set(seen) - set(single)
    np.testing.assert_array_equal(seen[number], np.eye(2))
    for term, value in single.items():
        np.testing.assert_array_equal(seen[term], np.tile(value, (2, 1)), err_msg=term)
    action = np.random.default_rng(0).uniform(-1, 1, team.action_shape).astype(np.float32)
    ours = jitted(team.process_action)(world, state, action, key)
    theirs = jitted(alone.process_action)(world, state, action.ravel(), key)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["catch", "hand-over"])
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
