"""Rough ground: what the tasks believe of it is what MuJoCo has."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compose
from tasks.locomotion.ground import FLOOR, KINDS, Flat, Rough

GROUND = Rough()


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    spec = compose(FLOOR, "robots/go1/go1.xml")
    GROUND.shape(spec)
    return spec.compile()


def test_height_is_where_a_ray_from_above_meets_the_ground(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    data.qpos[:3] = 0, 0, 50
    mujoco.mj_forward(model, data)
    half = np.array([GROUND.levels, len(KINDS)]) * GROUND.tile / 2
    points = np.random.default_rng(0).uniform(-half, half, (300, 2)) * 1.1
    geoms = np.array([1, 0, 0, 0, 0, 0], np.uint8)  # group 0 holds the ground
    hit = np.zeros(1, np.int32)
    down = np.array([0.0, 0.0, -1.0])
    rays = [20 - mujoco.mj_ray(model, data, np.append(p, 20.0), down, geoms, 1, -1, hit, None) for p in points]
    # A cell is two triangles for MuJoCo and a bilinear patch here: they differ by a quarter of its unevenness.
    difference = np.abs(np.asarray(GROUND.height(jnp.asarray(points))) - rays)
    assert np.median(difference) < 2e-3
    assert difference.max() < 0.5 * max(GROUND.max_step, GROUND.max_block, GROUND.max_noise)


def test_tiles_are_level_with_the_floor_at_their_edges() -> None:
    count = round(GROUND.tile / GROUND.cell)
    heights = GROUND.heights
    assert heights.shape == (len(KINDS) * count + 1, GROUND.levels * count + 1)
    assert np.abs(heights[::count]).max() == 0
    assert np.abs(heights[:, ::count]).max() == 0
    assert heights.min() == 0


def test_every_kind_gets_rougher_with_the_level() -> None:
    count = round(GROUND.tile / GROUND.cell)
    for kind in range(len(KINDS)):
        rows = GROUND.heights[kind * count : (kind + 1) * count, :-1].reshape(count, GROUND.levels, count)
        steepness = np.abs(np.diff(rows, axis=0)).max(axis=(0, 2))
        assert steepness[-1] > 3 * steepness[0]
        assert steepness[1:].mean() > steepness[:-1].mean()


def test_starts_lie_on_the_asked_level_and_are_free_of_ground() -> None:
    uniform = jax.random.uniform(jax.random.PRNGKey(0), (500, 4))
    for level in (0, 5):
        xy = np.asarray(jax.vmap(GROUND.place, (0, None))(uniform, jnp.asarray(level)))
        row = (xy[:, 0] + GROUND.levels * GROUND.tile / 2) / GROUND.tile
        assert ((row > level) & (row < level + 1)).all()
        assert len(np.unique(np.floor(xy[:, 1] / GROUND.tile))) == len(KINDS)
        around = xy[:, None] + 0.9 * GROUND.footprint * np.random.default_rng(1).uniform(-1, 1, (500, 20, 2))
        clear = np.asarray(GROUND.clear_height(jnp.asarray(xy)))
        assert (np.asarray(GROUND.height(jnp.asarray(around))) <= clear[:, None] + 1e-5).all()


def test_the_same_ground_is_built_every_time() -> None:
    assert np.array_equal(Rough().heights, GROUND.heights)


def test_flat_ground_is_zero_everywhere() -> None:
    assert not np.asarray(Flat().height(jnp.ones((5, 2)))).any()
