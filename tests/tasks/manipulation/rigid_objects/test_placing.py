"""What is lifted over an edge: bins, a box with a lid, boards with a hole, a shelf and a basket."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from tasks.manipulation.rigid_objects.bins import HANDLE, RIM, TRAY_TOP
from tasks.manipulation.rigid_objects.holes import BOARD
from tasks.manipulation.rigid_objects.shelves import BALL, RING, TUBE
from tests.kit.tabletop import REFERENCE, begun, idle, judged, tabletop

ABOVE = {"basketball": 0.05}
"""m from the goal up to where success measures from, where that is not the goal."""


@pytest.mark.parametrize(
    "name", ["bin-picking", "box-close", "shelf-place", "basketball", "pick-out-of-hole", "hand-insert"]
)
def test_stages_rise_all_the_way_up_across_and_down_and_without_a_grasp_they_do_not(name: str) -> None:
    """For a thing held in the middle between the fingertips."""
    task, start, data = at = begun(name)
    first, goal = data.sensor("object1_pos").data.copy(), start.task_state.goal
    high = max(task.clear, goal[2])
    corners = [first, [*first[:2], high], [*goal[:2], high], [*goal[:2], max(goal[2] + ABOVE.get(name, 0.0), 0.03)]]
    path = np.concatenate([np.linspace(a, b, 20) for a, b in itertools.pairwise(corners)])
    along = np.zeros(1)
    for force in (0.0, 10.0):
        pads = {f"{side}_pad_touch": np.full((len(path), 1), force) for side in ("left", "right")}
        along = judged(at, readings={"object1_pos": path, "tcp_pos": np.add(path, [0, 0, task.grip]), **pads}).worth
        assert np.diff(along).min() > -1e-5
        assert along[-1] - along[0] > (4.0 if force else -1e-5)
        assert force or np.ptp(along) < 1e-5, "the hand at the thing is worth no more elsewhere"
    assert along[-1] > 6.5


# Bins.


def test_the_bins_shapes_fill_what_is_drawn_of_them() -> None:
    model = tabletop("bin-picking").model
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
    for corner in range(8):
        task, _, data = begun("bin-picking", corner)
        bodies = [{int(task.model.geom_bodyid[geom]) for geom in contact.geom} for contact in data.contact]
        assert {task.model.body("bins").id, task.model.body("object").id} in bodies, "it stands on the bottom"
        assert data.contact.dist.min() > -1e-4


# A box with a lid.


def test_the_lid_weighs_what_metaworlds_does() -> None:
    lid = tabletop("box-close").model.body("object")
    assert lid.mass[0] == pytest.approx(0.25)
    assert (np.sort(lid.inertia) > 0.5e-3).all()
    assert (np.sort(lid.inertia) < 5e-3).all()


@pytest.mark.parametrize("push", [0.0, 3.0])
def test_a_lid_that_is_let_go_over_the_box_closes_it_and_holds(push: float) -> None:
    """Newtons from the side, more than friction withstands: the rim does, with 5 mm of play."""
    task, start, data = begun("box-close")
    goal = start.task_state.goal
    data.joint("object").qpos[:3] = [*goal[:2], TRAY_TOP + 0.005]
    data.xfrc_applied[task.model.body("object").id, 0] = push
    idle(data, 1.0)
    lid = data.sensor("object1_pos").data
    np.testing.assert_allclose(lid, [*goal[:2], TRAY_TOP], atol=0.008)
    assert (abs(lid[0] - goal[0]) > 0.003) == (push > 0)
    assert np.linalg.norm(lid - goal) < task.reached


def test_the_lids_rim_stands_on_the_table_and_its_bar_is_within_the_hands_reach() -> None:
    task, _, data = begun("box-close")
    model = task.model
    bar = next(g for g in range(model.ngeom) if model.geom_pos[g][2] == pytest.approx(HANDLE) and model.geom_contype[g])
    assert model.geom_size[bar][0] < 0.03, "the fingers open by 4 cm either way"
    assert data.geom_xpos[bar][2] == pytest.approx(RIM + HANDLE)
    mujoco.mj_step(model, data, nstep=10)
    touching = {mujoco.mjtGeom(int(model.geom_type[max(contact.geom)])) for contact in data.contact}
    assert touching == {mujoco.mjtGeom.mjGEOM_CAPSULE}


# Boards with a hole.


def published(name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Middles and halves, m, of the boxes around Meta-World's hole."""
    shared, scenes = REFERENCE["shared"], REFERENCE["scenes"]
    if name == "hand-insert":
        body = shared["tables"]["sawyer_table_with_hole"]["bodies"][0]
    else:
        body = next(b for b in scenes["sawyer_pick_out_of_hole"]["bodies"] if b["name"] == "#34")
    return [(np.add(body["pos"], box["pos"]), np.array(box["size"])) for box in body["collision"]]


