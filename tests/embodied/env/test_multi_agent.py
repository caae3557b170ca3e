"""A team as one row: what its agents observe, do and earn, one after the other."""

from __future__ import annotations

import pytest
import torch

import embodied
from embodied.env.multi_agent import AgentsEnv, TeamEnv
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from tasks.swarm.team.waypoints import WaypointConfig


def swap(worlds: int = 4, agents: int = 3) -> embodied.Env:
    return embodied.make("swarm/swap", worlds, "rigid", seed=0, config=WaypointConfig(agents=agents))


def test_a_team_is_a_row_of_the_learner() -> None:
    env, twin = swap(), swap()
    team = TeamEnv(env)
    size = env.observation_spec[POLICY].shape[1]
    assert (team.num_envs, team.team_size, team.action_size) == (4, 3, 12)
    assert team.observation_spec[POLICY].shape == (3 * size,)
    assert torch.equal(team.reset()[POLICY], twin.reset()[POLICY].flatten(1))
    action = torch.linspace(-0.5, 0.5, 48).reshape(4, 12)
    step, expected = team.step(action), twin.step(action.reshape(4, 3, 4))
    assert torch.equal(step.reward, expected.reward)
    assert step.reward.shape == (4, 3)
    assert torch.equal(step.obs[POLICY].unflatten(1, (3, size)), expected.obs[POLICY])
    assert torch.equal(step.final_obs[POLICY], expected.final_obs[POLICY].flatten(1))
    assert step.terminated.shape == (4,)
    team.load_state(team.state())
    assert torch.equal(team.step(action).reward, twin.step(action.reshape(4, 3, 4)).reward)


def test_a_team_has_no_mirror() -> None:
    with pytest.raises(EmbodiedError, match="expected an algorithm without symmetry"):
        TeamEnv(swap()).mirror()


def test_a_policy_of_worlds_acts_for_each_agent_as_there() -> None:
    env, twin = swap(), swap()
    rows = AgentsEnv(env)
    seen, expected = rows.reset(), twin.reset()
    script, its = rows.acting(load_policy("expert", env)), load_policy("expert", twin)
    for _ in range(2):
        action = its(expected)
        assert torch.equal(script(seen), action.flatten(0, 1))
        seen, expected = rows.step(script(seen)).obs, twin.step(action).obs
