"""Roles of a legged robot's joints, by the direction of each axis in the home pose and by what hangs on it."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from embodied.robot.robot import Robot
from embodied.robot.tree import is_below, posed

ALONG = 0.7  # cosine of the angle to an axis within which a joint counts as turning about it
ANKLE = 0.2  # of the base's height: leg joints lower than this are ankles
TRUNK = 0.2  # of the robot's mass: what carries as much, and is no leg's, is a waist (G1's 0.45, Talos' arms 0.13)
HAND = 0.03  # of the robot's mass: joints that carry less are a wrist's (G1's 0.02, its elbow 0.04)


class Role(StrEnum):
    """Role of a joint."""

    HIP = "hip"
    """The first joint of a leg that swings it forward and back."""
    KNEE = "knee"
    """Any that does so below it."""
    ANKLE_PITCH = "ankle pitch"
    ANKLE = "ankle"
    """Any other joint just above the foot."""
    LEG = "leg"
    """Any other joint of a leg: it spreads it, or turns it."""
    TRUNK = "trunk"
    """A joint that carries a large part of the robot, such as a waist."""
    TRUNK_YAW = "trunk yaw"
    """The same where it turns it about the vertical, which moves no weight sideways."""
    ARM_PITCH = "arm pitch"
    """A shoulder or an elbow that swings the arm forward and back."""
    ARM = "arm"
    """Any other joint of an arm or a head."""


def roles(robot: Robot) -> tuple[Role, ...]:
    """The role of each of `robot.joints`."""
    model, data = robot.model, posed(robot.model, robot.home)
    sole = min((float(point[2]) for point in robot.foot_points), default=0.0)
    feet = [int(model.body(foot).id) for foot in robot.feet]
    hips: set[int] = set()
    found = []
    for joint in robot.joints:
        number = int(model.joint(joint.name).id)
        body = int(model.jnt_bodyid[number])
        pitches = abs(float(data.xaxis[number, 1])) > ALONG
        carried = [foot for foot in feet if is_below(model, foot, body)]
        if len(carried) == 1:
            low = float(data.xanchor[number, 2]) - sole < ANKLE * robot.height
            first = pitches and not low and carried[0] not in hips
            if first:
                hips.add(carried[0])
            found.append(_of_leg(pitches, low and carried[0] in hips, first))
        else:
            share = float(model.body_subtreemass[body]) / robot.mass
            found.append(_above(data.xaxis[number], share, bool(carried)))
    return tuple(found)


def _of_leg(pitches: bool, low: bool, first: bool) -> Role:
    if low:
        return Role.ANKLE_PITCH if pitches else Role.ANKLE
    if not pitches:
        return Role.LEG
    return Role.HIP if first else Role.KNEE


def _above(axis: np.ndarray, share: float, carries_legs: bool) -> Role:
    """Role of a joint that is no leg's: by its axis (3,) in the world frame and its share of the robot's mass."""
    if carries_legs or share > TRUNK:
        return Role.TRUNK_YAW if abs(float(axis[2])) > ALONG else Role.TRUNK
    return Role.ARM_PITCH if abs(float(axis[1])) > ALONG and share > HAND else Role.ARM
