"""Faucet, dial and lever: by what angles they are solved, and that they stay where they are left."""

from __future__ import annotations

import math

import numpy as np
import pytest

from embodied.engines.mjx import admitted_pairs
from tests.tasks.manipulation.test_sliders import TURNED, idle, start_at, world_at
from tests.tasks.manipulation.test_tabletop import task_of

UPRIGHT = -math.pi / 2
each = pytest.mark.parametrize("name", TURNED)


@pytest.mark.parametrize(
    ("name", "solved", "unsolved"),
    [
        ("faucet-open", [1.40, 1.90], [0.0, 1.35, 1.97, -1.6]),
        ("faucet-close", [-1.28, -2.03], [0.0, -1.22, -2.08, 1.6]),
        ("dial-turn", [1.38, -1.38, 2.5, -2.5, math.pi], [0.0, 1.36, -1.36]),
        ("lever-pull", [UPRIGHT + 0.13, UPRIGHT, UPRIGHT - 0.13], [0.0, UPRIGHT + 0.132, UPRIGHT - 0.132]),
    ],
)
def test_what_angles_solve(name: str, solved: list[float], unsolved: list[float]) -> None:
    """All within the hinge's travel; and the turning counts in full no earlier than success."""
    task, start = start_at(name)
    low, high = task.model.joint("hinge").range
    assert low - 1e-6 < min(solved + unsolved) < max(solved + unsolved) < high + 1e-6
    for angles, expected in ((solved, True), (unsolved, False)):
        worlds = [world_at(task, start, "hinge", angle) for angle in angles]
        assert [bool(task.solved(world, start.memory)) for world in worlds] == [expected] * len(angles)
    worlds = [world_at(task, start, "hinge", part * solved[0]) for part in (0.0, 0.5, 1.0)]
    turned = [float(task.progress(world, start.memory)["turn"]) for world in worlds]
    assert turned[0] < 0.05 < turned[1] < 0.95 < turned[2]


@each
def test_what_is_turned_stays_as_it_is_left(name: str) -> None:
    task, start = start_at(name)
    low, high = task.model.joint("hinge").range
    for angle in np.linspace(low + 0.1, high - 0.1, 5):
        qpos = np.array(start.qpos)
        qpos[task.model.joint("hinge").qposadr[0]] = angle
        _, after, _ = idle(task, start, qpos)
        assert after[-1] == pytest.approx(angle, abs=2e-3)


def test_the_dials_point_runs_around_its_rim() -> None:
    """Meta-World computes it: 5 cm times sine and minus cosine of the angle, at the bottom of the axis."""
    task, start = start_at("dial-turn")
    foot = np.asarray(start.mocap_pos)[0]
    for angle in (-2.0, 0.3, 1.0, 3.0):
        expected = foot + 0.05 * np.array([math.sin(angle), -math.cos(angle), 0.0])
        np.testing.assert_allclose(world_at(task, start, "hinge", angle)["object1_pos"], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "pairs", "contacts"), [("faucet-open", 15, 32), ("dial-turn", 15, 48), ("lever-pull", 20, 45)]
)
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
