"""Trials: episodes that begin alike, in one episode of the learner's, and what a policy observes of them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor

import embodied
from embodied.core.facets import CommandRange, Operator
from embodied.core.task import TimeLimit
from embodied.core.world import Outcome
from embodied.env.env import Env
from embodied.env.registry import join_content
from embodied.env.wrappers.steering import SteeredTask, Steering
from embodied.env.wrappers.trials import TERMS, TrialEnv, Trials, by_trials, episodes_per_trial, trial_state
from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.networks.build import make_actor
from policies.networks.config import Architecture, NetworkConfig
from policies.policy import NormalizedActor, Policy
from tasks.manipulation.common.tabletop import TabletopConfig
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import task_of, toy_world

STEPS, EPISODES = 4, 3
KEY = jax.random.PRNGKey(0)


class Enduring(Speck):
    """A speck whose episodes only time ends."""

    def outcome(self, world: Any, state: Any) -> Outcome:
        outcome = super().outcome(world, state)
        return Outcome(success=outcome.success, failure=jnp.zeros((), bool))


class Tried(Trials):
    """Its trials, short ones."""

    def __init__(self) -> None:
        super().__init__(TimeLimit(Enduring(), STEPS), EPISODES)


def trials(num_envs: int = 4, engine: str = "mujoco") -> TrialEnv:
    """Shared environments: each test resets them."""
    return TrialEnv(toy_world(Tried, engine, num_envs))


@pytest.fixture(params=["mujoco", "rigid"])
def env(request: pytest.FixtureRequest) -> TrialEnv:
    return trials(engine=request.param)


def actions(count: int, num_envs: int = 4) -> Tensor:
    """(count, num_envs, 3), of which none explodes."""
    return 1.8 * torch.rand(count, num_envs, 3, generator=torch.Generator().manual_seed(1)) - 0.9


def positions(env: Env) -> np.ndarray:
    return np.array(env.world().qpos)


def test_episodes_of_a_trial_begin_alike_and_the_next_trial_elsewhere(env: TrialEnv) -> None:
    env.reset()
    start, ends = positions(env.env), []
    for number, action in enumerate(actions(STEPS * EPISODES), 1):
        step = env.step(action)
        ends.append((step.terminated | step.truncated).tolist())
        if number in (STEPS, 2 * STEPS):
            np.testing.assert_array_equal(positions(env.env), start)
    assert np.array(ends).sum(0).tolist() == [1] * 4, "the ends of episodes within a trial are none"
    assert all(ends[-1])
    assert (np.abs(positions(env.env) - start).max(1) > 1e-3).all()


def test_a_policy_observes_previous_action_and_reward_and_where_episodes_begin(env: TrialEnv) -> None:
    terms = env.env.observation_terms
    assert tuple(terms["policy"])[-3:] == tuple(terms["critic"])[-3:] == TERMS
    obs = env.reset()
    for group in ("policy", "critic"):
        assert obs[group][:, -5:].tolist() == [[0, 0, 0, 0, 1]] * 4, "nothing came before a trial"
    for number, action in enumerate(actions(STEPS * EPISODES), 1):
        action[:, 0] *= 2  # beyond the limits, to which it is cut
        step = env.step(action)
        begins = torch.full((4, 1), float(number % STEPS == 0))
        expected = torch.cat([action.clamp(-1, 1), step.reward[:, None], begins], -1)
        over = number == STEPS * EPISODES
        for group in ("policy", "critic"):
            seen, final = step.obs[group][:, -5:], step.final_obs[group][:, -5:]
            torch.testing.assert_close(seen, expected * torch.tensor([0.0] * 4 + [1.0]) if over else expected)
            torch.testing.assert_close(final[:, :4], expected[:, :4])
            assert not final[:, 4].any()


def test_an_environment_is_the_same_alone_and_among_others() -> None:
    batch, alone = trials(4).env, trials(1).env
    seeds = (5, 6, 7, 8)
    seen = {0: [batch.reset(seeds)["policy"].clone()]}
    tape = actions(STEPS * EPISODES + 2)
    seen[0] += [batch.step(action).obs["policy"].clone() for action in tape]
    for row, seed in enumerate(seeds):
        own = [alone.reset(seed)["policy"].clone()]
        own += [alone.step(action[row : row + 1]).obs["policy"].clone() for action in tape]
        torch.testing.assert_close(torch.cat(own), torch.stack(seen[0])[:, row], rtol=0, atol=1e-5)


def test_a_resumed_environment_goes_on_bit_for_bit(env: TrialEnv) -> None:
    whole = env
    tape = actions(2 * STEPS * EPISODES)
    whole.reset()
    whole.spread_episode_lengths()
    for action in tape[:7]:
        whole.step(action)
    saved, lengths = trees.unflatten(trees.flatten(whole.state())), whole.episode_length
    expected = [whole.step(action) for action in tape[7:]]
    whole.env.reset(9)
    whole.step(tape[0])
    whole.load_state(saved)
    assert torch.equal(whole.episode_length, lengths)
    for action, ours in zip(tape[7:], expected, strict=True):
        theirs = whole.step(action)
        for one, two in ((ours.obs["policy"], theirs.obs["policy"]), (ours.truncated, theirs.truncated)):
            assert torch.equal(one, two)


def test_trials_are_spread_over_all_their_episodes(env: TrialEnv) -> None:
    env.reset()
    env.spread_episode_lengths()
    assert env.episode_length.tolist() == [0, STEPS + 1, 2 * STEPS + 2, 3]
    ends = torch.stack([(step.terminated | step.truncated) for step in map(env.step, actions(STEPS * EPISODES))])
    assert ends.sum(0).tolist() == [1] * 4
    assert ends.int().argmax(0).tolist() == [11, 6, 1, 8]


def test_memory_lives_through_the_ends_of_episodes_and_no_longer(env: TrialEnv) -> None:
    config = NetworkConfig((8,), architecture=Architecture.GRU, memory=4)
    size = env.observation_spec["policy"].shape[0]
    actor = make_actor(size, 3, config, 1.0, torch.Generator().manual_seed(0))
    policy = Policy(NormalizedActor(actor, torch.zeros(size), torch.ones(size), 10.0), config)
    acting, obs, hidden = policy.acting_in(env), env.reset(), torch.zeros(4, 4)
    for number in range(STEPS * EPISODES + 2):
        if number == STEPS * EPISODES:
            hidden = torch.zeros(4, 4)
        expected, hidden = policy.step(obs["policy"], hidden)
        action = acting(obs)
        torch.testing.assert_close(action, expected.clamp(-1, 1))
        obs = env.step(action).obs


def test_success_is_counted_by_the_number_of_the_episode(env: TrialEnv) -> None:
    env.reset()
    env.statistics()
    for action in actions(2 * STEPS):
        env.step(action)
    found = env.statistics()
    assert found["episodes"] == 8
    assert {name for name in found if name.startswith("success/")} == {"success/episode_1", "success/episode_2"}


def test_numbered_goals_repeat_within_a_trial_and_all_are_met() -> None:
    """A hidden goal of a benchmark: the start that follows comes with the next trial, not with the next episode."""
    task = join_content()["manipulation/reach"].load()(TabletopConfig(hide_goal=True, goals=4))
    task = Trials(task, 2)
    again = jax.jit(task.restart)
    start, numbers, goals = jax.jit(task.reset)(KEY), [], []
    for episode in range(8):
        numbers.append(int(start.task_state.task_state.number))
        goals.append(np.asarray(start.task_state.task_state.goal))
        moved = dataclasses.replace(start.task_state.task_state, goal=jnp.ones(3))
        ended = dataclasses.replace(start.task_state, task_state=moved, begins=jnp.zeros((), bool))
        start = again(jax.random.PRNGKey(episode), ended)
    assert numbers[::2] == numbers[1::2]
    assert sorted(numbers[::2]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(goals[::2], goals[1::2])


def test_a_script_acts_in_a_trial_as_without() -> None:
    task = task_of("manipulation/reach")
    seen = jnp.arange(39.0) / 39
    resets = jax.jit(lambda key: (task.reset(key), Trials(task, 2).reset(key)))
    state, within = (start.task_state for start in resets(KEY))
    expected = task.expert({"policy": seen}, state)
    found = Trials(task, 2).expert({"policy": jnp.concatenate([seen, jnp.ones(6)])}, within)
    np.testing.assert_allclose(found, expected)


class Led(Enduring):
    """Enduring, and told a number."""

    @functools.cached_property
    def operator(self) -> Operator:
        return Operator(ranges=(CommandRange("x", "m", -1.0, 1.0, "spin"),))


class SteeredTrials(SteeredTask):
    """Trials of it that a person may steer."""

    def __init__(self) -> None:
        super().__init__(Trials(Led(), 2))


def test_a_person_may_steer_within_trials() -> None:
    """As in the viewer, where a wrapper lies around them."""
    env = toy_world(SteeredTrials, "mujoco", 1)
    env.reset()
    Steering(env).set_command([0.3])
    assert TrialEnv(env).episode_length.tolist() == [0]
    env.step(torch.zeros(1, 3))
    assert TrialEnv(env).episode_length.tolist() == [1]
    np.testing.assert_allclose(trial_state(env).task_state.spin, [0.3], rtol=1e-6)


def test_what_has_no_trials_is_taken_as_it_is_and_what_cannot_have_them_is_said() -> None:
    plain = embodied.make("swarm/hover", 1)
    assert by_trials(plain) is plain
    assert episodes_per_trial(plain) is None
    with pytest.raises(ValueError, match=r"swarm/hover has no trials; expected embodied.make\(..., episodes_per_trial"):
        TrialEnv(plain)
    with pytest.raises(EmbodiedError, match="episodes_per_trial=0; expected a whole number, from 1 to 2147483647"):
        embodied.make("swarm/hover", 1, episodes_per_trial=0)
    with pytest.raises(EmbodiedError, match="episodes_per_trial=2: Formation is a team's, agents=8; expected a"):
        embodied.make("swarm/formation", 1, episodes_per_trial=2)
    with pytest.raises(EmbodiedError, match="episode_steps=0; expected a whole number, from 1 to 2147483647"):
        embodied.make("swarm/hover", 1, episode_steps=0)
