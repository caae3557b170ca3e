"""Two hands as two agents do what both hands do under the joined action, and a script moves either."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from embodied.core.episode import flatten_observation
from embodied.core.facets import Team
from embodied.core.world import World
from tests.kit.worlds import jitted, task_of

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
    flat = {"policy": flatten_observation({"policy": single})["policy"]}
    each = {"policy": flatten_observation({"policy": seen}, team.team)["policy"]}
    script, of_both = jitted(team.expert)(each, state), jitted(alone.expert)(flat, state)
    np.testing.assert_allclose(np.ravel(script), of_both, atol=1e-5)
