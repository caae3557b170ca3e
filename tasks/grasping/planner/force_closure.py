"""Ranked grasps of a superquadric: palm poses, approaches, and their quality.

The palm's frame: +z points out of the palm towards the object, +x along the fingers. Fingers that close turn about y,
and meet thumb or palm along x: an object is gripped between two contacts along x, and approached along z. Poses are in
the frame of the cloud that the superquadric was fitted to.

    ranking = grasps(shape, Grip(width=0.10), table=0.0)
    best = ranking.grasps[0]      # or, if there is none, ranking.reason says why
    best.pos, best.quat           # the palm; best.back(0.05) is the pre-grasp 5 cm back along the approach
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import quaternion, vector
from tasks.grasping.planner.half_spaces import direction
from tasks.grasping.planner.superquadrics import Superquadric

ROUND = 0.7  # exponent from which a section counts as round, and is also gripped between its axes
ROLLS = (0.0, math.pi / 4, math.pi / 2, 3 * math.pi / 4)  # rad, about the approach, of a round section
HEIGHTS = (0.0, 0.45, -0.45)  # of a half-axis: where along an object its grasps are
BISECTIONS = 32  # of at most half a metre: 0.1 nm
UPRIGHT = 0.97  # cosine: an axis within 14 degrees of the vertical stands for it
STEEP = 0.1  # least share of the approach that leads down for the hand to be lifted off the table by backing away


@dataclasses.dataclass(frozen=True)
class Grip:
    """Dimensions of a hand, as far as the choice of a grasp needs them."""

    width: float
    """m, between fingertips and thumb when wide open."""
    depth: float = 0.09
    """m, how far the fingers reach out of the palm when they are closed around something."""
    palm: float = 0.045
    """m, half the palm's breadth, along y."""
    back: float = 0.04
    """m, what is behind the palm's surface: the hand's thickness."""
    finger: float = 0.02
    """m, thickness of a finger, outside the opening."""
    clearance: float = 0.005
    """m, to be left free: between object and opened fingers, between palm and object, between hand and table."""

    def __post_init__(self) -> None:
        values = dataclasses.astuple(self)
        if not all(math.isfinite(value) and value >= 0 for value in values) or min(self.width, self.depth) <= 0:
            raise EmbodiedError(f"{self}; expected lengths in m, width and depth above 0")


@dataclasses.dataclass(frozen=True)
class Quality:
    """Criteria of a grasp, each in [0, 1]; 0 rules it out."""

    opening: float
    """1 where the object is thin for the hand, 0 where it is as wide as the hand opens."""
    antipodality: float
    """Cosine of the larger angle between a contact's normal and the line between the contacts."""
    alignment: float
    """1 straight down or level, least half way between; 0 from below."""
    table: float
    """1 where the hand stays 2 cm from the table, 0.5 at it."""
    enclosure: float
    """Share of the object's nearer half, along the approach, that is within the fingers' reach."""
    balance: float
    """1 where the grip is at the object's middle, less towards its ends."""
    wrap: float
    """1 where the object is at least as long across the fingers as along the approach: they close around its length."""

    @property
    def score(self) -> float:
        """Their geometric mean, in [0, 1]."""
        return float(np.prod(dataclasses.astuple(self)) ** (1 / len(dataclasses.fields(self))))


