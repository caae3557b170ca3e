"""Lists of neighbours against brute force."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.swarm import aerodynamics, neighbours
from tasks.swarm.neighbours import Neighbours
from tasks.swarm.quadrotor import GRAVITY, QUADROTORS


@pytest.fixture(params=["dense", "grid"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(neighbours, "DENSE", 10_000 if request.param == "dense" else 1)
    return request.param


def cloud(count: int, seed: int = 0) -> np.ndarray:
    """About one drone per cubic metre, far from the origin, one of them astray."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.0, count ** (1 / 3), (count, 3)) + [100.0, -50.0, 3.0]
    points[0] += [0.0, 400.0, 0.0] if count > 2 else 0.0
    return points.astype(np.float32)


def check(found: Neighbours, allowed: np.ndarray, distance: np.ndarray, k: int) -> None:
    """Whether every list holds the `k` nearest of those `allowed` (A, A)."""
    count = len(distance)
    assert found.index.shape == found.distance.shape == found.mask.shape == (count, k)
    assert found.index.dtype == jnp.int32
    assert int(found.overflow) == 0
    index, mask = np.asarray(found.index), np.asarray(found.mask)
    assert (index[~mask] == count).all()
    assert np.isinf(np.asarray(found.distance)[~mask]).all()
    for drone in range(count):
        wanted = np.flatnonzero(allowed[drone])
        nearest = np.sort(distance[drone, wanted])[:k]
        listed = index[drone, mask[drone]]
        assert drone not in listed
        assert len(set(listed)) == len(listed) == len(nearest)
        assert allowed[drone, listed].all()
        np.testing.assert_allclose(distance[drone, listed], nearest, atol=2e-4)
        np.testing.assert_allclose(np.asarray(found.distance)[drone, mask[drone]], nearest, atol=2e-4)


@pytest.mark.parametrize("count", [2, 3, 40, 300, 600])
def test_nearest_agrees_with_brute_force(way: str, count: int) -> None:
    del way
    points = cloud(count)
    offset = points[None] - points[:, None]
    distance = np.linalg.norm(offset, axis=-1)
    found = neighbours.nearest(jnp.asarray(points), k=5, radius=1.5, capacity=40)
    check(found, (distance <= 1.5) & ~np.eye(count, dtype=bool), distance, k=5)
    assert count < 40 or np.asarray(found.mask).mean() > 0.3


@pytest.mark.parametrize("count", [2, 40, 600])
def test_columns_agree_with_brute_force(way: str, count: int) -> None:
    del way
    points = cloud(count, seed=1)
    offset = points[None] - points[:, None]
    aside = np.linalg.norm(offset[..., :2], axis=-1)
    allowed = (aside <= 1.0) & (offset[..., 2] > 0) & (offset[..., 2] <= 3.0)
    found = neighbours.columns(jnp.asarray(points), k=6, radius=1.0, height=3.0, capacity=80)
    check(found, allowed, np.linalg.norm(offset, axis=-1), k=6)
    assert count < 40 or np.asarray(found.mask).mean() > 0.2


def test_a_lonely_drone_has_no_neighbours(way: str) -> None:
    del way
    found = neighbours.nearest(jnp.zeros((1, 3)), k=3, radius=1.0)
    assert not found.mask.any()
    assert (found.index == 1).all()


def test_drones_beyond_the_grid_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DENSE", 1)
    far = 1e4 * np.array([[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]], np.float32)
    far[1::2, 0] += 0.5
    found = neighbours.nearest(jnp.asarray(far), k=2, radius=1.0)
    assert np.asarray(found.index).tolist() == [[1, 4], [0, 4], [3, 4], [2, 4]]


def test_a_crowd_that_overflows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DENSE", 1)
    crowd = jnp.zeros((50, 3)).at[:, 0].set(jnp.linspace(0.0, 0.1, 50))
    away = jnp.array([[30.0, 0.0, 0.0], [30.5, 0.0, 0.0]])
    found = neighbours.nearest(jnp.concatenate([crowd, away]), k=3, radius=1.0, capacity=20)
    assert int(found.overflow) == 50
    assert np.asarray(found.index[50:, 0]).tolist() == [51, 50]


def test_a_large_swarm_takes_the_grid_and_needs_a_radius() -> None:
    points = cloud(neighbours.DENSE + 1)
    with pytest.raises(ValueError, match="radius=inf"):
        neighbours.nearest(jnp.asarray(points), k=3)
    distance = np.linalg.norm(points[None] - points[:, None], axis=-1) + 1e9 * np.eye(len(points))
    found = neighbours.nearest(jnp.asarray(points), k=1, radius=1.0)
    near = distance.min(axis=1)
    assert int(found.overflow) == 0
    np.testing.assert_array_equal(found.mask[:, 0], near <= 1.0)


def test_worlds_can_be_vmapped(way: str) -> None:
    del way
    worlds = jnp.stack([jnp.asarray(cloud(30, seed)) for seed in range(3)])
    together = jax.vmap(lambda points: neighbours.nearest(points, 4, 1.5))(worlds)
    for world, points in enumerate(worlds):
        alone = neighbours.nearest(points, 4, 1.5)
        np.testing.assert_array_equal(together.index[world], alone.index)


def test_what_columns_leave_out_is_below_a_thousandth_of_a_crazyflie() -> None:
    weight = min(drone.mass for drone in QUADROTORS.values()) * GRAVITY
    drops = np.linspace(0.01, 100.0, 20_000)
    beside = np.stack([np.full_like(drops, neighbours.COLUMN_RADIUS), np.zeros_like(drops), drops], -1)
    assert float(jnp.max(aerodynamics.downwash_of_pairs(jnp.asarray(beside)))) < 1e-3 * weight
    above = jnp.array([0.0, 0.0, neighbours.COLUMN_HEIGHT])
    assert float(aerodynamics.downwash_of_pairs(above)) < 1e-3 * weight
    # Neither limit could be much smaller.
    assert float(aerodynamics.downwash_of_pairs(above * 0.99)) > 0.99e-3 * weight
    assert float(jnp.max(aerodynamics.downwash_of_pairs(jnp.asarray(beside * [0.95, 1, 1])))) > 1e-3 * weight
