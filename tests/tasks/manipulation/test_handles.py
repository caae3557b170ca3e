"""The tower's handle: what heights solve the tasks, that it keeps its place, and that the turned tower is the same."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.manipulation.handles import BAR_RADIUS, PIVOT, TRAVEL
from tests.tasks.manipulation.sensed import cost
from tests.tasks.manipulation.test_doors import angles_that_solve, start_at, stays
from tests.tasks.manipulation.test_tabletop import task_of

NAMES = ["handle-press", "handle-press-side", "handle-pull", "handle-pull-side"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_sticks_in_anything_or_moves_by_itself(name: str) -> None:
    assert stays(name, "handle")


@pytest.mark.parametrize("height", [-0.03, -0.07])
def test_a_handle_stays_where_it_is_left(height: float) -> None:
    assert stays("handle-pull", "handle", height)


@pytest.mark.parametrize(
    ("name", "way", "beyond"),
    [
        ("handle-press", [0.0, -0.04, -0.076, -0.078, -0.097, -0.116], [-0.118, -TRAVEL]),
        ("handle-press-side", [0.0, -0.04, -0.076, -0.078, -0.097, -0.116], [-0.118, -TRAVEL]),
        ("handle-pull", [-0.1, -0.07, -0.043, -0.041, 0.0], []),
        ("handle-pull-side", [-0.1, -0.07, -0.044, -0.043, 0.0], []),
    ],
)
def test_what_heights_solve(name: str, way: list[float], beyond: list[float]) -> None:
    """On the way to success the stage rises steadily to 1, which it reaches only with it."""
    solved, shares = angles_that_solve(name, "handle", [*way, *beyond])
    assert solved == [False] * 3 + [True] * (len(way) - 3) + [False] * len(beyond)
    assert shares[0] < 0.05
    assert (np.diff(shares[:4]) > 0).all()
    assert shares[2] < 1.0
    assert shares[3 : len(way)] == [1.0] * (len(way) - 3)


def test_the_handle_never_reaches_the_table() -> None:
    assert PIVOT[2] - TRAVEL - BAR_RADIUS > 0.0


@pytest.mark.parametrize(
    ("front", "side"), [("handle-press", "handle-press-side"), ("handle-pull", "handle-pull-side")]
)
def test_the_tower_at_the_side_is_the_same_turned(front: str, side: str) -> None:
    """What is at (x, y) from the tower's middle there is at (-y, x) here."""
    places = []
    for name in (front, side):
        task, _, data = start_at(name)
        model = task.model
        own = np.flatnonzero(np.isin(model.geom_bodyid, [model.body(body).id for body in ("stand", "handle")]))
        places.append(data.geom_xpos[own] - data.mocap_pos[0])
    np.testing.assert_allclose(places[1], places[0][:, [1, 0, 2]] * [-1, 1, 1], atol=1e-6)
    assert np.abs(places[0][:, 1]).max() > 0.1
    assert np.ptp(places[0], 0)[1] > np.ptp(places[0], 0)[0]


def test_pairs_and_contacts_are_few() -> None:
    """Five shapes of the robot with tower, plate, bar and table."""
    assert cost(task_of("manipulation/handle-press")) == (20, 64)