@dataclasses.dataclass(frozen=True)
class Grasp:
    """A palm pose, and what it would hold."""

    pos: tuple[float, float, float]
    """m, the middle of the palm's surface."""
    quat: tuple[float, float, float, float]
    """wxyz, palm's frame -> the cloud's."""
    width: float
    """m, distance of the two contacts."""
    contacts: np.ndarray
    """(2, 3) m, where fingers and thumb meet the superquadric: towards -x and +x of the palm."""
    quality: Quality

    @property
    def score(self) -> float:
        """In [0, 1], higher is better."""
        return self.quality.score

    @property
    def approach(self) -> np.ndarray:
        """(3,) unit, the way the palm comes: its +z."""
        w, x, y, z = self.quat
        return np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])

    def back(self, distance: float) -> tuple[np.ndarray, np.ndarray]:
        """The palm's pose, (3,) m and (4,) wxyz, so many m back along the approach: pre-grasps at 0.05 and 0.10."""
        return np.array(self.pos) - distance * self.approach, np.array(self.quat)


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Grasps, best first; or the reason why there is none."""

    grasps: tuple[Grasp, ...]
    reason: str = ""
    """In words; empty where there are grasps."""


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """A way to grip: everything but how far the palm is from the object."""

    turn: np.ndarray
    """(3, 3), palm -> cloud."""
    centre: np.ndarray
    """(3,) m, the point on the approach's line in the middle of the object."""
    reach: float
    """m, from the centre to the surface against the approach."""
    height: float
    """In (-1, 1), how far towards an end of the object."""


def grasps(
    shape: Superquadric, grip: Grip, table: float | None = None, up: Sequence[float] = (0.0, 0.0, 1.0), limit: int = 32
) -> Ranking:
    """Grasps of a superquadric, from all six sides along its axes and from straight above, best first.

    Args:
        shape: The object; in the cloud's frame, like all that follows.
        grip: The hand.
        table: m, height along `up` of the table that the hand must not touch, on its way neither; None: no table.
        up: (3,) the vertical.
        limit: Most grasps returned.

    Returns:
        The ranking. Empty where the object is wider than the hand everywhere, or every grasp would touch the table.

    Raises:
        EmbodiedError: `up` is no direction, `table` not finite, or `limit` not positive.
    """
    vertical = direction("up", up)
    if limit < 1 or (table is not None and not math.isfinite(table)):
        raise EmbodiedError(f"limit={limit}, table={table}; expected at least 1, and a height in m or None")
    found, narrowest = [], math.inf
    for candidate in _candidates(shape, vertical):
        contacts = _contacts(shape, candidate, candidate.centre)
        width = float(np.linalg.norm(contacts[1] - contacts[0]))
        narrowest = min(narrowest, width)
        if width <= grip.width - 2 * grip.clearance:
            grasp = _placed(shape, candidate, grip, table, vertical)
            if grasp is not None:
                found.append(grasp)
    if found:
        return Ranking(tuple(sorted(found, key=lambda grasp: -grasp.score)[:limit]))
    free = grip.width - 2 * grip.clearance
    if narrowest > free:
        return Ranking((), f"too wide: {narrowest:.3f} m where it is narrowest, the hand takes {max(free, 0.0):.3f} m")
    return Ranking((), "out of reach: from every side the hand would touch the table, or not reach around the object")


def _candidates(shape: Superquadric, up: np.ndarray) -> Iterator[_Candidate]:
    """Approaches along both directions of each axis and straight down, with the palm turned several ways about them."""
    middle = np.array(shape.pos)
    for approach, first, is_round in _approaches(shape, up):
        across = np.cross(approach, first)
        rolls = [*ROLLS, *(roll + math.pi for roll in ROLLS)] if is_round else [k * math.pi / 2 for k in range(4)]
        for roll in rolls:
            grip_line = math.cos(roll) * first + math.sin(roll) * across
            turn = np.stack([grip_line, np.cross(approach, grip_line), approach], -1)
            along = turn[:, 1]
            half = _ray(shape, middle, along)
            for height in HEIGHTS:
                centre = middle + height * half * along
                # How far the surface is above that point, along the approach.
                yield _Candidate(turn, centre, _ray(shape, centre, -approach), height)


