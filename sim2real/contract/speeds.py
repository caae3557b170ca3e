"""Top speeds of motors, which MuJoCo's models have no field for: of `robot.toml` and of URDFs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from embodied.robot import Robot, named_robots


def top_speeds(robot: str, joints: Sequence[str], file: Path | None = None) -> dict[str, float]:
    """Joint -> rad/s (m/s of a slide); inf where it is not stated.

    Args:
        robot: Name of a robot under assets/.
        joints: Names.
        file: The model of a user's robot; then the name is not used.

    Raises:
        ModelError: the file cannot be read or is not understood.
    """
    path = file or named_robots().get(robot)
    stated = {} if path is None else {joint.name: joint.speed for joint in Robot.load(path).joints}
    return {joint: stated.get(joint, math.inf) for joint in joints}
