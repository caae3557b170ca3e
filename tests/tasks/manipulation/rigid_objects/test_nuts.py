"""Nut and peg: what success measures, and that the ring fits."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tests.tasks.manipulation.common.test_tabletop import task_of
from tests.tasks.manipulation.sensed import cost, idle, outcomes, settles
from tests.tasks.manipulation.test_metaworld import FACTS, holds, start_of


def test_the_nut_is_on_where_metaworld_says_so() -> None:
    """Its success measures the ring's middle, where the handle is observed."""
    rng, goal = np.random.default_rng(0), np.asarray(start_of("assembly")[1].task_state.goal)
    rings = goal + rng.uniform(-0.04, 0.04, (2000, 3))
    expected = np.logical_and.reduce(
        [holds(term, {"site:RoundNut": rings}, goal) for term in FACTS["assembly"]["success"]]
    )
    assert 20 < expected.sum() < 1900
    assert (outcomes("assembly", {"ring": rings}) != expected).sum() <= 1


def test_the_ring_is_a_handle_away_from_what_is_observed() -> None:
    _, data = idle("assembly")
    expected = FACTS["assembly"]["canonical"]["obj1_from_roots"]["RoundNut"]
    np.testing.assert_allclose(data.sensor("object1_pos").data - data.sensor("ring").data, expected, atol=1e-4)


@pytest.mark.parametrize(("beside", "free"), [(0.0, True), (0.008, True), (0.012, False)])
def test_the_ring_has_nine_millimetres_of_room_around_the_peg(beside: float, free: bool) -> None:
    contacts = 0
    for turn in np.linspace(0.0, np.pi / 3, 5):
        model, data = idle("assembly")
        goal = np.asarray(start_of("assembly")[1].task_state.goal)
        data.joint("nut").qpos[:3] = [*goal[:2] + beside * np.array([np.cos(turn), np.sin(turn)]), 0.06]
        mujoco.mj_forward(model, data)
        contacts = data.ncon
        assert (contacts == 0) or not free
    assert free or contacts > 0


@pytest.mark.parametrize("name", ["assembly", "disassemble"])
def test_starts_are_at_rest(name: str) -> None:
    depth, moved = settles(name)
    assert depth < 1e-4
    assert moved < 1e-3


def test_pairs_and_contacts_are_few() -> None:
    """Six capsules and a box for the nut, a capsule for the peg."""
    assert cost(task_of("manipulation/assembly")) == (59, 112)
