"""Abilities of each robot, from its own kinematics and camera: take, put, meet, look into.

World: x to the right, y away from the camera, z up, the table's top at z = 0; m and rad.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

import numpy as np

from embodied.core.scenes import compile_spec, load_spec
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.manipulation.common.panda import FINGER_LIMITS, FINGERTIP, FLANGE, JOINT_LIMITS, LINKS
from tasks.questions.cooperation.places import Opening, Place

SHOULDER = float(LINKS[0, 3])  # m, height of joint 2 over the foot; `panda.LINKS`
UPPER, ELBOW = float(LINKS[2, 3]), float(LINKS[3, 2])  # m, along the upper arm and aside to joint 4; `panda.LINKS`
FOREARM = float(LINKS[4, 3])  # m, along the forearm, from as far aside; `panda.LINKS`
WRIST = float(LINKS[6, 2])  # m, level, from joint 6 to the hand's axis; `panda.LINKS`
HAND = FLANGE + FINGERTIP  # m, from joint 7's frame down to the tcp
RADIAL = -math.pi / 4  # rad, joint 7 with which the fingers open across the plane; `panda.HOME`


def joints_at(point: Sequence[float] | np.ndarray) -> np.ndarray | None:
    """Joints that put the tcp at a point, the hand straight down, the elbow up.

    Args:
        point: (3,) m, in the frame of the arm's foot: x forward, z up.

    Returns:
        (7,) rad within `JOINT_LIMITS`; None where there are none.

    Source: Craig, "Introduction to Robotics", section 4.4 (two links by the law of cosines).
    """
    x, y, z = (float(value) for value in point)
    out, up = math.hypot(x, y) - WRIST, z + HAND - SHOULDER
    first, second = math.hypot(UPPER, ELBOW), math.hypot(FOREARM, ELBOW)
    distance = math.hypot(out, up)
    if out <= 0 or not abs(first - second) < distance < first + second:
        return None
    towards = math.atan2(out, up)
    # Angles of the two links from the vertical, and of the housings that carry them.
    upper = towards - math.acos((distance**2 + first**2 - second**2) / (2 * distance * first))
    lower = towards + math.acos((distance**2 + second**2 - first**2) / (2 * distance * second))
    lift, level = upper - math.atan2(ELBOW, UPPER), lower + math.atan2(ELBOW, FOREARM)
    joints = np.array([math.atan2(y, x), lift, 0.0, lift - level, 0.0, level, RADIAL])
    return joints if (joints >= JOINT_LIMITS[:, 0]).all() and (joints <= JOINT_LIMITS[:, 1]).all() else None


def ring(height: float, step: float = 0.001) -> tuple[float, float]:
    """m, the least and the greatest distance from the foot's axis that is reached at a height of the tcp over the foot.

    Searched in steps; (inf, -inf) where nothing is reached.
    """
    reached = [r for r in np.arange(0.0, 1.0, step) if joints_at((r, 0.0, height)) is not None]
    return (float(min(reached)), float(max(reached))) if reached else (math.inf, -math.inf)


OPENING = 2 * FINGER_LIMITS[1] - 0.004  # m, widest side that is taken: the gripper's 8 cm and 2 mm on each side
SUNK = 0.03  # m below an object's top to which the fingertips go at most, our choice
HOVER = 0.10  # m above a grasp from which the hand comes down, our choice
RELEASE = 0.06  # m above a rim at which the fingers open, our choice
LOOK = 0.20  # m above a rim from which the wrist camera looks in, our choice
MEETING = (0.0, 0.0, 0.30)  # m, where two hands meet: above the middle of the table, our choice
CRAZYFLIE = "robots/crazyflie/crazyflie.xml"


@dataclasses.dataclass(frozen=True)
class Robot:
    """Robot in the benchmark; by itself it can do nothing."""

    name: str
    """Unique, in plans and answers."""
    pos: tuple[float, float, float]
    """m, where it stands, or begins to fly."""
    words: ClassVar[str]
    """Description in questions."""

    def takes(self, placed: PlacedObject) -> bool:
        """Whether it can grasp an object that stands there."""
        del placed
        return False

    def holds(self, item: ObjectSpec) -> bool:
        """Whether its gripper is wide enough for an object."""
        del item
        return False

    def serves(self, place: Place) -> bool:
        """Whether it can put something there."""
        del place
        return False

    def meets(self) -> bool:
        """Whether its hand gets to `MEETING`."""
        return False

    def inspects(self, place: Place) -> bool:
        """Whether its camera can see the middle of a place's floor."""
        del place
        return False


