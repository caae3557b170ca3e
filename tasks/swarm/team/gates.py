"""Gates to fly through, and walls in the way: what a course is made of."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

OPENING = 0.4  # m, half the side of a gate's square opening
FRAME = 0.1  # m, width of its frame
RING = 2.0  # m, mean distance of the gates of a random course from its middle
CLEAR = 0.6  # m before and behind a gate that must be free of walls


@dataclasses.dataclass(frozen=True)
class Gate:
    """A square opening to fly through."""

    x: float
    """m."""
    y: float
    """m."""
    z: float
    """m, of its middle."""
    heading: float
    """rad, of the direction in which it is flown through."""


@dataclasses.dataclass(frozen=True)
class Wall:
    """A box that stands in the way."""

    low: tuple[float, float, float]
    """m."""
    high: tuple[float, float, float]
    """m."""


def blocked(gate: Gate, wall: Wall) -> bool:
    """Whether a wall reaches into the opening of a gate or the way through it."""
    way = np.linspace(-CLEAR, CLEAR, 13)
    across = np.linspace(-OPENING, OPENING, 9)
    s, u, v = np.meshgrid(way, across, across, indexing="ij")
    cosine, sine = np.cos(gate.heading), np.sin(gate.heading)
    points = np.stack([gate.x + cosine * s - sine * u, gate.y + sine * s + cosine * u, gate.z + v], -1)
    return bool(np.all((points > np.array(wall.low)) & (points < np.array(wall.high)), -1).any())


def random_course(key: Array, gates: int) -> tuple[Array, Array]:
    """Middles (gates, 3) m and headings (gates,) rad of gates around a ring, at random heights and a little turned."""
    ring, shape = jax.random.split(key)
    near, high, turned = jax.random.uniform(shape, (3, gates))
    angle = 2 * jnp.pi * (jnp.arange(gates) / gates + jax.random.uniform(ring))
    radius = RING + 1.0 * (near - 0.5)
    middle = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), 1.0 + 1.0 * high], -1)
    return middle, angle + jnp.pi / 2 + 0.8 * (turned - 0.5)


def in_gate(middle: Array, heading: Array, pos: Array) -> Array:
    """(..., 3) m from a gate's `middle` (..., 3) to `pos` (..., 3): along the way through it, to the left, up."""
    x, y, z = jnp.moveaxis(pos - middle, -1, 0)
    cosine, sine = jnp.cos(heading), jnp.sin(heading)
    return jnp.stack([cosine * x + sine * y, cosine * y - sine * x, z], -1)


def outline(middle: Array, heading: Array) -> Array:
    """(gates x 8, 3) m, corners and middles of the sides of gates at `middle` (gates, 3) m, for pictures."""
    side = jnp.array([[-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1], [0, -1]]) * (OPENING + FRAME / 2)
    left = jnp.stack([-jnp.sin(heading), jnp.cos(heading), jnp.zeros_like(heading)], -1)
    corners = middle[:, None] + side[:, :1] * left[:, None] + side[:, 1:] * jnp.eye(3)[2]
    return corners.reshape(-1, 3)
