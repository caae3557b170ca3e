"""Boards with holes: they are where Meta-World's are, and a block that is let go over its hole lies in it."""

from __future__ import annotations

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from tests.tasks.manipulation.sensed import idle, outcomes
from tests.tasks.manipulation.test_metaworld import start_of

FACTS = json.loads((Path(__file__).parents[4] / "benchmarks/reference/metaworld.json").read_text())


def published(name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Middles and halves, m, of the boxes around Meta-World's hole."""
    if name == "hand-insert":
        body = FACTS["shared"]["tables"]["sawyer_table_with_hole"]["bodies"][0]
    else:
        body = next(b for b in FACTS["scenes"]["sawyer_pick_out_of_hole"]["bodies"] if b["name"] == "#34")
    return [(np.add(body["pos"], box["pos"]), np.array(box["size"])) for box in body["collision"]]


def ours(name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Middles and halves, m, of our boards."""
    model, _ = idle(name)
    boards = [model.geom(f"slab{number}") for number in range(4)]
    return [(board.pos, board.size) for board in boards]


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
    mine, theirs = rises(ours(name), points), rises(published(name), points)
    assert 0 < (theirs == 0).sum() < 2500
    np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_the_puck_lies_below_the_boards_top() -> None:
    model, data = idle("pick-out-of-hole")
    puck = model.geom_size[model.body("object").geomadr[0]]
    assert data.sensor("object1_pos").data[2] == pytest.approx(puck[2])
    assert 2 * puck[2] < 0.054


@pytest.mark.parametrize(("beside", "inserted"), [(0.0, True), (0.1, False)])
def test_a_block_that_is_let_go_over_the_hole_is_inserted_and_beside_it_not(beside: float, inserted: bool) -> None:
    model, data = idle("hand-insert")
    goal = np.asarray(start_of("hand-insert")[1].task_state.goal)
    data.joint("object").qpos[:3] = goal + np.array([beside, 0.0, 0.1])
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    block = data.sensor("object1_pos").data
    assert block[2] == pytest.approx(0.02 if inserted else 0.07, abs=1e-3)
    assert outcomes("hand-insert", {"object1_pos": block[None]})[0] == inserted
