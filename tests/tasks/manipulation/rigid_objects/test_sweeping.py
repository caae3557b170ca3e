"""A block on a table, and on a board with a hole."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.world import World
from embodied.engines.mjx.buffers import admitted_pairs
from tasks.manipulation.rigid_objects.holes import BOARD
from tests.tasks.manipulation.common.test_tabletop import task_of
from tests.tasks.manipulation.rigid_objects.test_plates import begun, go_on


def test_the_goal_of_sweep_is_to_the_right_of_the_block() -> None:
    task = task_of("manipulation/sweep")
    starts = jax.jit(jax.vmap(lambda key: task.reset(key)))(jax.random.split(jax.random.PRNGKey(0), 50))
    first = task.model.joint("object").qposadr[0]
    blocks, goals = np.asarray(starts.qpos)[:, first : first + 3], np.asarray(starts.task_state.goal)
    assert np.ptp(goals[:, 1]) > 0.05
    np.testing.assert_array_equal(goals[:, 1], blocks[:, 1])
    np.testing.assert_allclose(goals[:, [0, 2]], [[0.5, 0.01]] * 50, atol=1e-6)


@pytest.mark.parametrize(("x", "y", "falls"), [(0.0, 0.84, True), (0.04, 0.89, True), (0.0, 0.74, False)])
def test_a_block_falls_through_the_hole_and_not_through_the_board(x: float, y: float, falls: bool) -> None:
    task, start, data = begun("sweep-into")
    data.joint("object").qpos[:2] = x, y
    go_on(task, data, 1.0)
    assert data.sensor("object1_pos").data[2] == pytest.approx(0.02 if falls else BOARD + 0.02, abs=2e-3)
    world = World.posed(task.model, jnp.asarray(data.qpos), jnp.zeros(task.model.nv))
    assert bool(task.solved(world, start.task_state)) == ((x, y) == (0.0, 0.84))


@pytest.mark.parametrize(("name", "pairs", "contacts"), [("sweep", 11, 36), ("sweep-into", 35, 116)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    """Five shapes of the robot with table, block, and four of the board; the block with the table and those four."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
