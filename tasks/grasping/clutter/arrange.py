"""Objects close together on a table before they settle: standing, lying, or dropped onto the others.

The table's top is the plane z = 0; the clutter is around the origin.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import mujoco
import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.drop_and_settle import RADIUS
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.grasping.objects.shapes import quaternion, vector

STEP = 0.006  # m, by which an object is moved outwards until there is room for it
ABOVE = 0.001  # m, over the table at which objects are put down
DROP = 0.02  # m, between a dropped object and the highest below it
DIRECTIONS = 8  # from the middle, in which room for an object is looked for


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """Spacing and poses of objects."""

    gap: tuple[float, float] = (0.004, 0.03)
    """m, range of the room left around each object."""
    lying: float = 0.15
    """Share of the objects that are put on their side."""
    dropped: float = 0.2
    """Share of the objects that are dropped onto the others, turned any way."""
    radius: float = RADIUS
    """m, around the origin, beyond which nothing may come to rest."""

    def __post_init__(self) -> None:
        shares = min(self.lying, self.dropped), max(self.lying, self.dropped)
        if not 0 <= self.gap[0] <= self.gap[1] or not 0 <= shares[0] <= shares[1] <= 1 or not self.radius > 0:
            raise EmbodiedError(f"{self}; expected a range of m for gap, shares in [0, 1] and a positive radius")


def arrange_objects(
    items: Sequence[ObjectSpec], how: Arrangement, random: np.random.Generator
) -> tuple[PlacedObject, ...]:
    """Poses in which the objects are put down or dropped, in the order given; nothing has moved yet."""
    placed: list[PlacedObject] = []
    taken: list[np.ndarray] = []
    top = 0.0
    fates = random.uniform(size=len(items))
    # The first stands in any case: there is nothing yet to be dropped on.
    flying = [number > 0 and fate < how.dropped for number, fate in enumerate(fates)]
    for item, fate, flies in sorted(zip(items, fates, flying, strict=True), key=lambda entry: entry[2]):
        if flies:
            placed.append(_dropped(item, top, random))
            top = placed[-1].pos[2] + float(np.linalg.norm(item.extents)) / 2
            continue
        turn, half = _on_its_side(item, random) if fate > 1 - how.lying else (np.eye(3), item.extents / 2)
        yaw = random.uniform(-math.pi, math.pi)
        spin = np.array([[math.cos(yaw), -math.sin(yaw), 0], [math.sin(yaw), math.cos(yaw), 0], [0, 0, 1]])
        corners = half[:2] + random.uniform(*how.gap) / 2
        spot = _free_spot(corners, spin, taken, random)
        taken.append(_rectangle(corners, spin) + spot)
        placed.append(_at(item, (*spot, half[2] + ABOVE), spin @ turn))
        top = max(top, 2 * float(half[2]))
    order = {id(entry.item): entry for entry in placed}
    return tuple(order[id(item)] for item in items)


def _at(item: ObjectSpec, pos: Sequence[float], turn: np.ndarray) -> PlacedObject:
    return PlacedObject(item, vector(pos), quaternion(turn))


def _dropped(item: ObjectSpec, top: float, random: np.random.Generator) -> PlacedObject:
    """Above everything, turned any way."""
    quat = random.normal(size=4)
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, quat / np.linalg.norm(quat))
    height = top + DROP + float(np.linalg.norm(item.extents)) / 2
    return _at(item, (*random.normal(scale=0.03, size=2), height), turn.reshape(3, 3))


def _on_its_side(item: ObjectSpec, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A quarter turn about x or y, and half the extents (3,) m then."""
    axis = int(random.integers(2))
    turn = np.eye(3)[[0, 2, 1]] if axis == 0 else np.eye(3)[[2, 1, 0]]
    half = turn @ item.extents / 2
    # A permutation of two axes mirrors: the sign of one makes it a turn.
    return turn @ np.diag([-1.0 if i == axis else 1.0 for i in range(3)]), half


def _free_spot(
    corners: np.ndarray, spin: np.ndarray, taken: Sequence[np.ndarray], random: np.random.Generator
) -> tuple[float, float]:
    """The point nearest to the middle, in one of some random directions, where a rectangle meets none that is there."""
    angles = random.uniform(-math.pi, math.pi, DIRECTIONS)
    ways = np.array([(math.cos(angle), math.sin(angle)) for angle in angles])
    ours, others = _rectangle(corners, spin), np.reshape(taken, (-1, 4, 2))
    for distance in itertools.count(0.0, STEP):
        spots = distance * ways
        free = _apart((ours + spots[:, None])[:, None], others).all(axis=1)
        if free.any():
            x, y = spots[free.argmax()].tolist()
            return x, y
    raise AssertionError("a plane has room for everything")


def _rectangle(half: np.ndarray, spin: np.ndarray) -> np.ndarray:
    """(4, 2) m, corners in order, around the middle."""
    signs = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    return signs * half @ spin[:2, :2].T


def _apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(...) whether an edge of one of two rectangles (..., 4, 2) separates them."""
    apart = np.zeros((), bool)
    for corners in (first, second):
        for edge in (corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 1, :]):
            ours, others = (np.einsum("...ij,...j->...i", points, edge) for points in (first, second))
            apart = apart | (ours.max(-1) < others.min(-1)) | (others.max(-1) < ours.min(-1))
    return apart
