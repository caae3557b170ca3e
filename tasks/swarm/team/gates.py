"""Gates to fly through, and walls in the way: what a course is made of."""

from __future__ import annotations

import colorsys
import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.math.rotations import quat_from_yaw, quat_rotate

OPENING = 0.4  # m, half the side of a gate's square opening
FRAME = 0.1  # m, width of its frame
RING = 2.0  # m, mean distance of the gates of a random course from its middle
CLEAR = 0.6  # m before and behind a gate that must be free of walls
HUES = 0.8  # of the colour circle, from the first gate's red to the last one's purple; our choice
THICK = 0.04  # m, of a frame along the way through it; our choice
BARS = {
    "left": ((0.0, OPENING + FRAME / 2, 0.0), (THICK / 2, FRAME / 2, OPENING + FRAME)),
    "right": ((0.0, -OPENING - FRAME / 2, 0.0), (THICK / 2, FRAME / 2, OPENING + FRAME)),
    "top": ((0.0, 0.0, OPENING + FRAME / 2), (THICK / 2, OPENING, FRAME / 2)),
    "bottom": ((0.0, 0.0, -OPENING - FRAME / 2), (THICK / 2, OPENING, FRAME / 2)),
}
"""A frame's boxes: position, m, along the way through the gate, to the left and up, and half of its sides, m."""


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


def add_frames(spec: mujoco.MjSpec, gates: int) -> None:
    """Frames of so many gates, each of its own colour, for cameras; `frames` gives their positions."""
    for gate in range(gates):
        for bar, (place, half) in BARS.items():
            spec.worldbody.add_geom(
                name=f"gate{gate}_{bar}", type=mujoco.mjtGeom.mjGEOM_BOX, pos=place, size=half,
                rgba=[*colour(gate, gates), 1], group=2, contype=0, conaffinity=0,
            )  # fmt: skip


def colour(gate: int, gates: int) -> tuple[float, float, float]:
    """Red, green and blue of a gate, by its number in the course."""
    return colorsys.hsv_to_rgb(HUES * gate / max(gates - 1, 1), 0.85, 0.9)


def frames(middle: Array, heading: Array) -> Mapping[str, Array]:
    """Rows of `Pictures.geom_appearance` for frames at `middle` (gates, 3) m, turned to `heading` (gates,) rad."""
    rows: dict[str, Array] = {}
    for gate in range(len(middle)):
        quat, rgba = quat_from_yaw(heading[gate]), jnp.asarray([*colour(gate, len(middle)), 1.0])
        for bar, (place, half) in BARS.items():
            stands = middle[gate] + quat_rotate(quat, jnp.asarray(place))
            rows[f"gate{gate}_{bar}"] = jnp.concatenate([jnp.asarray(half), stands, quat, rgba])
    return rows
