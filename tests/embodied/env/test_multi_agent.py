"""A team as one row: what its agents observe, do and earn, one after the other."""

from __future__ import annotations

import pytest
import torch

from embodied.env.multi_agent import AgentsEnv, TeamEnv
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from tests.kit.pushers import TEAM
from tests.kit.worlds import world


def test_a_team_is_a_row_of_the_learner() -> None:
    env = world(TEAM, "mujoco", 4)
    team = TeamEnv(env)
    size = env.observation_spec[POLICY].shape[1]
    assert (team.num_envs, team.team_size, team.action_size) == (4, 3, 12)
    assert team.observation_spec[POLICY].shape == (3 * size,)
    first, action = env.reset()[POLICY].clone(), torch.linspace(-0.5, 0.5, 48).reshape(4, 12)
    expected, following = (env.step(action.reshape(4, 3, 4)) for _ in range(2))
    assert torch.equal(team.reset()[POLICY], first.flatten(1))
    step = team.step(action)
    assert torch.equal(step.reward, expected.reward)
    assert step.reward.shape == (4, 3)
    assert torch.equal(step.obs[POLICY].unflatten(1, (3, size)), expected.obs[POLICY])
    assert torch.equal(step.final_obs[POLICY], expected.final_obs[POLICY].flatten(1))
    assert step.terminated.shape == (4,)
    state = team.state()
    team.step(-action)
    team.load_state(state)
    assert torch.equal(team.step(action).reward, following.reward)


def test_a_team_has_no_mirror() -> None:
    with pytest.raises(EmbodiedError, match="expected an algorithm without symmetry"):
        TeamEnv(world(TEAM, "mujoco", 4)).mirror()


def test_a_policy_of_worlds_acts_for_each_agent_as_there() -> None:
    env = world(TEAM, "mujoco", 4)
    its, expected = load_policy("expert", env), []
    observed = env.reset()
    for _ in range(2):
        expected.append(its(observed))
        observed = env.step(expected[-1]).obs
    rows = AgentsEnv(env)
    script, seen = rows.acting(load_policy("expert", env)), rows.reset()
    for action in expected:
        acted = script(seen)
        assert torch.equal(acted, action.flatten(0, 1))
        seen = rows.step(acted).obs
