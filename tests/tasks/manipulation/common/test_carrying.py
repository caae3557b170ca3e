"""The six tasks in which a thing is lifted over an edge: their rewards, their starts, what they cost."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.world import World
from tests.tasks.manipulation.common.test_tabletop import task_of
from tests.tasks.manipulation.sensed import cost, settles
from tests.tasks.manipulation.test_metaworld import start_of

COSTS = {
    "bin-picking": (47, 156),
    "box-close": (52, 116),
    "shelf-place": (47, 156),
    "basketball": (27, 52),
    "pick-out-of-hole": (35, 116),
    "hand-insert": (35, 116),
}
"""Pairs of shapes that may meet, and contacts that MJX-JAX makes room for."""
ABOVE = {"basketball": 0.05}
"""m from the goal up to where success measures from, where that is not the goal."""
each = pytest.mark.parametrize("name", COSTS)


@each
def test_stages_rise_all_the_way_up_across_and_down_and_without_a_grasp_they_do_not(name: str) -> None:
    """For a thing held in the middle between the fingertips."""
    task, start = start_of(name)
    world = World.posed(task.model, start.qpos, start.qvel, start.mocap_pos)
    first, goal = np.asarray(world["object1_pos"]), np.asarray(start.task_state.goal)
    high = max(task.clear, goal[2])
    corners = [first, [*first[:2], high], [*goal[:2], high], [*goal[:2], max(goal[2] + ABOVE.get(name, 0.0), 0.03)]]
    path = np.concatenate([np.linspace(a, b, 20) for a, b in itertools.pairwise(corners)])
    rows = np.tile(np.asarray(world.sensordata), (len(path), 1))
    rows[:, world.layout.slices["object1_pos"]] = path
    rows[:, world.layout.slices["tcp_pos"]] = path + np.array([0, 0, task.grip])

    def total(row: jax.Array) -> jax.Array:
        stages = task.progress(dataclasses.replace(world, sensordata=row), start.task_state)
        return sum((task.stages[stage] * value for stage, value in stages.items()), jnp.zeros(()))

    for force in (0.0, 10.0):
        for pad in ("left_pad_touch", "right_pad_touch"):
            rows[:, world.layout.slices[pad]] = force
        along = np.asarray(jax.vmap(total)(jnp.asarray(rows, jnp.float32)))
        rise = np.diff(along)
        assert rise.min() > -1e-5
        assert along[-1] - along[0] > (4.0 if force else -1e-5)
        assert force or np.ptp(along) < 1e-5, "the hand at the thing is worth no more elsewhere"
    assert along[-1] > 6.5


@each
def test_starts_are_at_rest(name: str) -> None:
    depth, moved = settles(name)
    assert depth < 1e-4
    assert moved < 1e-3


@each
def test_pairs_and_contacts_are_few(name: str) -> None:
    assert cost(task_of(f"manipulation/{name}")) == COSTS[name]
