"""Steering: the command that a person sets is the one observed and rewarded; pushes move what they push."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.core.facets import CommandRange
from embodied.core.world import World
from embodied.env.env import Env
from embodied.env.registry import join_content
from embodied.env.wrappers.steering import SteeredTask, Steering, is_rate, movable
from embodied.errors import EmbodiedError
from tests.kit.budget import sharing
from tests.kit.worlds import task_of, world

WALKS, FLIES, TEAM = "locomotion/go1-joystick-flat", "swarm/hover", "swarm/formation"
STEERED = [WALKS, FLIES, TEAM]
ALSO_STEERED = ["swarm/swap", "manipulation/reach", "manipulation/push", "manipulation/track-pose",
                "grasping/leap-pour", "grasping/leap-reorient", "swarm/trajectory", "swarm/landing",
                "locomotion/reach-cheetah-11-leftfleg", "locomotion/g1-joystick-flat"]  # fmt: skip


@functools.cache
def steered_world(name: str) -> tuple[Env, Steering]:
    """Two environments that may be steered, and were."""
    with sharing(f"{name}, steered"):
        env = embodied.make(name, 2, "mujoco", wrappers=[SteeredTask])
        env.reset(0)
        env.episode_length = torch.full((2,), env.max_episode_steps - 1)
        still(env, 2)
        steering = Steering(env)
        steering.set_command(None)
        steering.read()
    return env, steering


def steered(name: str) -> tuple[Env, Steering]:
    env, steering = steered_world(name)
    env.reset(0)
    return env, steering


def still(env: Env, steps: int = 1) -> Any:
    for _ in range(steps - 1):
        env.step(torch.zeros(env.action_shape))
    return env.step(torch.zeros(env.action_shape))


@pytest.mark.parametrize(
    "name", [*STEERED, *(pytest.param(name, marks=pytest.mark.slow) for name in ALSO_STEERED if name in join_content())]
)
def test_a_command_is_set_in_the_state_and_measured_in_the_same_numbers(name: str) -> None:
    task = SteeredTask(task_of(name))
    drawn = jax.eval_shape(task.reset, jax.random.PRNGKey(0))
    start = jax.tree.map(lambda leaf: jnp.asarray(np.full(leaf.shape, leaf.dtype != bool, leaf.dtype)), drawn)
    ranges = task.command_ranges
    assert ranges or name == "swarm/swap"
    wanted = jnp.asarray([one.low + 0.3 * (one.high - one.low) for one in ranges])
    state = start.task_state
    told = SteeredTask.outer_state(task, state.task_state, state.__class__(
        state.task_state, jnp.ones((), bool), wanted, state.wrench, state.push_steps))  # fmt: skip
    np.testing.assert_allclose(task.command_of(told), wanted, atol=1e-5)
    assert jax.tree.structure(told) == jax.tree.structure(state)
    assert jax.tree.map(jnp.shape, told) == jax.tree.map(jnp.shape, state)
    assert task.operator is not None
    assert task.operator.measured_command(World.zeros(task.model), told).shape == (len(ranges),)
    # What is not steered stays as the task has it.
    np.testing.assert_array_equal(task.command_of(state), task.command_of(task.outer_state(state.task_state, state)))


def test_the_command_is_the_one_that_is_observed_and_rewarded() -> None:
    env, steering = steered(WALKS)
    steering.set_command([0.5, -0.2, 0.9])
    step = still(env)
    place = sum(int(np.prod(shape)) for shape in list(env.observation_terms["policy"].values())[:-1])
    assert list(env.observation_terms["policy"])[-1] == "command"
    np.testing.assert_allclose(step.obs["policy"][:, place:], np.tile([0.5, -0.2, 0.9], (2, 1)), atol=1e-6)
    task, state = env.task, env.task_state
    rewards = jax.jit(jax.vmap(lambda world, state: task.rewards(world, state, jnp.zeros(12))))(env.world(), state)
    wrong = np.linalg.norm(np.asarray(env.world()["linvel"])[:, :2] - [0.5, -0.2], axis=1)
    sigma = env.task.config.tracking_sigma
    np.testing.assert_allclose(rewards["tracking_linvel"], np.exp(-(wrong**2) / sigma), rtol=1e-4)


def test_a_command_outlasts_the_episode_until_it_is_given_back() -> None:
    env, steering = steered(WALKS)
    steering.set_command([0.7, 0.1, -0.3])
    env.episode_length = torch.full((2,), env.max_episode_steps - 1)
    assert bool(still(env).truncated.all())
    np.testing.assert_allclose(steering.read()[0], np.tile([0.7, 0.1, -0.3], (2, 1)), atol=1e-6)
    steering.set_command(None)
    env.episode_length = torch.full((2,), env.max_episode_steps - 1)
    still(env)
    assert np.abs(steering.read()[0] - [0.7, 0.1, -0.3]).max() > 0.01


def test_a_command_is_cut_to_its_ranges_and_one_of_another_length_refused() -> None:
    _, steering = steered(FLIES)
    steering.set_command([9.0, 0.0, -9.0])
    np.testing.assert_allclose(steering.read()[0], np.tile([1.0, 0.0, 1.0], (2, 1)), atol=1e-6)
    with pytest.raises(EmbodiedError, match=r"command \[1.0\]; expected 3 numbers: x \(m\), y \(m\), z \(m\)"):
        steering.set_command([1.0])
    with pytest.raises(EmbodiedError, match="expected 3 numbers"):
        steering.set_command([np.nan, 0.0, 2.0])
    with pytest.raises(EmbodiedError, match="is not steered; make it with wrappers"):
        Steering(embodied.make(FLIES))


def test_a_formation_is_moved_as_a_whole_and_stands_still_there() -> None:
    task, random = SteeredTask(task_of(TEAM)), np.random.default_rng(0)
    drawn = jax.eval_shape(task.reset, jax.random.PRNGKey(0)).task_state
    state = jax.tree.map(lambda leaf: jnp.asarray(random.random(leaf.shape), leaf.dtype), drawn)
    told = dataclasses.replace(state, steered=jnp.ones((), bool), command=jnp.array([0.5, -0.5, 1.8]))
    before, goal = np.asarray(state.task_state.goal.point), task.outer_state(state.task_state, told).task_state.goal
    after = np.asarray(goal.point)
    np.testing.assert_allclose(after.mean(0), [0.5, -0.5, 1.8], atol=1e-5)
    np.testing.assert_allclose(after - after.mean(0), before - before.mean(0), atol=1e-5)
    assert np.asarray(state.task_state.goal.velocity).any()
    assert not np.asarray(goal.velocity).any()


@pytest.mark.parametrize("name", [FLIES, WALKS])
def test_a_push_moves_the_pushed_body_of_one_environment_for_its_time(name: str) -> None:
    pushed = []
    for force in (0.0, 1.0):
        env, steering = steered(name)
        mass = float(env.task.model.body_subtreemass[1])
        steering.push(1, movable(env.task.model)[0], [0.0, 10 * mass * force, 0.0], seconds=0.1)
        still(env, round(0.1 / env.control_dt))
        pushed.append(np.asarray(env.world().qvel)[:, 1].copy())
        assert not np.asarray(env.task_state.push_steps).any()
    change = pushed[1] - pushed[0]
    assert change[0] == pytest.approx(0.0, abs=1e-4)
    assert 0.3 < change[1] < 1.6  # 10 m/s^2 for 0.1 s, less what feet on the floor hold back


def test_what_cannot_be_pushed_is_refused() -> None:
    _, steering = steered(FLIES)
    with pytest.raises(EmbodiedError, match="body 0 cannot be pushed; expected one of 1"):
        steering.push(0, 0, [1.0, 0.0, 0.0])
    with pytest.raises(EmbodiedError, match="there is no environment 2; expected 0 to 1"):
        steering.push(2, 1, [1.0, 0.0, 0.0])


def test_a_task_that_nobody_steers_goes_as_without() -> None:
    plain, env = world(FLIES, "mujoco"), steered(FLIES)[0]
    for own in (plain, env):
        own.reset(3)
    np.testing.assert_allclose(still(env, 5).obs["critic"], still(plain, 5).obs["critic"][:2], rtol=1e-5, atol=1e-6)


def test_ranges_are_given_the_smaller_first_and_rates_are_told_by_their_unit() -> None:
    with pytest.raises(ValueError, match=r"x from 1.0 to 1.0: expected the smaller value first"):
        CommandRange("x", "m", 1.0, 1.0, "target")
    assert is_rate(CommandRange("forward", "m/s", -1.0, 1.0, "command"))
    assert not is_rate(CommandRange("x", "m", -1.0, 1.0, "target"))