@dataclasses.dataclass(frozen=True)
class Arm(Robot):
    """A Panda on the table, its hand always straight down."""

    yaw: float
    """rad, the direction that it faces, from +x towards +y."""
    words = "a Franka Panda arm with a two-finger gripper and a camera at its wrist"

    def joints(self, point: Sequence[float] | np.ndarray) -> np.ndarray | None:
        """Joints (7,) rad that put the tcp at a point (3,) m of the world; None out of reach."""
        x, y, z = np.subtract(point, self.pos)
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        return joints_at((cos * x + sin * y, cos * y - sin * x, z))

    def reaches(self, *points: Sequence[float]) -> bool:
        """Whether the tcp gets to each point (3,) m."""
        return all(self.joints(point) is not None for point in points)

    def takes(self, placed: PlacedObject) -> bool:
        """Narrow enough for the fingers, and within reach at the grasp and above it."""
        x, y, z = placed.pos
        height = float(placed.item.extents[2])
        grasp = z + height / 2 - min(SUNK, height / 2)
        return self.holds(placed.item) and self.reaches((x, y, grasp), (x, y, grasp + HOVER))

    def holds(self, item: ObjectSpec) -> bool:
        """By its narrower side, seen from above."""
        return bool(item.extents[:2].min() <= OPENING)

    def serves(self, place: Place) -> bool:
        """Only from above."""
        return place.kind.opening is Opening.ABOVE and self.reaches((*place.placed.pos[:2], place.top + RELEASE))

    def meets(self) -> bool:
        return self.reaches(MEETING)

    def inspects(self, place: Place) -> bool:
        """With the wrist camera, which looks straight down: only from above."""
        return place.kind.opening is Opening.ABOVE and self.reaches((*place.placed.pos[:2], place.top + LOOK))


@dataclasses.dataclass(frozen=True)
class Drone(Robot):
    """A Crazyflie with a camera that looks ahead. It carries nothing, and flies anywhere above the table."""

    words = "a Crazyflie drone with a camera that looks straight ahead; it has no gripper and can fly anywhere"

    def inspects(self, place: Place) -> bool:
        """Whether its camera, level in hover, sees the floor over the rim in the lower half of its picture."""
        return place.kind.steepness < half_view()


class Team(Enum):
    """Robots of a scene."""

    ARMS = "two arms"
    LEFT_AND_DRONE = "left arm and drone"
    RIGHT_AND_DRONE = "right arm and drone"
    ALL = "two arms and a drone"


@functools.cache
def half_view() -> float:
    """rad, half the height of the view of the Crazyflie's camera `front`, from its MJCF."""
    return math.radians(float(compile_spec(load_spec(CRAZYFLIE)).camera("front").fovy[0])) / 2


def team(kind: Team, distance: float) -> tuple[Robot, ...]:
    """The robots of a team; `distance`: m, of an arm's foot from the table's middle."""
    left, right = Arm("left arm", (-distance, 0.0, 0.0), 0.0), Arm("right arm", (distance, 0.0, 0.0), math.pi)
    drone = Drone("drone", (0.0, -0.47, 0.0145))
    members: dict[Team, tuple[Robot, ...]] = {
        Team.ARMS: (left, right),
        Team.LEFT_AND_DRONE: (left, drone),
        Team.RIGHT_AND_DRONE: (right, drone),
        Team.ALL: (left, right, drone),
    }
    return members[kind]
