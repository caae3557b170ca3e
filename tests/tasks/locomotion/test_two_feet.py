"""Handstand and footstand: balanced starts, the pose that rises, what earns and what counts as balance."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.rotations import quat_rotate
from embodied.world import World
from tasks.locomotion import go1, go2
from tasks.locomotion.two_feet import RISING, Handstand, TwoFeetConfig

TASKS = [go1.Handstand, go1.Footstand, go2.Handstand, go2.Footstand]
KEY = jax.random.PRNGKey(0)


def beginning(kind: type[Handstand], upright: float) -> tuple[Handstand, Any]:
    task = kind(TwoFeetConfig(upright_starts=upright, without=("all",)))
    return task, task.reset(KEY)


@pytest.mark.parametrize("kind", TASKS)
def test_upright_starts_balance_and_standing_ones_do_not(kind: type[Handstand]) -> None:
    for upright in (1.0, 0.0):
        task, start = beginning(kind, upright)
        world = World.posed(task.model, start.qpos, start.qvel)
        terms = task.rewards(world, start.memory, jnp.zeros(12))
        assert float(terms["balance"]) == upright
        assert (float(terms["height"]) > 0.8) == bool(upright)
        assert not bool(task.outcome(world, start.memory).failure)


@pytest.mark.parametrize("kind", TASKS)
def test_moving_or_leaning_away_from_the_feet_earns_less_support(kind: type[Handstand]) -> None:
    task, start = beginning(kind, 1.0)

    def support(speed: Any) -> float:
        qvel = start.qvel.at[:3].set(speed)
        return float(task.rewards(World.posed(task.model, start.qpos, qvel), start.memory, jnp.zeros(12))["support"])

    forward = quat_rotate(start.qpos[3:7], jnp.array([0.0, 0.0, 1.0]))  # the belly's way is level while upright
    assert support(jnp.zeros(3)) > 0.6
    assert support(1.0 * forward) < 0.2
    assert support(-1.0 * forward) < 0.2


@pytest.mark.parametrize("kind", TASKS)
def test_a_robot_on_its_rump_or_its_nose_fails(kind: type[Handstand]) -> None:
    task, start = beginning(kind, 1.0)
    sunk = start.qpos.at[2].set(0.6 * task.robot.height)
    world = World.posed(task.model, sunk, start.qvel)
    assert not float(task.rewards(world, start.memory, jnp.zeros(12))["balance"])
    assert bool(task.outcome(world, start.memory).failure)


@pytest.mark.parametrize("kind", TASKS)
def test_the_pose_rises_from_standing_to_balancing_no_faster_than_said(kind: type[Handstand]) -> None:
    task, start = beginning(kind, 0.0)
    memory, poses = start.memory, [np.asarray(start.memory.pose)]
    np.testing.assert_allclose(poses[0], task.layout.stance, atol=1e-6)
    act = jax.jit(lambda memory: task.act(None, memory, jnp.zeros(12), KEY)[1])  # type: ignore[arg-type]
    for _ in range(60):
        memory = act(memory)
        poses.append(np.asarray(memory.pose))
    assert np.abs(np.diff(poses, axis=0)).max() <= RISING * task.timing.control_dt + 1e-5
    np.testing.assert_allclose(poses[-1], task.upright_pose, atol=1e-5)
