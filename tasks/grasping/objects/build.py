"""How descriptions place parts: by full dimensions, m, as a ruler gives them, in any frame."""

from __future__ import annotations

import math

import numpy as np

from tasks.grasping.objects.shapes import Colour, Part, Shape, quaternion, turned


def box(size: tuple[float, float, float], at: tuple[float, float, float], rgba: Colour | None = None) -> Part:
    """A box of full edges (3,) around a point."""
    x, y, z = (edge / 2 for edge in size)
    return Part(Shape.BOX, (x, y, z), at, rgba=rgba)


def cylinder(
    diameter: float,
    start: tuple[float, float, float],
    end: tuple[float, float, float],
    rgba: Colour | None = None,
) -> Part:
    """A cylinder between the middles of its two ends."""
    middle, axis, half = _between(start, end)
    return Part(Shape.CYLINDER, (diameter / 2, half), middle, turned(axis), rgba)


def capsule(
    diameter: float,
    start: tuple[float, float, float],
    end: tuple[float, float, float],
    rgba: Colour | None = None,
) -> Part:
    """A capsule between the centres of its two hemispheres."""
    middle, axis, half = _between(start, end)
    return Part(Shape.CAPSULE, (diameter / 2, half), middle, turned(axis), rgba)


def sphere(diameter: float, at: tuple[float, float, float], rgba: Colour | None = None) -> Part:
    """A ball around a point."""
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
        w, x, y, z = (float(value) for value in quaternion(turn))
        size = (thickness / 2, width / 2, length / 2)
        parts.append(Part(Shape.BOX, size, (radius * cos, radius * sin, height), (w, x, y, z), rgba))
    return tuple(parts)
