"""The model of a robot alone, with a position servo on every joint: as the tasks of its kind have it, if any do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mujoco
import numpy as np

from embodied.robot.derivation.pose import qpos_of
from embodied.robot.prepared.arm import arm_model
from embodied.robot.prepared.legged import bare_spec, drive, legged_model
from embodied.robot.robot import Kind, Robot

GRASPING = 6
"""Joints that lead a hand to a point and keep it pointing down."""


def standard_model(robot: Robot) -> mujoco.MjSpec:
    """The robot without surroundings: servos under their joints' names, sensors that tasks read, the key `home`.

    Raises:
        ModelError: the robot's tasks do not take it, or MuJoCo refuses it.
    """
    return PREPARED.get(robot.kind, _with_servos)(robot)


def forms_of(robot: Robot) -> tuple[str, ...]:
    """Forms of a robot, of which each task names those that it takes from a file (`TaskEntry.robots`).

    quadruped (three feet or more), biped, arm, gripper (an arm of six joints or more with two fingers), hand,
    multirotor.

    Raises:
        ModelError: tasks of its kind do not take it.
    """
    if robot.kind is Kind.LEGGED:
        legged_model(robot)
        return ("biped",) if len(robot.feet) == 2 else ("quadruped",)
    if robot.kind is Kind.ARM and len((arm := arm_model(robot)).joints) >= GRASPING and arm.gripper is not None:
        return (robot.kind.value, "gripper")
    return (robot.kind.value,)


def _with_servos(robot: Robot) -> mujoco.MjSpec:
    """The file's model with the servos that were understood in place of its actuators."""
    spec = bare_spec(robot)
    drive(spec, robot)
    key = spec.add_key(name="home")
    key.qpos, key.ctrl = qpos_of(spec.compile(), robot.home_angles), np.array([joint.home for joint in robot.joints])
    return spec


PREPARED: Mapping[Kind, Callable[[Robot], mujoco.MjSpec]] = {
    Kind.LEGGED: lambda robot: legged_model(robot).spec(),  # servos may be softer than the file's
    Kind.ARM: lambda robot: mujoco.MjSpec.from_string(arm_model(robot).xml),  # whose motors hold the weight
}
"""Kind of robot -> its model as the tasks of that kind have it; for other kinds that of the file, with servos."""
