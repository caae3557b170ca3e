"""Top speeds of motors, which MuJoCo's models have no field for: from makers' data and from URDFs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from embodied.robot.files import content
from tasks.manipulation.common.panda import ARM_JOINTS, SPEED_LIMITS

LEGS: Mapping[str, Mapping[str, float]] = {
    "go1": {"hip": 30.1, "thigh": 30.1, "calf": 20.06},  # rad/s, go1_description (unitreerobotics/unitree_ros)
    "go2": {"hip": 30.1, "thigh": 30.1, "calf": 15.7},  # rad/s, go2_description
}
"""Robot -> last part of a joint's name -> its motor's top speed."""
ARMS: Mapping[str, Mapping[str, float]] = {"panda": dict(zip(ARM_JOINTS, SPEED_LIMITS.tolist(), strict=True))}
"""Robot -> joint -> rad/s."""


def top_speeds(robot: str, joints: Sequence[str], file: Path | None = None) -> dict[str, float]:
    """Joint -> rad/s (m/s of a slide); inf where it is not stated.

    Args:
        robot: Name of a robot under assets/.
        joints: Names.
        file: The model of a user's robot, which was understood; then the name is not used.
    """
    if file is not None:
        stated = of_urdf(file)
        return {joint: stated.get(joint, math.inf) for joint in joints}
    arm, legs = ARMS.get(robot, {}), LEGS.get(robot, {})
    return {joint: arm.get(joint, legs.get(joint.rpartition("_")[2], math.inf)) for joint in joints}


def of_urdf(file: Path) -> dict[str, float]:
    """Joint -> `velocity` of its limit, where it is a positive number; empty for an MJCF file.

    Raises:
        ModelError: the file cannot be read.
    """
    speeds = {}
    for joint in ElementTree.fromstring(content(file)).findall("joint"):
        limit = joint.find("limit")
        speed = _number("" if limit is None else limit.get("velocity", ""))
        if speed > 0:
            speeds[joint.get("name", "")] = speed
    return speeds


def _number(text: str) -> float:
    """A number, or 0 if the text is none."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
