"""What each joint of a legged robot is for: which way its axis points in the home pose, and what hangs on it."""

from __future__ import annotations

from enum import StrEnum

import mujoco
import numpy as np

from embodied.robot.robot import Robot

ALONG = 0.7  # cosine of the angle to an axis within which a joint counts as turning about it
ANKLE = 0.2  # of the base's height: leg joints lower than this are ankles


class Role(StrEnum):
    """What a joint is for."""

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
    """What carries several limbs, such as a waist."""
    ARM_PITCH = "arm pitch"
    ARM = "arm"


def roles(robot: Robot) -> tuple[Role, ...]:
    """The role of each of `robot.joints`."""
    model, data = robot.model, mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(model, data)
    sole = min((float(point[2]) for point in robot.foot_points), default=0.0)
    feet = [int(model.body(foot).id) for foot in robot.feet]
    hips: set[int] = set()
    found = []
    for joint in robot.joints:
        number = int(model.joint(joint.name).id)
        body = int(model.jnt_bodyid[number])
        pitches = abs(float(data.xaxis[number, 1])) > ALONG
        carried = [foot for foot in feet if _hangs_on(model, foot, body)]
        if len(carried) == 1:
            low = float(data.xanchor[number, 2]) - sole < ANKLE * robot.height
            first = pitches and not low and carried[0] not in hips
            if first:
                hips.add(carried[0])
            found.append(_of_leg(pitches, low and carried[0] in hips, first))
        elif carried or _branches(model, body):
            found.append(Role.TRUNK)
        else:
            found.append(Role.ARM_PITCH if pitches else Role.ARM)
    return tuple(found)


def _of_leg(pitches: bool, low: bool, first: bool) -> Role:
    if low:
        return Role.ANKLE_PITCH if pitches else Role.ANKLE
    if not pitches:
        return Role.LEG
    return Role.HIP if first else Role.KNEE


def _hangs_on(model: mujoco.MjModel, body: int, ancestor: int) -> bool:
    while body > ancestor:
        body = int(model.body_parentid[body])
    return body == ancestor


def _branches(model: mujoco.MjModel, body: int) -> bool:
    """Whether what hangs on a body parts into several limbs of two joints or more."""
    while True:
        below = [other for other in range(body + 1, model.nbody) if int(model.body_parentid[other]) == body]
        moving = [other for other in below if _joints_below(model, other) >= 2]
        if len(moving) != 1:
            return len(moving) > 1
        body = moving[0]


def _joints_below(model: mujoco.MjModel, body: int) -> int:
    return sum(_hangs_on(model, int(carrier), body) for carrier in np.asarray(model.jnt_bodyid))
