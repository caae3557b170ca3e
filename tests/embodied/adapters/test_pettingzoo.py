"""The PettingZoo adapter passes PettingZoo's own tests and says what is wrong."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils.conversions import parallel_to_aec

import embodied
from embodied.adapters.pettingzoo import PettingZooEnv, agent_names, parallel_env
from embodied.core.facets import Team
from embodied.env.vec_env import vector_sizes
from embodied.errors import ActionError, EmbodiedError, UnknownNameError
from tests.kit.pushers import TEAM


@pytest.fixture(scope="module")
def env() -> PettingZooEnv:
    """Shared by all; each test resets it with a seed."""
    env = parallel_env(TEAM)
    env.reset()
    env.env.episode_length = torch.tensor([env.env.max_episode_steps - 1])
    env.step({agent: np.zeros(4, np.float32) for agent in env.agents})
    return env


@pytest.mark.timeout(200)
def test_pettingzoo_accepts_it(env: PettingZooEnv) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(env, num_cycles=40)


@pytest.mark.timeout(200)
def test_pettingzoo_accepts_it_agent_by_agent(env: PettingZooEnv) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # observations have no bounds, which the test remarks on
        api_test(parallel_to_aec(env), num_cycles=10)


def test_a_seed_decides_the_start_and_a_reset_without_one_takes_the_next(env: PettingZooEnv) -> None:
    first, again, other = (env.reset(seed=seed)[0]["agent_0"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    env.reset(seed=3)
    np.testing.assert_array_equal(env.reset()[0]["agent_0"], other)
    assert not np.array_equal(first, other)


@pytest.mark.slow
def test_seeds_decide_everything() -> None:
    parallel_seed_test(lambda: parallel_env(TEAM), num_cycles=3)


def test_it_shows_what_the_batched_environment_shows(env: PettingZooEnv) -> None:
    batched, action = env.env, 0.3 * torch.ones(1, 3, 4)
    rows = batched.reset(7)["policy"][0].clone()
    step = batched.step(action)
    observations, infos = env.reset(seed=7)
    assert list(observations) == env.agents == ["agent_0", "agent_1", "agent_2"]
    assert infos == {agent: {} for agent in env.agents}
    for number, agent in enumerate(env.agents):
        np.testing.assert_array_equal(observations[agent], rows[number])
    assert env.state().shape == env.state_space.shape == (3 * vector_sizes(batched.observation_spec)["critic"],)
    observations, rewards, terminated, truncated, infos = env.step(
        dict(zip(env.agents, action[0].numpy(), strict=True))
    )
    for number, agent in enumerate(env.agents):
        np.testing.assert_array_equal(observations[agent], step.obs["policy"][0, number])
        assert rewards[agent] == pytest.approx(float(step.reward[0, number]))
    assert not any(terminated.values())
    assert not any(truncated.values())
    assert infos["agent_0"] == {"success": False}


def test_agents_of_a_game_are_called_by_their_sides() -> None:
    env = parallel_env("swarm/tag", engine="rigid")
    assert env.possible_agents == ["predators_0", "predators_1", "predators_2", "prey_0"]
    assert agent_names(Team(3, {"b": (0, 2), "a": (1,)})) == ["b_0", "a_0", "b_1"]


def test_an_episode_ends_for_all_at_once(env: PettingZooEnv) -> None:
    env.reset(seed=1)
    idle = np.array([0.0, 0.0, -1.0, 0.0], np.float32)  # down to the floor
    observations, terminated = {}, {}
    while env.agents:
        observations, _, terminated, _, _ = env.step(dict.fromkeys(env.agents, idle))
    assert list(terminated.values()) == [True] * 3
    assert len(observations) == 3
    with pytest.raises(ActionError, match=r"no agent is alive: call reset\(\)"):
        env.step({})


KNOWN = "agent_0, agent_1, agent_2"
ACTIONS: dict[str, tuple[Any, str]] = {
    "none": (None, f"actions=None; expected a mapping of actions by agents: {KNOWN}"),
    "a list": ([np.zeros(4)] * 3, "actions=[array("),
    "a number": (3, "actions=3; expected a mapping of actions by agents"),
    "another agent": ({"x": np.zeros(4)}, f"an action of the unknown agent 'x'; known: {KNOWN}"),
    "a numbered agent": ({0: np.zeros(4)}, f"an action of the unknown agent 0; known: {KNOWN}"),
    "no action": ({"agent_0": None}, "an action "),
    "text": ({"agent_0": "left"}, "action is 'left'; expected an array of numbers in [-1, 1]"),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_what_are_no_actions_is_refused_in_a_line(env: PettingZooEnv, name: str) -> None:
    env.reset(seed=0)
    actions, expected = ACTIONS[name]
    if isinstance(actions, dict):
        actions = dict.fromkeys(env.agents, np.zeros(4, np.float32)) | actions
    with pytest.raises(ActionError) as caught:
        env.step(actions)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("options", [3, "x", [], ()])
def test_what_are_no_options_is_refused_in_a_line(env: PettingZooEnv, options: Any) -> None:
    with pytest.raises(EmbodiedError, match=r"^options=.*; expected a mapping"):
        env.reset(options=options)


def test_messages(env: PettingZooEnv) -> None:
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"no action for \['agent_1', 'agent_2'\]; expected one for each of the 3"):
        env.step({"agent_0": np.zeros(4, np.float32)})
    with pytest.raises(ActionError, match=r"an action has shape \(2,\); expected \(4,\)"):
        env.step(dict.fromkeys(env.agents, np.zeros(2, np.float32)))
    with pytest.raises(UnknownNameError, match="agent_7"):
        env.action_space("agent_7")
    with pytest.raises(UnknownNameError, match="human"):
        parallel_env(TEAM, render_mode="human")
    with pytest.raises(EmbodiedError, match="num_envs=2: PettingZoo steps one world at a time"):
        PettingZooEnv(embodied.make(TEAM, 2))
    with pytest.raises(EmbodiedError, match="this task has one robot and no agents"):
        parallel_env("swarm/hover", engine="rigid")