def _approaches(shape: Superquadric, up: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
    """Directions to come from: approach (3,), a line (3,) across it to grip along, and whether the section is round."""
    frame, (e1, e2) = shape.rotation, shape.exponents
    for axis, sign in itertools.product(range(3), (1.0, -1.0)):
        # The section across z is round where e2 is, that along z where e1 is.
        yield sign * frame[:, axis], frame[:, (axis + 1) % 3], (e2 if axis == 2 else e1) >= ROUND
    if np.abs(up @ frame).max() < UPRIGHT:  # A round thing that lies may have its axes anywhere about its own.
        level = frame[:, int(np.argmin(np.abs(up @ frame)))]
        level = level - up * (up @ level)
        yield -up, level / np.linalg.norm(level), True


def _placed(
    shape: Superquadric, candidate: _Candidate, grip: Grip, table: float | None, up: np.ndarray
) -> Grasp | None:
    """The grasp with the palm as close as object and table allow; None where that is too far, or not possible."""
    approach, half = candidate.turn[:, 2], grip.width / 2 + grip.finger
    distance = candidate.reach + grip.clearance
    # Corners of the box around palm and fingers, from the palm's middle.
    corners = np.array(list(itertools.product((-half, half), (-grip.palm, grip.palm), (-grip.back, grip.depth))))
    lowest = float((corners @ candidate.turn.T @ up).min())
    margin = 1.0
    if table is not None:
        gap = float((candidate.centre - distance * approach) @ up) + lowest - table
        missing, descent = grip.clearance - gap, float(-approach @ up)
        if missing > 0:
            if descent < STEEP:
                return None
            distance += missing / descent
            gap = grip.clearance
        margin = min(1.0, 0.5 + 0.5 * gap / 0.02)
    # Fingers close around the middle, or as deep as they reach.
    short = max(0.0, distance - grip.depth)
    if short >= candidate.reach:
        return None
    contacts = _contacts(shape, candidate, candidate.centre - short * approach)
    line = contacts[1] - contacts[0]
    width = float(np.linalg.norm(line))
    facing = shape.normals(contacts) @ line / width * np.array([-1.0, 1.0])
    quality = Quality(
        opening=max(0.0, 1 - (width / grip.width) ** 4),
        antipodality=float(np.clip(facing.min(), 0, 1)),
        alignment=_alignment(float(-approach @ up)),
        table=margin,
        enclosure=1 - short / candidate.reach,
        balance=1 - abs(candidate.height) / 2,
        wrap=min(1.0, _ray(shape, np.array(shape.pos), candidate.turn[:, 1]) / candidate.reach),
    )
    if quality.score <= 0:
        return None
    pos = vector(candidate.centre - distance * approach)
    return Grasp(pos, quaternion(candidate.turn), width, contacts, quality)


def _alignment(descent: float) -> float:
    """1 for an approach straight down or level, less between, 0 from below; `descent`: cosine to straight down."""
    if descent < -0.5:
        return 0.0
    return max(descent, math.sqrt(1 - min(descent**2, 1.0))) if descent >= 0 else 1 + 2 * descent


def _contacts(shape: Superquadric, candidate: _Candidate, middle: np.ndarray) -> np.ndarray:
    """(2, 3) m, where the line along the palm's x through a point inside leaves the superquadric: -x, +x."""
    line = candidate.turn[:, 0]
    return np.array([middle + sign * _ray(shape, middle, sign * line) * line for sign in (-1.0, 1.0)])


def _ray(shape: Superquadric, start: np.ndarray, along: np.ndarray) -> float:
    """m, from a point inside to the surface along a unit direction: bisection, since the gauge is convex."""
    turn, axes = shape.rotation, shape.axes
    scaled = [float(value) / axis for value, axis in zip((start - np.array(shape.pos)) @ turn, axes, strict=True)]
    slope = [float(value) / axis for value, axis in zip(along @ turn, axes, strict=True)]
    e1, e2 = shape.exponents
    low, high = 0.0, 2 * math.sqrt(3) * max(axes)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        x, y, z = (abs(value + middle * change) for value, change in zip(scaled, slope, strict=True))
        if _norm(_norm(x, y, 2 / e2), z, 2 / e1) <= 1:
            low = middle
        else:
            high = middle
    return low


def _norm(a: float, b: float, power: float) -> float:
    """The p-norm of two numbers that are not negative; one point at a time, numpy would be ten times slower."""
    largest = max(a, b)
    return largest * ((a / largest) ** power + (b / largest) ** power) ** (1 / power) if largest > 0 else 0.0
