"""A body as a tree of limbs, and how variants of it come about: limbs left out, mirrored, or bridged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator

from embodied.errors import UnknownNameError

Vector = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Capsule:
    """A stretch of a limb: seen, felt by the floor, and heavy."""

    start: Vector
    """m, in the limb's frame."""
    end: Vector
    """m, in the limb's frame; the same as `start` for a ball."""
    radius: float
    """m."""


@dataclasses.dataclass(frozen=True)
class Hinge:
    """A joint with a motor."""

    axis: Vector
    """Direction in the limb's frame, of any length."""
    range: tuple[float, float]
    """Degrees."""
    gear: float
    """N m at a control of 1."""
    stiffness: float = 0.0
    """N m/rad, towards an angle of zero."""
    damping: float = 0.0
    """N m s/rad."""
    armature: float = 0.0
    """kg m^2, inertia of the rotor as the joint sees it."""
    offset: Vector = (0.0, 0.0, 0.0)
    """m, a point on the axis in the limb's frame."""


@dataclasses.dataclass(frozen=True)
class Limb:
    """A part of a body and all that hangs on it. Frames of all limbs agree in the pose in which it is described."""

    name: str
    at: Vector
    """m, its frame's place in the frame of the part it hangs on."""
    capsules: tuple[Capsule, ...]
    """Its shapes; the first one's length and radius describe it."""
    hinges: tuple[Hinge | None, Hinge | None, Hinge | None] = (None, None, None)
    """About roughly x, y and z, in the order in which they act; None where it cannot turn."""
    children: tuple[Limb, ...] = ()

    def __iter__(self) -> Iterator[Limb]:
        """It and everything that hangs on it, depth first: the order of bodies in a model."""
        yield self
        for child in self.children:
            yield from child


def renamed(limb: Limb, prefix: str) -> Limb:
    """The same limb with all its names prefixed."""
    return _mapped(limb, lambda part: dataclasses.replace(part, name=prefix + part.name))


def mirrored(limb: Limb) -> Limb:
    """Its image in the plane of x and z, moved by the mirrored motion at the same angles."""

    def image(part: Limb) -> Limb:
        hinges = [
            # An axis is a pseudovector: of its image, the components in the mirror's plane change sign.
            hinge
            and dataclasses.replace(
                hinge, axis=(-hinge.axis[0], hinge.axis[1], -hinge.axis[2]), offset=_flipped(hinge.offset)
            )
            for hinge in part.hinges
        ]
        capsules = [Capsule(_flipped(c.start), _flipped(c.end), c.radius) for c in part.capsules]
        return dataclasses.replace(
            part, at=_flipped(part.at), capsules=tuple(capsules), hinges=(hinges[0], hinges[1], hinges[2])
        )

    return _mapped(limb, image)


def pair(limb: Limb) -> tuple[Limb, Limb]:
    """A limb described on the right side, where y is negative, and its image, with their sides in their names."""
    return renamed(limb, "right_"), renamed(mirrored(limb), "left_")


def without(body: Limb, names: Collection[str]) -> Limb:
    """The body without these limbs and all that hangs on them."""
    _check(body, names)
    return _mapped(
        body, lambda part: dataclasses.replace(part, children=tuple(c for c in part.children if c.name not in names))
    )


def bridged(body: Limb, names: Collection[str]) -> Limb:
    """The body without these limbs, whose places are taken by what hangs on them."""
    _check(body, names)

    def heirs(part: Limb) -> Iterator[Limb]:
        for child in part.children:
            if child.name not in names:
                yield child
            else:
                yield from (dataclasses.replace(heir, at=child.at) for heir in heirs(child))

    return _mapped(body, lambda part: dataclasses.replace(part, children=tuple(heirs(part))))


def _mapped(limb: Limb, change: Callable[[Limb], Limb]) -> Limb:
    """Every part changed, from the root to the tips."""
    changed = change(limb)
    return dataclasses.replace(changed, children=tuple(_mapped(child, change) for child in changed.children))


def _check(body: Limb, names: Collection[str]) -> None:
    known = [limb.name for limb in body]
    for name in names:
        if name not in known[1:]:
            raise UnknownNameError("limb", name, known[1:])


def _flipped(vector: Vector) -> Vector:
    return vector[0], -vector[1], vector[2]
