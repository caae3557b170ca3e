"""A plate and a cabinet: where it stands, what holds the plate and what lets it out."""

from __future__ import annotations

from typing import Any

import jax
import mujoco
import numpy as np
import pytest

from embodied.engines.mjx.buffers import admitted_pairs
from tasks.manipulation.rigid_objects.plates import CABINET_BACK, CABINET_SIDE, PANE, PLATE_HALF, TURNED
from tests.tasks.manipulation.common.test_tabletop import task_of

NAMES = ["plate-slide", "plate-slide-side", "plate-slide-back", "plate-slide-back-side"]
each = pytest.mark.parametrize("name", NAMES)
SPARE = CABINET_SIDE - PANE - PLATE_HALF  # m from the cabinet's middle to where the plate meets a wall
FORCE = 3.0  # N


def begun(name: str, seed: int = 0) -> tuple[Any, Any, mujoco.MjData]:
    """The task, a start that it draws, and the world as it is then."""
    task = task_of(f"manipulation/{name}")
    start = task.reset(jax.random.PRNGKey(seed))
    data = mujoco.MjData(task.model)
    data.qpos = start.qpos
    data.ctrl[:7] = start.task_state.joints
    if start.mocap_pos is not None:
        data.mocap_pos = start.mocap_pos
    mujoco.mj_forward(task.model, data)
    return task, start, data


def go_on(task: Any, data: mujoco.MjData, seconds: float) -> None:
    """Let time pass."""
    mujoco.mj_step(task.model, data, round(seconds / task.model.opt.timestep))


@pytest.mark.parametrize("name", [*NAMES, "soccer", "sweep", "sweep-into"])
def test_nothing_sticks_in_anything_or_moves_by_itself(name: str) -> None:
    for seed in range(5):
        task, _, data = begun(name, seed)
        assert min(data.contact.dist, default=0.0) > -2e-3
        before = data.sensor("object1_pos").data.copy()
        go_on(task, data, 1.0)
        np.testing.assert_allclose(data.sensor("object1_pos").data, before, atol=5e-4)
        assert np.abs(data.qvel[9:]).max() < 1e-2


@each
def test_the_cabinet_holds_the_plate_but_for_its_front(name: str) -> None:
    """Pushed from the middle of the cabinet, in each direction of its frame."""
    task, _, begun_data = begun(name)
    cabinet = begun_data.body("cabinet").xpos[:2].copy()
    x, y = begun_data.body("cabinet").xmat.reshape(3, 3)[:2, :2].T
    deepest = CABINET_BACK - PANE - PLATE_HALF
    for way, least, most in ((x, SPARE, SPARE), (-x, SPARE, SPARE), (y, deepest, deepest), (-y, 0.2, np.inf)):
        data = begun(name)[2]
        for axis in (0, 1):
            joint = data.joint(f"plate_{'xy'[axis]}")
            joint.qpos += cabinet[axis] - data.sensor("object1_pos").data[axis]
            joint.qfrc_applied = FORCE * way[axis]
        data.qpos[:7] = np.array([0, -0.7, 0, -2.3, 0, 1.6, 0.8])  # the arm stays out of the way
        data.ctrl[:7] = data.qpos[:7]
        go_on(task, data, 0.4)
        gone = (data.sensor("object1_pos").data[:2] - cabinet) @ way
        assert least - 2e-3 < gone < most + 2e-3


@each
def test_the_plate_can_go_well_beyond_every_goal(name: str) -> None:
    task = task_of(f"manipulation/{name}")
    for axis in (0, 1):
        low, high = task.model.joint(f"plate_{'xy'[axis]}").range + task.model.body("plate").pos[axis]
        for box in (task.ranges.start, task.ranges.goal):
            assert low + 0.07 < box.low[axis]
            assert box.high[axis] < high - 0.07


def test_a_cabinet_at_the_side_opens_to_the_right() -> None:
    for name in NAMES:
        task = task_of(f"manipulation/{name}")
        assert (task.cabinet_quat == TURNED) == name.endswith("side")


@pytest.mark.parametrize(("name", "pairs", "contacts"), [("plate-slide", 35, 112), ("plate-slide-side", 35, 112)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    """Five shapes of the robot with table, plate, and four of the cabinet; the plate with those four."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
