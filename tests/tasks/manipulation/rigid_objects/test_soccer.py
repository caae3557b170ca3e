"""A ball that rolls and comes to rest, and a goal that keeps it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from embodied.engines.mjx.buffers import admitted_pairs
from tasks.manipulation.rigid_objects.soccer import BALL, GOAL_FRONT, GOAL_SIDE
from tests.tasks.manipulation.common.test_tabletop import task_of
from tests.tasks.manipulation.rigid_objects.test_plates import begun, go_on


def kicked(pos: np.ndarray, velocity: float, seed: int = 0) -> mujoco.MjData:
    """The ball on the table at a place (2) m from the goal's middle, moving to +y (m/s)."""
    _, start, data = begun("soccer", seed)
    data.joint("object").qpos[:3] = [*(np.asarray(start.task_state.goal)[:2] + pos), BALL]
    data.joint("object").qvel[1] = velocity
    mujoco.mj_forward(data.model, data)
    return data


def from_goal(data: mujoco.MjData) -> np.ndarray:
    """(3) m from the goal on the ground to the ball's middle."""
    return data.sensor("object1_pos").data - data.mocap_pos[0]


def test_a_ball_rolls_and_comes_to_rest() -> None:
    task = task_of("manipulation/soccer")
    data = kicked(np.array([0.3, -0.3]), 0.5)
    before = from_goal(data)[1]
    go_on(task, data, 0.3)
    joint = data.joint("object")
    assert joint.qvel[1] > 0.1
    assert joint.qvel[1] == pytest.approx(-BALL * joint.qvel[3], rel=0.1), "it rolls, it does not slide"
    go_on(task, data, 4.0)
    assert np.abs(joint.qvel[:3]).max() < 5e-3
    assert 0.05 < from_goal(data)[1] - before < 0.3


@pytest.mark.parametrize("speed", [0.4, 1.0])
def test_a_ball_that_is_shot_between_the_posts_stays_in_the_goal(speed: float) -> None:
    task = task_of("manipulation/soccer")
    for seed, x in enumerate((-0.04, 0.0, 0.04)):
        data = kicked(np.array([x, GOAL_FRONT - BALL]), speed, seed)
        go_on(task, data, 5.0)
        assert np.linalg.norm(from_goal(data)) < task.reached


def test_the_nets_stop_a_ball_from_the_side_and_from_behind() -> None:
    task = task_of("manipulation/soccer")
    data = kicked(np.array([0.0, 0.12]), -1.0)
    go_on(task, data, 1.0)
    assert from_goal(data)[1] > 0.06
    data = kicked(np.array([GOAL_SIDE + 0.06, -0.03]), 0.0)
    data.joint("object").qvel[0] = -1.0
    go_on(task, data, 1.0)
    assert from_goal(data)[0] > GOAL_SIDE + BALL


def test_pairs_and_contacts_are_few() -> None:
    """Five shapes of the robot with table, ball, and four of the goal; the ball with the table and those four."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of("manipulation/soccer").model
    assert admitted_pairs(model) == 35
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (90,)
