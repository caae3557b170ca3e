"""Neighbour lists of drones, for observations, collisions and downwash.

Small swarms compare every pair. Large ones sort the drones by the cell of a grid they are in and look only into the
cells around each, which costs little more than the sort: nearly linear in the number of drones. Shapes are static, so
both kinds compile once and can be vmapped over worlds.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tasks.swarm.dynamics.aerodynamics import downwash_of_pairs

DENSE = 1000
"""Drones up to which all pairs are compared: measured on one CPU core, the grid is faster from about here on."""
CELLS = 1024  # per axis: three axes fit into one int32

# Reach of the downwash for `columns`: beyond either, a pair's force (`aerodynamics.downwash_of_pairs`) is below
# 0.1 % of the weight of the lightest Crazyflie here, 27 g (2.6e-4 N). The wash fades with the square of the height
# and widens as it fades, so its reach is widest, 2.17 m, at 10.6 m; over 3 m it is below 1 m.
COLUMN_RADIUS = 2.2  # m
COLUMN_HEIGHT = 17.0  # m


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Neighbours:
    """Up to K neighbours of each of A drones, those that matter most first."""

    index: Array
    """(A, K) int32; A where there is no further neighbour."""
    distance: Array
    """(A, K) m; infinite where there is none."""
    mask: Array
    """(A, K) bool, whether there is one."""
    overflow: Array
    """() int32 drones whose list may be incomplete, because a run of cells around them held more than `capacity`."""


Rank = Callable[[Array, Array], Array]
"""From squared distance (...) m^2 and offset (..., 3) m to another drone, how much it matters (...): the largest come
first, minus infinity never."""


def nearest(positions: Array, k: int, radius: float = math.inf, capacity: int = 32) -> Neighbours:
    """The `k` nearest others within `radius` m of each of the drones at `positions` (A, 3) m.

    Args:
        positions: world frame.
        k: entries per list.
        radius: m; beyond `DENSE` drones it must be finite, for it is the size of a cell.
        capacity: drones looked at in each run of three cells, beyond `DENSE` drones; nine runs surround a drone.

    Raises:
        ValueError: the swarm is large and `radius` infinite.
    """

    def rank(distance2: Array, offset: Array) -> Array:
        del offset
        return jnp.where(distance2 <= radius**2, -distance2, -jnp.inf)

    return _list(positions, k, rank, radius, axes=3, capacity=capacity)


def columns(
    positions: Array, k: int = 16, radius: float = COLUMN_RADIUS, height: float = COLUMN_HEIGHT, capacity: int = 64
) -> Neighbours:
    """The `k` drones above each of those at `positions` (A, 3) m that blow on it hardest.

    Args:
        positions: world frame.
        k: entries per list.
        radius: m, horizontal distance up to which others count.
        height: m above a drone up to which others count.
        capacity: drones looked at in each run of three columns, beyond `DENSE` drones; three runs surround a drone.
    """

    def rank(distance2: Array, offset: Array) -> Array:
        above = offset[..., 2]
        within = (above > 0) & (above <= height) & (distance2 - above**2 <= radius**2)
        return jnp.where(within, downwash_of_pairs(offset), -jnp.inf)

    return _list(positions, k, rank, radius, axes=2, capacity=capacity)


def _list(positions: Array, k: int, rank: Rank, size: float, axes: int, capacity: int) -> Neighbours:
    """Lists by all pairs, or by a grid of `size` m over the first `axes` axes."""
    count = positions.shape[0]
    if count <= DENSE:
        everyone = jnp.broadcast_to(jnp.arange(count, dtype=jnp.int32), (count, count))
        return _select(positions, positions[None], everyone, jnp.ones((), bool), k, rank)
    if not math.isfinite(size):
        raise ValueError(f"radius={size} m; lists for {count} drones (more than {DENSE}) need a finite radius")
    # In the order of their cells, drones that look at the same cells follow each other: state stays cached.
    cell, offsets = _cells(positions, size, axes)
    order = jnp.argsort(cell).astype(jnp.int32)
    cell, points = cell[order], positions[order]
    first = cell[:, None] + offsets  # (A, runs), the first of each run's three cells
    begin = jnp.searchsorted(cell, first).astype(jnp.int32)
    slots = begin[..., None] + jnp.arange(capacity + 1, dtype=jnp.int32)
    inside = cell.at[slots].get(mode="fill", fill_value=np.iinfo(np.int32).max) <= first[..., None] + 2
    slots, valid = slots[..., :-1].reshape(count, -1), inside[..., :-1].reshape(count, -1)
    found = _select(points, points.at[slots].get(mode="clip"), slots, valid, k, rank)
    # Back from ranks to drones, rows and entries; an absent entry stays out of range.
    index = jnp.append(order, jnp.int32(count))[found.index]
    rows = [jnp.zeros_like(rows).at[order].set(rows) for rows in (index, found.distance, found.mask)]
    return Neighbours(*rows, overflow=jnp.sum(jnp.any(inside[..., -1], axis=-1), dtype=jnp.int32))


def _cells(positions: Array, size: float, axes: int) -> tuple[Array, np.ndarray]:
    """The number (A,) of each drone's cell, and what to add to it for the first cell of each run (runs,).

    Cells that differ by one along the last axis have consecutive numbers, so three of them are one run in the sorted
    order. The grid lies around the swarm's centre; drones outside it count to its border cells, which keeps
    neighbours neighbours. One more cell on either side stays empty: runs never wrap around.
    """
    place = positions[:, :axes] - jnp.mean(positions[:, :axes], axis=0)
    along = jnp.clip(jnp.floor(place / size) + CELLS // 2, 1, CELLS - 2).astype(jnp.int32)
    weights = CELLS ** np.arange(axes - 1, -1, -1)
    steps = np.array([[*step, -1] for step in itertools.product((-1, 0, 1), repeat=axes - 1)])
    return jnp.sum(along * weights.astype(np.int32), axis=1), (steps @ weights).astype(np.int32)


def _select(points: Array, others: Array, index: Array, valid: Array, k: int, rank: Rank) -> Neighbours:
    """The `k` of highest rank among the candidates `index` (A, C) at `others` (A or 1, C, 3), for those at `points`."""
    count = points.shape[0]
    offset = others - points[:, None]
    distance2 = jnp.sum(offset**2, axis=-1)
    others_only = valid & (index != jnp.arange(count, dtype=jnp.int32)[:, None])
    entries = min(k, index.shape[1])
    best, slot = jax.lax.top_k(jnp.where(others_only, rank(distance2, offset), -jnp.inf), entries)
    there = jnp.isfinite(best)
    chosen = jnp.where(there, jnp.take_along_axis(jnp.broadcast_to(index, distance2.shape), slot, axis=1), count)
    pad = ((0, 0), (0, k - entries))
    distance = jnp.where(there, jnp.sqrt(jnp.take_along_axis(distance2, slot, axis=1)), jnp.inf)
    distance = jnp.pad(distance, pad, constant_values=jnp.inf)
    chosen = jnp.pad(chosen, pad, constant_values=count)
    return Neighbours(chosen, distance, chosen < count, overflow=jnp.zeros((), jnp.int32))
