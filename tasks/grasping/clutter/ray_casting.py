"""Depth images of objects alone, by rays that meet primitives in closed form.

A ray's first point on a union of primitives is the nearest of its first points on each, as long as it begins outside.
Boxes are three slabs, cylinders a quadric and a slab: of convex bodies that are cut, the latest entry counts and the
earliest exit (Kay and Kajiya, "Ray tracing complex scenes", SIGGRAPH 1986). Capsules are a cylinder and two balls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tasks.grasping.objects.pointclouds import Camera, PlacedObject
from tasks.grasping.objects.shapes import Part, Shape, matrix

Span = tuple[np.ndarray, np.ndarray]
"""(n,) m along each ray: where it enters and leaves; the exit comes before the entry where it passes."""

TINY = 1e-300  # for divisions: a ray along a slab is inside it for ever, or never


def depth_images(scene: Sequence[PlacedObject], camera: Camera) -> np.ndarray:
    """(objects, height, width) m along each pixel's ray to each object as if it were alone; inf where it is not."""
    rays, eye = camera.rays, np.array(camera.pos)
    shape = (len(scene), camera.height, camera.width)
    return np.array([cast_rays(placed, eye, rays)[0] for placed in scene]).reshape(shape)


def cast_rays(placed: PlacedObject, eye: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances along rays to one object, and its parts that they meet.

    Args:
        placed: The object.
        eye: (3,) m, where all rays begin; or (n, 3), each its own.
        rays: (n, 3) unit directions.

    Returns:
        (n,) m, inf where a ray passes; (n,) the part's number, -1 where it passes.
    """
    depth, met = np.full(len(rays), np.inf), np.full(len(rays), -1)
    low, high = placed.item.bounds
    turn = matrix(placed.quat)
    middle = np.array(placed.pos) + turn @ (low + high) / 2
    chosen = _near(middle, float(np.linalg.norm(high - low)) / 2, eye, rays)
    start = (_of(eye, chosen) - np.array(placed.pos)) @ turn
    along = rays[chosen] @ turn
    for number, part in enumerate(placed.item.parts):
        near = _near(np.array(part.pos), float(np.linalg.norm(part.half)), start, along)
        found = _entry(part, _of(start, near), along[near])
        ours = chosen[near]
        closer = found < depth[ours]
        depth[ours[closer]], met[ours[closer]] = found[closer], number
    return depth, met


def _of(start: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Origins of the chosen rays: (3,) for all of them, or (n, 3)."""
    return start if start.ndim == 1 else start[chosen]


def _near(middle: np.ndarray, radius: float, start: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Numbers of the rays that meet a ball."""
    offset = middle - start
    forward = along @ offset if start.ndim == 1 else np.einsum("nk,nk->n", along, offset)
    squared = offset @ offset if start.ndim == 1 else np.einsum("nk,nk->n", offset, offset)
    # A little wider: rounding shall not lose a ray that grazes.
    reach = (1 + 1e-9) * radius
    return np.flatnonzero((squared - forward**2 <= reach**2) & (forward > -reach))


def _entry(part: Part, start: np.ndarray, along: np.ndarray) -> np.ndarray:
    """(n,) m to a part's surface, 0 from inside, inf where rays pass; in its object's frame."""
    turn = part.rotation
    enter, leave = SPANS[part.shape](part.size, (start - np.array(part.pos)) @ turn, along @ turn)
    return np.where((enter <= leave) & (leave >= 0), np.maximum(enter, 0.0), np.inf)


def _slab(half: float, start: np.ndarray, along: np.ndarray) -> Span:
    """Between two planes at -half and half; one coordinate of start and direction."""
    rate = np.where(np.abs(along) < TINY, TINY, along)
    first, second = (-half - start) / rate, (half - start) / rate
    return np.minimum(first, second), np.maximum(first, second)


def _both(*spans: Span) -> Span:
    """Overlap of all of them."""
    return np.max([enter for enter, _ in spans], axis=0), np.min([leave for _, leave in spans], axis=0)


def _either(*spans: Span) -> Span:
    """From the first entry to the last exit; exact where the union is convex."""
    enters = [np.where(enter <= leave, enter, np.inf) for enter, leave in spans]
    leaves = [np.where(enter <= leave, leave, -np.inf) for enter, leave in spans]
    return np.min(enters, axis=0), np.max(leaves, axis=0)


def _quadric(radius: float, start: np.ndarray, along: np.ndarray) -> Span:
    """A ball (three coordinates), or a cylinder without ends (two)."""
    a = np.maximum((along**2).sum(-1), TINY)
    nearest = -(along * start).sum(-1) / a
    # From the nearest point rather than by b^2 - 4 a c, which cancels for small bodies far away.
    gap = radius**2 - ((start + nearest[:, None] * along) ** 2).sum(-1)
    half = np.sqrt(np.maximum(gap, 0) / a)
    return np.where(gap < 0, np.inf, nearest - half), np.where(gap < 0, -np.inf, nearest + half)


def _box(size: Sequence[float], start: np.ndarray, along: np.ndarray) -> Span:
    return _both(*(_slab(half, start[..., axis], along[:, axis]) for axis, half in enumerate(size)))


def _sphere(size: Sequence[float], start: np.ndarray, along: np.ndarray) -> Span:
    return _quadric(size[0], start, along)


def _cylinder(size: Sequence[float], start: np.ndarray, along: np.ndarray) -> Span:
    mantle = _quadric(size[0], start[..., :2], along[:, :2])
    return _both(mantle, _slab(size[1], start[..., 2], along[:, 2]))


def _capsule(size: Sequence[float], start: np.ndarray, along: np.ndarray) -> Span:
    ends = (_quadric(size[0], start - np.array([0.0, 0.0, end]), along) for end in (-size[1], size[1]))
    return _either(_cylinder(size, start, along), *ends)


SPANS: Mapping[Shape, Callable[[Sequence[float], np.ndarray, np.ndarray], Span]] = {
    Shape.BOX: _box,
    Shape.SPHERE: _sphere,
    Shape.CYLINDER: _cylinder,
    Shape.CAPSULE: _capsule,
}
