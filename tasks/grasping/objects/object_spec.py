"""`ObjectSpec`: an object as a union of parts, with its bounds, signed distance, mass and inertia."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import Colour, Part, Points, quaternion

SAMPLES = 1 << 10  # points per octant of a part that integrate its mass: inertia to better than 1 %
SIGNS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))


@dataclasses.dataclass(frozen=True)
class MassProperties:
    """Mass properties of a rigid body of uniform density."""

    mass: float
    """kg."""
    centre: np.ndarray
    """(3,) m, centre of mass in the body's frame."""
    inertia: np.ndarray
    """(3, 3) kg m^2 about the centre of mass, along the body's axes."""

    @property
    def principal(self) -> tuple[np.ndarray, tuple[float, float, float, float]]:
        """Principal moments (3,) kg m^2, largest first as in MuJoCo, and the quaternion wxyz of their axes."""
        moments, axes = np.linalg.eigh(self.inertia)
        axes = axes[:, ::-1] * np.array([1.0, 1.0, np.linalg.det(axes[:, ::-1])])
        return moments[::-1], quaternion(axes)


@dataclasses.dataclass(frozen=True)
class ObjectSpec:
    """An object. Its frame is at the centre of its bounding box, z up as it usually stands or lies."""

    name: str
    mass: float
    """kg."""
    parts: tuple[Part, ...]
    rgba: Colour
    published: tuple[float, ...] = ()
    """m, the dimensions that the source gives (a round thing's diameter once); empty for a thing of our own."""
    shell: float | None = None
    """m, thickness of the wall that bears all its mass; None: it is solid. In contact it is always solid."""
    rolls: bool = False
    """Whether it would roll for ever: its contacts resist rolling (condim 6 rather than 3)."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise EmbodiedError(f"the object {self.name!r} has no parts; expected at least one")
        if not (math.isfinite(self.mass) and self.mass > 0):
            raise EmbodiedError(f"the object {self.name!r} weighs {self.mass} kg; expected a positive mass")
        if self.shell is not None and self.shell <= 0:
            raise EmbodiedError(
                f"the object {self.name!r} has a shell of {self.shell} m; expected more than 0, or None"
            )

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Two (3,) m: the corners of its bounding box along its axes."""
        lows, highs = zip(*(part.bounds for part in self.parts), strict=True)
        return np.min(lows, axis=0), np.max(highs, axis=0)

    @property
    def extents(self) -> np.ndarray:
        """(3,) m, edges of its bounding box."""
        low, high = self.bounds
        return high - low

    def distance(self, points: Points) -> np.ndarray:
        """(n,) m, signed distance to its surface; exact outside, inside no farther from zero than the exact one."""
        return np.min([part.distance(points) for part in self.parts], axis=0)

    @functools.cached_property
    def properties(self) -> MassProperties:
        """Mass, centre and inertia of the union of the parts, overlaps counted once."""
        points, weights = _filled(self.parts)
        if self.shell is not None:
            weights = weights * (self.distance(points) > -self.shell)
        weights = weights * (self.mass / weights.sum())
        centre = weights @ points / self.mass
        arms = points - centre
        second = (arms * weights[:, None]).T @ arms
        return MassProperties(self.mass, centre, np.trace(second) * np.eye(3) - second)

    @functools.cached_property
    def volume(self) -> float:
        """m^3 of the union of the parts, a shell's hollow included."""
        return float(_filled(self.parts)[1].sum())


@functools.lru_cache(maxsize=8)
def _filled(parts: tuple[Part, ...]) -> tuple[Points, np.ndarray]:
    """Points (n, 3) inside any part, and the volume (n,) m^3 for which each stands; kept, for two properties need it.

    All eight octants are alike: what is symmetric has its centre of mass exactly in the middle.
    """
    unit = (SIGNS[:, None] * low_discrepancy(SAMPLES)).reshape(-1, 3)
    points, weights = [], []
    for number, part in enumerate(parts):
        inside = unit * part.half @ part.rotation.T + np.array(part.pos)
        inside = inside[part.distance(inside) <= 0]
        low, high = part.bounds
        others = parts[:number] + parts[number + 1 :]
        touching = [p for p in others if (p.bounds[0] <= high).all() and (p.bounds[1] >= low).all()]
        # A point that lies in k parts is drawn k times.
        drawn = np.sum([np.ones(len(inside)), *(other.distance(inside) <= 1e-12 for other in touching)], axis=0)
        points.append(inside)
        weights.append(part.volume / len(inside) / drawn)
    return np.concatenate(points), np.concatenate(weights)


def object_spec(
    name: str,
    mass: float,
    parts: tuple[Part, ...],
    rgba: Colour,
    published: tuple[float, ...] = (),
    shell: float | None = None,
    rolls: bool = False,
) -> ObjectSpec:
    """A `ObjectSpec` whose parts are placed in any frame: they are shifted so that their bounding box is centred."""
    low, high = ObjectSpec(name, mass, parts, rgba).bounds
    shifted = tuple(part.moved(-(low + high) / 2) for part in parts)
    return ObjectSpec(name, mass, shifted, rgba, published, shell, rolls)


@functools.cache
def low_discrepancy(count: int) -> np.ndarray:
    """(count, 3) points that fill the unit cube evenly, always the same.

    Additive recurrence by powers of 1/g, where g is the root of g^4 = g + 1 (Roberts, "The unreasonable effectiveness
    of quasirandom sequences", 2018).
    """
    ratio = 1.2207440846057596
    steps = ratio ** -np.arange(1.0, 4.0)
    points = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    points.flags.writeable = False
    return points
