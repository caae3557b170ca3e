"""Primitive shapes as pure geometry: signed distance, bounds and volume.

A `Part` is a primitive with a pose in its object's frame; sizes are MuJoCo's. Every function works on numpy arrays of
points, in m, in double precision.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Sequence

import mujoco
import numpy as np

from embodied.errors import EmbodiedError

Points = np.ndarray
"""(n, 3) float64, m."""
Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity in [0, 1]."""


class Shape(enum.Enum):
    """A primitive, and what `Part.size` means for it, m."""

    BOX = mujoco.mjtGeom.mjGEOM_BOX
    """(3,) half the edges along x, y, z."""
    CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
    """(2,) radius, half the length along z."""
    CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
    """(2,) radius, half the length along z between the centres of its hemispheres."""
    SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE
    """(1,) radius."""


NUMBERS = {Shape.BOX: 3, Shape.CYLINDER: 2, Shape.CAPSULE: 2, Shape.SPHERE: 1}
"""Length of `Part.size`."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One primitive of an object."""

    shape: Shape
    size: tuple[float, ...]
    """m, see `Shape`."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m, its centre in the object's frame."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """wxyz, its frame -> the object's."""
    rgba: Colour | None = None
    """None: the object's own colour."""

    def __post_init__(self) -> None:
        expected = NUMBERS[self.shape]
        name = self.shape.name.lower()
        if len(self.size) != expected or not all(math.isfinite(number) and number > 0 for number in self.size):
            raise EmbodiedError(f"a {name} of size {self.size}; expected {expected} positive lengths in m")
        if not np.isfinite([*self.pos, *self.quat]).all() or not 0.99 < math.hypot(*self.quat) < 1.01:
            raise EmbodiedError(f"a {name} at {self.pos}, {self.quat}; expected m and a unit quaternion wxyz")

    @functools.cached_property
    def rotation(self) -> np.ndarray:
        """(3, 3), its frame -> the object's."""
        return matrix(self.quat)

    @property
    def volume(self) -> float:
        """m^3."""
        size = self.size
        if self.shape is Shape.BOX:
            return 8 * size[0] * size[1] * size[2]
        ball = 4 / 3 * math.pi * size[0] ** 3 if self.shape is not Shape.CYLINDER else 0.0
        column = 2 * math.pi * size[0] ** 2 * size[1] if self.shape is not Shape.SPHERE else 0.0
        return ball + column

    @property
    def half(self) -> np.ndarray:
        """(3,) m, half the extents of its own bounding box, in its own frame."""
        if self.shape is Shape.BOX:
            return np.array(self.size)
        radius = self.size[0]
        length = {Shape.CYLINDER: 0.0, Shape.CAPSULE: radius, Shape.SPHERE: radius}[self.shape] + sum(self.size[1:])
        return np.array([radius, radius, length])

    @functools.cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Two (3,) m: the lowest and the highest corner of the box around it, along the object's axes; exact."""
        turn = self.rotation
        if self.shape is Shape.BOX:
            reach = np.abs(turn) @ self.half
        elif self.shape is Shape.CYLINDER:
            axis = turn[:, 2]
            reach = self.size[0] * np.sqrt(np.clip(1 - axis**2, 0, None)) + self.size[1] * np.abs(axis)
        else:
            reach = self.size[0] + np.abs(turn[:, 2]) * sum(self.size[1:])
        return np.array(self.pos) - reach, np.array(self.pos) + reach

    def moved(self, offset: Sequence[float] | np.ndarray) -> Part:
        """The same part elsewhere: shifted by (3,) m."""
        return dataclasses.replace(self, pos=vector(np.add(self.pos, offset)))

    def local(self, points: Points) -> Points:
        return (points - np.array(self.pos)) @ self.rotation

    def distance(self, points: Points) -> np.ndarray:
        """(n,) m, signed Euclidean distance of points of the object's frame to the surface; negative inside."""
        local = np.ascontiguousarray(self.local(points).T)  # by columns: several times faster
        if self.shape is Shape.BOX:
            return _beyond(np.abs(local) - np.array(self.size)[:, None])
        if self.shape is Shape.CYLINDER:
            radial = np.hypot(local[0], local[1])
            return _beyond(np.stack([radial, np.abs(local[2])]) - np.array(self.size)[:, None])
        half = sum(self.size[1:])
        local[2] -= np.clip(local[2], -half, half)
        return np.linalg.norm(local, axis=0) - self.size[0]


