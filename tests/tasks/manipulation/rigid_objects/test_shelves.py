"""A shelf and a basket: what stands on the board is placed, and the ball fits through the ring."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from tasks.manipulation.rigid_objects.shelves import BALL, RING, TUBE
from tests.tasks.manipulation.sensed import idle, outcomes
from tests.tasks.manipulation.test_metaworld import start_of


@pytest.mark.parametrize(("height", "placed"), [(0.28, True), (0.09, False)])
def test_a_block_on_the_upper_board_is_placed_and_on_the_lower_not(height: float, placed: bool) -> None:
    """Let go a centimetre above a board it stays, a hand's room before the back."""
    model, data = idle("shelf-place")
    goal = np.asarray(start_of("shelf-place")[1].task_state.goal)
    data.joint("object").qpos[:3] = [goal[0], goal[1] - 0.03, height]
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    block = data.sensor("object1_pos").data
    np.testing.assert_allclose(block, [goal[0], goal[1] - 0.03, height - 0.01], atol=1e-3)
    assert outcomes("shelf-place", {"object1_pos": block[None]})[0] == placed


def test_the_hand_begins_free_of_the_shelf_wherever_that_stands() -> None:
    task, _ = start_of("shelf-place")
    model, data = idle("shelf-place")
    for goal in task.ranges.goal.corners:
        data.mocap_pos[0] = task.place(jnp.asarray(task.ranges.start.low), jnp.asarray(goal)).fixtures["shelf"]
        mujoco.mj_forward(model, data)
        assert model.body("shelf").id not in model.geom_bodyid[data.contact.geom]


@pytest.mark.parametrize(("beside", "free"), [(0.004, True), (0.006, False)])
def test_the_ball_passes_the_ring_with_five_millimetres_of_play(beside: float, free: bool) -> None:
    play = RING - TUBE - BALL
    assert play == pytest.approx(0.005)
    for side in np.eye(3)[:2]:
        model, data = idle("basketball")
        data.joint("object").qpos[:3] = np.asarray(start_of("basketball")[1].task_state.goal) + beside * side
        mujoco.mj_forward(model, data)
        assert (data.ncon == 0) == free


def test_a_ball_that_is_let_go_over_the_ring_falls_through_and_lies_below() -> None:
    model, data = idle("basketball")
    goal = np.asarray(start_of("basketball")[1].task_state.goal)
    data.joint("object").qpos[:3] = goal + np.array([0.0, 0.0, 0.05])
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    np.testing.assert_allclose(data.sensor("object1_pos").data, [*goal[:2], BALL], atol=0.01)
