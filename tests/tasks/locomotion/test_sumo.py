"""Two ants in a ring: who loses, that their rewards are opposed, that neither side nor direction matters."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied.core.world import World
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.evaluation.rollouts import evaluate
from embodied.math.rotations import quat_from_yaw, quat_multiply
from tasks.locomotion.sumo import HEIGHT, Sumo, SumoConfig, TaskState, measured
from tests.kit.hooks import compiled
from tests.kit.worlds import jitted, world

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def task() -> Sumo:
    return compiled(Sumo())


@pytest.fixture
def env() -> Env:
    return world("locomotion/sumo", "mujoco")


def bout(task: Sumo, red=(1.0, 0.0), blue=(-1.0, 0.0), red_roll=0.0, time=1.0) -> tuple[World, TaskState]:
    """Ants that stand there, `red_roll` rad about their x axis."""
    qpos = np.array(task.model.qpos0)
    for at, (x, y), roll in ((0, red, red_roll), (15, blue, 0.0)):
        qpos[at : at + 7] = (x, y, HEIGHT, np.cos(roll / 2), np.sin(roll / 2), 0.0, 0.0)
    now = World.posed(task.model, qpos, np.zeros(task.model.nv))
    away, gap = jitted(measured)(np.asarray(now.qpos).reshape(2, -1)[:, :3])
    return dataclasses.replace(now, time=jnp.asarray(time)), TaskState(away, gap, jnp.zeros(2), jnp.zeros(()))


@pytest.mark.parametrize(
    ("given", "lost"),
    [
        ({}, None),
        ({"red": (2.51, 0.0)}, "red"),
        ({"blue": (0.0, -2.51)}, "blue"),
        ({"red_roll": 1.4}, None),
        ({"red_roll": 1.7}, "red"),
        ({"red_roll": 3.1, "blue": (-2.6, 0.0)}, "blue"),
        ({"red": (2.7, 0.0), "blue": (-2.6, 0.0)}, "red"),
        ({"red": (0.9, 0.0), "time": 15.0}, "blue"),
        ({"red": (1.1, 0.0), "time": 15.0}, "red"),
        ({"red": (1.1, 0.0), "time": 14.9}, None),
    ],
)
def test_who_leaves_the_ring_or_is_turned_over_has_lost_and_in_the_end_who_is_farther_out(task, given, lost) -> None:
    now, state = bout(task, **given)
    outcome, rewards = task.outcome(now, state), task.rewards(now, state, np.zeros((2, 8), np.float32))
    assert (bool(outcome.failure), bool(outcome.success)) == (lost == "red", lost == "blue")
    assert rewards["won"].tolist() == [(lost == "blue") - (lost == "red"), (lost == "red") - (lost == "blue")]


def test_what_one_ant_earns_by_pushing_and_winning_the_other_pays(task: Sumo, env: Env) -> None:
    """Together they earn what both have come closer, and pay for their motors."""
    env.reset(seed=0)
    weights, before = task.reward_weights, np.asarray(env.task_state.gap)
    for _ in range(20):
        action = 2 * torch.rand(env.action_shape) - 1
        step = env.step(action)
        gap = np.asarray(env.task_state.gap)
        closing = (before - gap) / task.timing.control_dt
        alike = 2 * weights["closing"] * closing + weights["ctrl"] * (action**2).sum((1, 2)).numpy()
        goes_on = ~step.done.numpy()
        np.testing.assert_allclose(step.reward.sum(1).numpy()[goes_on], alike[goes_on], atol=1e-3)
        before = gap


def test_an_ant_does_not_see_which_side_or_which_way_it_is(task: Sumo) -> None:
    """The bout turned about the middle of the ring looks the same; of exchanged ants each sees what the other saw."""
    start = task.reset(jax.random.key(3))
    now = World.posed(task.model, start.qpos, start.qvel)
    seen = task.observe(now, start.task_state, jax.random.key(0))["policy"]
    turn = np.asarray(quat_from_yaw(2.0))
    flat = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
    pose, vel = np.array(now.qpos).reshape(2, -1), np.array(now.qvel).reshape(2, -1)
    pose[:, :2], vel[:, :2] = pose[:, :2] @ flat.T, vel[:, :2] @ flat.T
    pose[:, 3:7] = jitted(jax.vmap(quat_multiply, (None, 0)))(turn, pose[:, 3:7])
    turned = dataclasses.replace(now, qpos=jnp.asarray(pose.ravel()), qvel=jnp.asarray(vel.ravel()))
    again = task.observe(turned, start.task_state, jax.random.key(0))["policy"]
    exchanged, state = task.team.seen_by(now, start.task_state, jnp.asarray(1))
    others = task.observe(exchanged, state, jax.random.key(0))["policy"]
    for name in seen:
        np.testing.assert_allclose(again[name], seen[name], atol=1e-5, err_msg=name)
        np.testing.assert_allclose(others[name], seen[name][::-1], atol=1e-6, err_msg=name)


def test_ants_touch_each_other_and_the_floor_and_not_themselves(task: Sumo) -> None:
    model = task.model

    def touching(x: float) -> set[tuple[str, ...]]:
        data = mujoco.MjData(model)
        data.qpos[[0, 15]] = -x / 2, x / 2
        data.qpos[[2, 17]] = 0.5
        mujoco.mj_forward(model, data)
        pairs = [sorted(model.geom(geom).name.split("_")[0] for geom in contact.geom) for contact in data.contact]
        return {tuple(pair) for pair in pairs}

    assert ("blue", "red") in touching(0.6)
    assert not touching(4.0) & {("blue", "blue"), ("red", "red"), ("blue", "red")}
    data = mujoco.MjData(model)
    data.qpos[[0, 15]] = -2.0, 2.0
    standing: set[str] = set()
    for _ in range(200):
        mujoco.mj_step(model, data)
        standing |= {model.geom(geom).name.split("_")[0] for contact in data.contact for geom in contact.geom}
    assert standing == {"floor", "red", "blue"}


def test_a_bout_ends_when_it_is_won_and_is_no_failure_then(env: Env) -> None:
    env.reset(seed=0)
    won = 0
    for _ in range(120):
        step = env.step(2 * torch.rand(env.action_shape) - 1)
        assert not step.truncated.any()
        assert torch.equal(step.success & step.terminated, step.success)
        won += int(step.success.sum())
    assert won > 0
    found = evaluate(env, lambda obs: 2 * torch.rand(env.action_shape) - 1, 16, seed=1).values
    assert torch.equal(found["success"] + found["fall"], torch.ones(16))


def test_returns_are_reported_of_each_side(env: Env) -> None:
    env.reset(seed=1)
    env.statistics()
    total = torch.zeros(env.num_envs, 2)
    ended = torch.zeros(env.num_envs, dtype=torch.bool)
    env.episode_length = torch.full((env.num_envs,), env.max_episode_steps - 5)
    for _ in range(5):
        step = env.step(2 * torch.rand(env.action_shape) - 1)
        total += step.reward * ~ended[:, None]
        ended |= step.done
        for side, agent in (("red", 0), ("blue", 1)):
            returns = step.info[f"return/{side}"]
            torch.testing.assert_close(returns[step.done], total[step.done, agent], rtol=1e-3, atol=1e-3)
    assert ended.all()
    found = env.statistics()
    assert found["episodes"] == env.num_envs
    assert found["return/red"] == pytest.approx(float(total[:, 0].mean()), rel=1e-3)
    assert found["return/blue"] == pytest.approx(float(total[:, 1].mean()), rel=1e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"distance": 1.5}, r"distance=1.5 m, radius=2.5 m; expected ants at least 2.0 m apart"),
        ({"distance": 6.0}, r"expected ants at least 2.0 m apart, so that they do not touch, and both in the ring"),
        ({"seconds": 0.0}, r"seconds=0.0 must be positive"),
    ],
)
def test_a_ring_in_which_nobody_could_fight_is_refused(given, message) -> None:
    with pytest.raises(EmbodiedError, match=message):
        SumoConfig(**given)
