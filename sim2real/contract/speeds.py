"""Top speeds of motors, which MuJoCo's models have no field for: of makers' data, of `robot.toml`, of URDFs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from embodied.robot import Robot, named_robots

LEGS: Mapping[str, Mapping[str, float]] = {
    "go1": {"hip": 30.1, "thigh": 30.1, "calf": 20.06},  # rad/s, go1_description (unitreerobotics/unitree_ros)
    "go2": {"hip": 30.1, "thigh": 30.1, "calf": 15.7},  # rad/s, go2_description
}
"""Robot -> last part of a joint's name -> its motor's top speed."""


def top_speeds(robot: str, joints: Sequence[str], file: Path | None = None) -> dict[str, float]:
    """Joint -> rad/s (m/s of a slide); inf where it is not stated.

    Args:
        robot: Name of a robot under assets/.
        joints: Names.
        file: The model of a user's robot; then the name is not used.

    Raises:
        ModelError: the file cannot be read or is not understood.
    """
    if file is None and robot in LEGS:
        return {joint: LEGS[robot].get(joint.rpartition("_")[2], math.inf) for joint in joints}
    path = file or named_robots().get(robot)
    stated = {} if path is None else {joint.name: joint.speed for joint in Robot.load(path).joints}
    return {joint: stated.get(joint, math.inf) for joint in joints}