def matrix(quat: Sequence[float] | np.ndarray) -> np.ndarray:
    """(3, 3) rotation of a quaternion wxyz, in double precision."""
    result = np.zeros(9)
    mujoco.mju_quat2Mat(result, np.asarray(quat, float) / np.linalg.norm(quat))
    return result.reshape(3, 3)


def quaternion(turn: np.ndarray) -> tuple[float, float, float, float]:
    """Quaternion wxyz, w not negative, of a rotation matrix (3, 3), in double precision."""
    result = np.zeros(4)
    mujoco.mju_mat2Quat(result, np.ascontiguousarray(turn, float).ravel())
    w, x, y, z = (float(number) for number in (result if result[0] >= 0 else -result))
    return w, x, y, z


def vector(numbers: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """Three numbers, as Python's own floats."""
    x, y, z = (float(number) for number in numbers)
    return x, y, z


def turned(axis: Sequence[float] | np.ndarray) -> tuple[float, float, float, float]:
    """The shortest turn, wxyz, that takes z to the direction (3,), of any length."""
    result = np.zeros(4)
    mujoco.mju_quatZ2Vec(result, np.asarray(axis, float) / np.linalg.norm(axis))
    w, x, y, z = (float(number) for number in result)
    return w, x, y, z


def _beyond(excess: np.ndarray) -> np.ndarray:
    """Signed distance to a box from how far points lie beyond its faces, (k, n)."""
    return np.linalg.norm(np.maximum(excess, 0), axis=0) + np.minimum(excess.max(0), 0)


def box(size: tuple[float, float, float], at: tuple[float, float, float], rgba: Colour | None = None) -> Part:
    """A box of full edges (3,) around a point."""
    x, y, z = (edge / 2 for edge in size)
    return Part(Shape.BOX, (x, y, z), at, rgba=rgba)


def cylinder(
    diameter: float, start: tuple[float, float, float], end: tuple[float, float, float], rgba: Colour | None = None
) -> Part:
    """A cylinder between the middles of its two ends."""
    middle, axis, half = _between(start, end)
    return Part(Shape.CYLINDER, (diameter / 2, half), middle, turned(axis), rgba)


def capsule(
    diameter: float, start: tuple[float, float, float], end: tuple[float, float, float], rgba: Colour | None = None
) -> Part:
    """A capsule between the centres of its two hemispheres."""
    middle, axis, half = _between(start, end)
    return Part(Shape.CAPSULE, (diameter / 2, half), middle, turned(axis), rgba)


def sphere(diameter: float, at: tuple[float, float, float], rgba: Colour | None = None) -> Part:
    return Part(Shape.SPHERE, (diameter / 2,), at, rgba=rgba)


def _between(
    start: tuple[float, float, float], end: tuple[float, float, float]
) -> tuple[tuple[float, float, float], np.ndarray, float]:
    """The middle of a line, its direction and half its length, m."""
    axis = np.array(end) - np.array(start)
    x, y, z = ((a + b) / 2 for a, b in zip(start, end, strict=True))
    return (x, y, z), axis, float(np.linalg.norm(axis)) / 2


def wall(
    lower: float, upper: float, low: float, high: float, thickness: float, count: int, rgba: Colour | None = None
) -> tuple[Part, ...]:
    """A round wall of `count` flat boxes, upright or leaning outwards.

    Args:
        lower: m, outer diameter at its lower rim, across flats.
        upper: m, at its upper rim.
        low: m, height of the lower rim.
        high: m, height of the upper rim.
        thickness: m, of the wall.
        count: Number of boxes.
        rgba: Colour.
    """
    out, rise = (upper - lower) / 2, high - low
    length = math.hypot(out, rise)
    # Half a thickness inwards from the middle of the outer face.
    radius = (lower + upper) / 4 - thickness / 2 * rise / length
    height = (low + high) / 2 + thickness / 2 * out / length
    width = max(lower, upper) * math.tan(math.pi / count)
    parts = []
    for number in range(count):
        angle = 2 * math.pi * number / count
        cos, sin = math.cos(angle), math.sin(angle)
        up = np.array([cos * out, sin * out, rise]) / length
        along = np.array([-sin, cos, 0.0])
        turn = np.stack([np.cross(along, up), along, up], -1)
        size = (thickness / 2, width / 2, length / 2)
        parts.append(Part(Shape.BOX, size, (radius * cos, radius * sin, height), quaternion(turn), rgba))
    return tuple(parts)
