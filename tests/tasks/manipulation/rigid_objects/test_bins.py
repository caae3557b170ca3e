"""Bins and a box: what is seen is what is felt, every start stands free, and a lid lies on the box."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from tasks.manipulation.rigid_objects.bins import HANDLE, RIM, TRAY_TOP
from tests.tasks.manipulation.common.test_tabletop import task_of
from tests.tasks.manipulation.sensed import idle
from tests.tasks.manipulation.test_metaworld import start_of


def test_the_bins_shapes_fill_what_is_drawn_of_them() -> None:
    model, _ = idle("bin-picking")
    boxes = {True: [], False: []}
    for geom in np.flatnonzero(model.geom_bodyid == model.body("bins").id):
        pos, size = model.geom_pos[geom], model.geom_size[geom]
        boxes[bool(model.geom_contype[geom])].append((pos - size, pos + size))
    for low, high in boxes[False]:
        points = np.random.default_rng(0).uniform(low, high, (200, 3))
        inside = [((points >= a - 1e-6) & (points <= b + 1e-6)).all(1) for a, b in boxes[True]]
        assert np.any(inside, axis=0).all()


def test_a_block_stands_free_in_its_bin_wherever_it_was_drawn() -> None:
    """Meta-World draws it up to 2 cm into the walls."""
    task, _ = start_of("bin-picking")
    model, data = idle("bin-picking")
    for corner in task.ranges.start.corners:
        data.joint("object").qpos[:3] = task.place(jnp.asarray(corner, jnp.float32), jnp.zeros(3)).joints["object"]
        mujoco.mj_forward(model, data)
        bodies = [{int(model.geom_bodyid[geom]) for geom in contact.geom} for contact in data.contact]
        assert {model.body("bins").id, model.body("object").id} in bodies, "it stands on the bottom"
        assert data.contact.dist.min() > -1e-4


def test_the_lid_weighs_what_metaworlds_does() -> None:
    model = task_of("manipulation/box-close").model
    lid = model.body("object")
    assert lid.mass[0] == pytest.approx(0.25)
    assert (np.sort(lid.inertia) > 0.5e-3).all()
    assert (np.sort(lid.inertia) < 5e-3).all()


def closed() -> tuple[mujoco.MjModel, mujoco.MjData, np.ndarray]:
    """The world with the lid 5 mm above its place on the box, and the goal."""
    model, data = idle("box-close")
    goal = np.asarray(start_of("box-close")[1].task_state.goal)
    data.joint("object").qpos[:3] = [*goal[:2], TRAY_TOP + 0.005]
    return model, data, goal


@pytest.mark.parametrize("push", [0.0, 3.0])
def test_a_lid_that_is_let_go_over_the_box_closes_it_and_holds(push: float) -> None:
    """Newtons from the side, more than friction withstands: the rim does, with 5 mm of play."""
    model, data, goal = closed()
    data.xfrc_applied[model.body("object").id, 0] = push
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    lid = data.sensor("object1_pos").data
    np.testing.assert_allclose(lid, [*goal[:2], TRAY_TOP], atol=0.008)
    assert (abs(lid[0] - goal[0]) > 0.003) == (push > 0)
    assert np.linalg.norm(lid - goal) < task_of("manipulation/box-close").reached


def test_the_lids_rim_stands_on_the_table_and_its_bar_is_within_the_hands_reach() -> None:
    model, data = idle("box-close")
    bar = next(g for g in range(model.ngeom) if model.geom_pos[g][2] == pytest.approx(HANDLE) and model.geom_contype[g])
    assert model.geom_size[bar][0] < 0.03, "the fingers open by 4 cm either way"
    assert data.geom_xpos[bar][2] == pytest.approx(RIM + HANDLE)
    mujoco.mj_step(model, data, nstep=10)
    touching = {mujoco.mjtGeom(int(model.geom_type[max(contact.geom)])) for contact in data.contact}
    assert touching == {mujoco.mjtGeom.mjGEOM_CAPSULE}
