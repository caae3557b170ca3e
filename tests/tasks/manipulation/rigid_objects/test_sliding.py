"""Plate and cabinet, ball and goal, a swept block: what holds them, what lets them out, where they come to rest."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tasks.manipulation.rigid_objects.plates import CABINET_BACK, CABINET_SIDE, PANE, PLATE_HALF, TURNED
from tasks.manipulation.rigid_objects.soccer import BALL, GOAL_FRONT, GOAL_SIDE
from tests.kit.tabletop import CORNERS, begun, idle, tabletop

each_plate = pytest.mark.parametrize(
    "name", ["plate-slide", "plate-slide-side", "plate-slide-back", "plate-slide-back-side"]
)
SPARE = CABINET_SIDE - PANE - PLATE_HALF  # m from the cabinet's middle to where the plate meets a wall
FORCE = 3.0  # N


@each_plate
def test_the_cabinet_holds_the_plate_but_for_its_front(name: str) -> None:
    """Pushed from the middle of the cabinet, in each direction of its frame."""
    still = begun(name).data
    cabinet = still.body("cabinet").xpos[:2].copy()
    x, y = still.body("cabinet").xmat.reshape(3, 3)[:2, :2].T
    deepest = CABINET_BACK - PANE - PLATE_HALF
    for way, least, most in ((x, SPARE, SPARE), (-x, SPARE, SPARE), (y, deepest, deepest), (-y, 0.2, np.inf)):
        data = begun(name).data
        for axis in (0, 1):
            joint = data.joint(f"plate_{'xy'[axis]}")
            joint.qpos += cabinet[axis] - data.sensor("object1_pos").data[axis]
            joint.qfrc_applied = FORCE * way[axis]
        data.qpos[:7] = np.array([0, -0.7, 0, -2.3, 0, 1.6, 0.8])  # the arm stays out of the way
        data.ctrl[:7] = data.qpos[:7]
        idle(data, 0.4)
        gone = (data.sensor("object1_pos").data[:2] - cabinet) @ way
        assert least - 2e-3 < gone < most + 2e-3


@each_plate
def test_the_plate_can_go_well_beyond_every_goal_and_a_cabinet_at_the_side_opens_to_the_right(name: str) -> None:
    task = tabletop(name)
    assert (task.cabinet_quat == TURNED) == name.endswith("side")
    for axis in (0, 1):
        low, high = task.model.joint(f"plate_{'xy'[axis]}").range + task.model.body("plate").pos[axis]
        for box in (task.ranges.start, task.ranges.goal):
            assert low + 0.07 < box.low[axis]
            assert box.high[axis] < high - 0.07


def kicked(pos: tuple[float, float], velocity: float, corner: int = 0) -> mujoco.MjData:
    """The ball on the table at a place (2) m from the goal's middle, moving to +y (m/s)."""
    _, start, data = begun("soccer", corner)
    data.joint("object").qpos[:3] = [*(start.task_state.goal[:2] + pos), BALL]
    data.joint("object").qvel[1] = velocity
    mujoco.mj_forward(data.model, data)
    return data


def from_goal(data: mujoco.MjData) -> np.ndarray:
    """(3) m from the goal on the ground to the ball's middle."""
    return data.sensor("object1_pos").data - data.mocap_pos[0]


def test_a_ball_rolls_and_comes_to_rest() -> None:
    data = kicked((0.3, -0.3), 0.5)
    before = from_goal(data)[1]
    idle(data, 0.3)
    joint = data.joint("object")
    assert joint.qvel[1] > 0.1
    assert joint.qvel[1] == pytest.approx(-BALL * joint.qvel[3], rel=0.1), "it rolls, it does not slide"
    idle(data, 4.0)
    assert np.abs(joint.qvel[:3]).max() < 5e-3
    assert 0.05 < from_goal(data)[1] - before < 0.3


@pytest.mark.parametrize("speed", [0.4, 1.0])
def test_a_ball_that_is_shot_between_the_posts_stays_in_the_goal(speed: float) -> None:
    for corner, x in zip(CORNERS, (-0.04, 0.0, 0.04), strict=False):
        data = kicked((x, GOAL_FRONT - BALL), speed, corner)
        idle(data, 5.0)
        assert np.linalg.norm(from_goal(data)) < tabletop("soccer").reached


def test_the_nets_stop_a_ball_from_the_side_and_from_behind() -> None:
    data = kicked((0.0, 0.12), -1.0)
    idle(data, 1.0)
    assert from_goal(data)[1] > 0.06
    data = kicked((GOAL_SIDE + 0.06, -0.03), 0.0)
    data.joint("object").qvel[0] = -1.0
    idle(data, 1.0)
    assert from_goal(data)[0] > GOAL_SIDE + BALL


def test_the_goal_of_sweep_is_to_the_right_of_the_block() -> None:
    starts = [begun("sweep", corner).start for corner in CORNERS]
    first = tabletop("sweep").model.joint("object").qposadr[0]
    blocks = np.array([start.qpos[first : first + 3] for start in starts])
    goals = np.array([start.task_state.goal for start in starts])
    assert np.ptp(goals[:, 1]) > 0.05
    np.testing.assert_array_equal(goals[:, 1], blocks[:, 1])
    np.testing.assert_allclose(goals[:, [0, 2]], [[0.5, 0.01]] * len(CORNERS), atol=1e-6)