def rises(boxes: list[tuple[np.ndarray, np.ndarray]], points: np.ndarray) -> np.ndarray:
    """Height of the highest box under points (n, 2), 0 where there is none."""
    height = np.zeros(len(points))
    for middle, half in boxes:
        above = (np.abs(points - middle[:2]) <= half[:2]).all(1)
        height = np.maximum(height, np.where(above, middle[2] + half[2], 0.0))
    return height


@pytest.mark.parametrize("name", ["pick-out-of-hole", "hand-insert"])
def test_the_board_is_as_high_as_metaworlds_and_its_hole_where_that_is(name: str) -> None:
    points = np.random.default_rng(0).uniform((-0.5, 0.3), (0.5, 0.98), (5000, 2))
    boards = [tabletop(name).model.geom(f"slab{number}") for number in range(4)]
    mine, theirs = rises([(board.pos, board.size) for board in boards], points), rises(published(name), points)
    assert 0 < (theirs == 0).sum() < 2500
    np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_the_puck_lies_below_the_boards_top() -> None:
    task, _, data = begun("pick-out-of-hole")
    puck = task.model.geom_size[task.model.body("object").geomadr[0]]
    assert data.sensor("object1_pos").data[2] == pytest.approx(puck[2])
    assert 2 * puck[2] < 0.054


@pytest.mark.parametrize(("beside", "inserted"), [(0.0, True), (0.1, False)])
def test_a_block_that_is_let_go_over_the_hole_is_inserted_and_beside_it_not(beside: float, inserted: bool) -> None:
    _, start, data = at = begun("hand-insert")
    data.joint("object").qpos[:3] = np.add(start.task_state.goal, [beside, 0.0, 0.1])
    idle(data, 1.0)
    assert data.sensor("object1_pos").data[2] == pytest.approx(0.02 if inserted else 0.07, abs=1e-3)
    assert judged(at).success[0] == inserted


@pytest.mark.parametrize(("x", "y", "falls"), [(0.0, 0.84, True), (0.04, 0.89, True), (0.0, 0.74, False)])
def test_a_swept_block_falls_through_the_hole_and_not_through_the_board(x: float, y: float, falls: bool) -> None:
    data = (at := begun("sweep-into")).data
    data.joint("object").qpos[:2] = x, y
    idle(data, 1.0)
    assert data.sensor("object1_pos").data[2] == pytest.approx(0.02 if falls else BOARD + 0.02, abs=2e-3)
    assert judged(at).success[0] == ((x, y) == (0.0, 0.84))


# A shelf and a basket.


@pytest.mark.parametrize(("height", "placed"), [(0.28, True), (0.09, False)])
def test_a_block_on_the_upper_board_is_placed_and_on_the_lower_not(height: float, placed: bool) -> None:
    """Let go a centimetre above a board it stays, a hand's room before the back."""
    _, start, data = at = begun("shelf-place")
    x, y, _ = start.task_state.goal
    data.joint("object").qpos[:3] = [x, y - 0.03, height]
    idle(data, 1.0)
    np.testing.assert_allclose(data.sensor("object1_pos").data, [x, y - 0.03, height - 0.01], atol=1e-3)
    assert judged(at).success[0] == placed


def test_the_hand_begins_free_of_the_shelf_wherever_that_stands() -> None:
    task, _, data = begun("shelf-place")
    model = task.model
    for goal in task.ranges.goal.corners:
        data.mocap_pos[0] = task.place(jnp.asarray(task.ranges.start.low), jnp.asarray(goal)).fixtures["shelf"]
        mujoco.mj_forward(model, data)
        assert model.body("shelf").id not in model.geom_bodyid[data.contact.geom]


@pytest.mark.parametrize(("beside", "free"), [(0.004, True), (0.006, False)])
def test_the_ball_passes_the_ring_with_five_millimetres_of_play(beside: float, free: bool) -> None:
    assert pytest.approx(0.005) == RING - TUBE - BALL
    for side in np.eye(3)[:2]:
        task, start, data = begun("basketball")
        data.joint("object").qpos[:3] = start.task_state.goal + beside * side
        mujoco.mj_forward(task.model, data)
        assert (data.ncon == 0) == free


def test_a_ball_that_is_let_go_over_the_ring_falls_through_and_lies_below() -> None:
    _, start, data = begun("basketball")
    goal = start.task_state.goal
    data.joint("object").qpos[:3] = np.add(goal, [0.0, 0.0, 0.05])
    idle(data, 1.0)
    np.testing.assert_allclose(data.sensor("object1_pos").data, [*goal[:2], BALL], atol=0.01)
