"""Scripts of drones that hunt and flee, on the rows of their observations."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from embodied.core.entity_rows import COLUMNS, Kind
from tasks.swarm.control.levels import SPEED

LEAD = 0.5  # s of the prey's flight that hunters aim ahead, at most
APART = 0.18  # m; three hunters around still prey come to rest 21 cm from it, 37 cm apart
SETTLING = 1.5  # share of the velocity relative to the prey that hunters take back, or they would swing about it
AWARE = 0.4  # m of free air beside a column or the border from which on a drone turns away
KINDS = tuple(Kind)


def flight(rows: Array, prey: Array, place: Array, velocity: Array, half: float) -> Array:
    """Velocities (A, 2) along the floor, in units of the fastest, of drones among columns in a square.

    Args:
        rows: (A, rows, WIDTH) what is around them: targets are hunted, or fled from.
        prey: (A, 1) bool, whether a drone flees.
        place: (A, 2) m from the square's middle.
        velocity: (A, 2) m/s.
        half: m, half the square's side.
    """
    way = jnp.where(prey, fleeing(rows) + inward(place, half), hunting(rows, velocity))
    way = shortened(way, 1.0)
    return way + avoiding(rows, way)


def shortened(vector: Array, longest: Array | float) -> Array:
    """(..., k), at most `longest` long."""
    size = jnp.sqrt(jnp.sum(vector**2, -1, keepdims=True) + 1e-12)
    return vector * jnp.minimum(1.0, longest / size)


def _of_kind(rows: Array, kind: Kind) -> tuple[Array, Array, Array, Array]:
    """Offsets (A, rows, 2) m along the floor, their lengths (A, rows, 1), velocities (A, rows, 2) m/s and whether (A,
    rows, 1) the row is of that kind."""
    offset, velocity = rows[..., COLUMNS["offset"]][..., :2], rows[..., COLUMNS["velocity"]][..., :2]
    there = rows[..., COLUMNS["kind"]][..., KINDS.index(kind), None] > 0
    return offset, jnp.sqrt(jnp.sum(offset**2, -1, keepdims=True) + 1e-12), velocity, there


def hunting(rows: Array, velocity: Array) -> Array:
    """(A, 2) way to where the nearest target will be, kept apart from team-mates, so that they close in around it."""
    offset, distance, moving, there = _of_kind(rows, Kind.TARGET)
    first = jnp.argmin(jnp.where(there, distance, jnp.inf), 1)[..., None]
    offset, distance, moving = (jnp.take_along_axis(of, first, 1)[:, 0] for of in (offset, distance, moving))
    ahead = (moving + velocity) * jnp.minimum(distance / SPEED, LEAD)
    mate, apart, _, near = _of_kind(rows, Kind.TEAMMATE)
    return 4 * (offset + ahead) + SETTLING * moving - jnp.sum(jnp.where(near, APART * mate / apart**2, 0.0), 1)


def fleeing(rows: Array) -> Array:
    """(A, 2) way from targets, the nearer the more."""
    offset, distance, _, there = _of_kind(rows, Kind.TARGET)
    return -jnp.sum(jnp.where(there, offset / distance**3, 0.0), 1)


def inward(place: Array, half: float) -> Array:
    """(A, 2) way from the border, for drones at `place` (A, 2) m."""
    return -jnp.sign(place) * 4 * jnp.clip(1 - (half - jnp.abs(place)) / AWARE, 0.0, 2.0)


def avoiding(rows: Array, way: Array) -> Array:
    """(A, 2) to add to a way, so that it leads around columns that are near instead of into them."""
    offset, distance, _, there = _of_kind(rows, Kind.OBSTACLE)
    normal, free = offset / distance, distance - rows[..., COLUMNS["size"]]
    beside = jnp.stack([-normal[..., 1], normal[..., 0]], -1)
    into, past = (jnp.sum(way[:, None] * axis, -1, keepdims=True) for axis in (normal, beside))
    turn = jnp.maximum(into, 0.0) * (jnp.where(past < 0, -beside, beside) - normal)
    return jnp.sum(jnp.where(there, jnp.clip(1 - free / AWARE, 0.0, 1.0) * (turn - 0.3 * normal), 0.0), 1)
