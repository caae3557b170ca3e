"""Lists of neighbours against brute force."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.robot.rotors import GRAVITY
from tasks.swarm.dynamics import neighbours
from tasks.swarm.dynamics.aerodynamics import downwash_of_pairs
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES
from tasks.swarm.dynamics.neighbours import Neighbours


@pytest.fixture(params=["dense", "grid"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(neighbours, "DENSE", 10_000 if request.param == "dense" else 1)
    return request.param


def cloud(count: int, seed: int = 0) -> np.ndarray:
    """About one drone per cubic metre, far from the origin, one of them astray."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.0, count ** (1 / 3), (count, 3)) + np.array([100.0, -50.0, 3.0])
    points[0] += [0.0, 400.0, 0.0] if count > 2 else 0.0
    return points.astype(np.float32)


def nearest(points: np.ndarray, k: int, radius: float, capacity: int = 32) -> Neighbours:
    # A new function every time: the compiled one would not notice that `DENSE` changed.
    return jax.jit(lambda p: neighbours.nearest(p, k, radius, capacity))(points)


def check(found: Neighbours, allowed: np.ndarray, distance: np.ndarray, k: int, rank: np.ndarray | None = None) -> None:
    """Whether every list holds the `k` nearest of those `allowed` (A, A), or those of the highest `rank` (A, A)."""
    count = len(distance)
    assert found.index.dtype == jnp.int32
    assert int(found.overflow) == 0
    index, mask = np.asarray(found.index), np.asarray(found.mask)
    order = distance if rank is None else -rank
    expected = np.full((count, k), np.inf)
    expected[:, : min(k, count)] = np.sort(np.where(allowed, order, np.inf), axis=1)[:, :k]
    np.testing.assert_array_equal(mask, np.isfinite(expected))
    assert (index[~mask] == count).all()
    drone, entry = np.nonzero(mask)
    assert allowed[drone, index[drone, entry]].all()
    np.testing.assert_allclose(order[drone, index[drone, entry]], expected[mask], atol=2e-4)
    np.testing.assert_allclose(np.asarray(found.distance)[mask], distance[drone, index[drone, entry]], atol=2e-4)
    assert np.isinf(np.asarray(found.distance)[~mask]).all()
    assert len(np.unique(drone * count + index[drone, entry])) == len(drone)


@pytest.mark.parametrize("count", [2, 3, 600])
def test_nearest_agrees_with_brute_force(way: str, count: int) -> None:
    del way
    points = cloud(count)
    offset = points[None] - points[:, None]
    distance = np.linalg.norm(offset, axis=-1)
    found = nearest(points, k=5, radius=1.5, capacity=40)
    check(found, (distance <= 1.5) & ~np.eye(count, dtype=bool), distance, k=5)
    assert count < 40 or np.asarray(found.mask).mean() > 0.3


@pytest.mark.parametrize("count", [2, 300])
def test_columns_agree_with_brute_force(way: str, count: int) -> None:
    del way
    points = cloud(count, seed=1)
    offset = points[None] - points[:, None]
    aside = np.linalg.norm(offset[..., :2], axis=-1)
    allowed = (aside <= 1.0) & (offset[..., 2] > 0) & (offset[..., 2] <= 3.0)
    found = jax.jit(lambda p: neighbours.columns(p, 6, 1.0, 3.0, capacity=80))(points)
    check(found, allowed, np.linalg.norm(offset, axis=-1), k=6, rank=np.asarray(jax.jit(downwash_of_pairs)(offset)))
    assert count < 40 or np.asarray(found.mask).mean() > 0.2


def test_a_lonely_drone_has_no_neighbours(way: str) -> None:
    del way
    found = nearest(np.zeros((1, 3)), k=3, radius=1.0)
    assert not np.asarray(found.mask).any()
    assert (np.asarray(found.index) == 1).all()


def test_drones_beyond_the_grid_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DENSE", 1)
    far = 1e4 * np.array([[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]], np.float32)
    far[1::2, 0] += 0.5
    found = nearest(far, k=2, radius=1.0)
    assert np.asarray(found.index).tolist() == [[1, 4], [0, 4], [3, 4], [2, 4]]


def test_a_crowd_that_overflows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DENSE", 1)
    crowd = np.linspace([0.0, 0.0, 0.0], [0.1, 0.0, 0.0], 50)
    away = [[30.0, 0.0, 0.0], [30.5, 0.0, 0.0]]
    found = nearest(np.concatenate([crowd, away]), k=3, radius=1.0, capacity=20)
    assert int(found.overflow) == 50
    assert np.asarray(found.index)[50:, 0].tolist() == [51, 50]


def test_a_large_swarm_takes_the_grid_and_needs_a_radius() -> None:
    points = cloud(neighbours.DENSE + 1)
    with pytest.raises(ValueError, match="radius=inf"):
        neighbours.nearest(jnp.asarray(points), k=3)
    distance = np.linalg.norm(points[None] - points[:, None], axis=-1) + 1e9 * np.eye(len(points))
    found = nearest(points, k=1, radius=1.0)
    near = distance.min(axis=1)
    assert int(found.overflow) == 0
    np.testing.assert_array_equal(np.asarray(found.mask)[:, 0], near <= 1.0)


def test_worlds_can_be_vmapped(way: str) -> None:
    del way
    worlds = np.stack([cloud(30, seed) for seed in range(3)])
    together = jax.jit(jax.vmap(lambda points: neighbours.nearest(points, 4, 1.5)))(worlds)
    alone = jax.jit(lambda points: neighbours.nearest(points, 4, 1.5))
    for world, points in enumerate(worlds):
        np.testing.assert_array_equal(np.asarray(together.index)[world], alone(points).index)


def test_what_columns_leave_out_is_below_a_thousandth_of_a_crazyflie() -> None:
    weight = min(drone.mass for drone in CRAZYFLIES.values()) * GRAVITY
    drops = np.linspace(0.01, 100.0, 20_000)
    beside = np.stack([np.full_like(drops, neighbours.COLUMN_RADIUS), np.zeros_like(drops), drops], -1)
    wash = jax.jit(downwash_of_pairs)
    assert np.max(wash(beside)) < 1e-3 * weight
    above = np.array([0.0, 0.0, neighbours.COLUMN_HEIGHT])
    assert float(wash(above)) < 1e-3 * weight
    # Neither limit could be much smaller.
    assert float(wash(above * 0.99)) > 0.99e-3 * weight
    assert np.max(wash(beside * [0.95, 1, 1])) > 1e-3 * weight
