"""Peg and plug: what success measures, and how firmly the plug sits."""

from __future__ import annotations

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from tests.tasks.manipulation.common.test_tabletop import task_of
from tests.tasks.manipulation.sensed import cost, idle, outcomes, settles
from tests.tasks.manipulation.test_metaworld import FACTS, holds, start_of

SCENES = json.loads((Path(__file__).parents[4] / "benchmarks/reference/metaworld.json").read_text())["scenes"]


def test_the_peg_is_in_where_metaworld_says_so() -> None:
    """Its success measures the peg's head, which nobody observes."""
    rng, goal = np.random.default_rng(0), np.asarray(start_of("peg-insert-side")[1].task_state.goal)
    heads = goal + rng.uniform(-0.1, 0.1, (2000, 3))
    (term,) = FACTS["peg-insert-side"]["success"]
    expected = holds(term, {"site:pegHead": heads}, goal)
    assert 20 < expected.sum() < 1900
    assert (outcomes("peg-insert-side", {"peg_head": heads}) != expected).sum() <= 1


def test_the_pegs_points_are_metaworlds() -> None:
    sites = next(b["sites"] for b in SCENES["sawyer_peg_insertion_side"]["bodies"] if b["name"] == "peg")
    _, data = idle("peg-insert-side")
    ahead = data.sensor("peg_head").data - data.sensor("object1_pos").data
    np.testing.assert_allclose(ahead, np.subtract(sites["pegHead"], sites["pegGrasp"]), atol=1e-6)


def test_the_peg_fits_into_the_hole_and_not_through_the_box() -> None:
    """With its head at the goal it touches nothing; a hole's breadth beside it, it is inside the box."""
    for beside, free in ((0.0, True), (0.06, False)):
        model, data = idle("peg-insert-side")
        goal = np.asarray(start_of("peg-insert-side")[1].task_state.goal)
        data.joint("peg").qpos[:3] = np.add(goal, [0.1, beside, 0.0])
        mujoco.mj_forward(model, data)
        assert (data.ncon == 0) == free


@pytest.mark.parametrize(("pull", "moves"), [(0.5, False), (4.0, True)])
def test_the_plug_sits_in_its_socket_until_it_is_pulled(pull: float, moves: bool) -> None:
    """Newtons along the socket's axis for a second."""
    model, data = idle("peg-unplug-side")
    start = data.sensor("object1_pos").data[0]
    data.xfrc_applied[model.body("plug").id, 0] = pull
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    moved = data.sensor("object1_pos").data[0] - start
    assert moved > 0.1 if moves else abs(moved) < 0.002


@pytest.mark.parametrize("name", ["peg-insert-side", "peg-unplug-side"])
def test_starts_are_at_rest(name: str) -> None:
    """The plug leans by its play of half a millimetre."""
    depth, moved = settles(name)
    assert depth < 1e-4
    assert moved < (0.003 if name == "peg-unplug-side" else 1e-3)


@pytest.mark.parametrize(("name", "expected"), [("peg-insert-side", (35, 116)), ("peg-unplug-side", (45, 152))])
def test_pairs_and_contacts_are_few(name: str, expected: tuple[int, int]) -> None:
    assert cost(task_of(f"manipulation/{name}")) == expected
