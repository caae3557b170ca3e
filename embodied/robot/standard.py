"""The model of a robot alone, with a position servo on every joint: as the tasks of its kind have it, if any do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import mujoco
import numpy as np

from embodied.robot.files import read_model
from embodied.robot.prepared.arm import arm_model
from embodied.robot.prepared.legged import legged_model
from embodied.robot.robot import Kind, Robot


def standard_model(robot: Robot) -> mujoco.MjSpec:
    """The robot without surroundings, servos under their joints' names, and the key `home`.

    Raises:
        ModelError: the robot's tasks do not take it, or MuJoCo refuses it.
    """
    return PREPARED.get(robot.kind, _with_servos)(robot)


def _legged(robot: Robot) -> mujoco.MjSpec:
    """As the walking tasks have it, whose servos may be softer than the file's."""
    return legged_model(robot).spec()


def _arm(robot: Robot) -> mujoco.MjSpec:
    """As the tasks of arms have it, whose motors hold the weight."""
    return mujoco.MjSpec.from_string(arm_model(robot).xml)


def _with_servos(robot: Robot) -> mujoco.MjSpec:
    """The file's model with the servos that were understood in place of its actuators."""
    spec = read_model(robot.file, robot.collision).spec
    world = spec.worldbody
    for element in [*world.geoms, *spec.actuators, *spec.sensors, *spec.keys]:
        spec.delete(element)
    if not Path(spec.meshdir or "").is_absolute():
        spec.meshdir = str((robot.file.parent / (spec.meshdir or "")).resolve())
    for joint in robot.joints:
        part = spec.joint(joint.name)
        part.armature, part.damping[:] = joint.servo.armature, 0.0
        part.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
        servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=joint.servo.kp, kv=joint.servo.kv)
        servo.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        servo.forcerange[:] = -joint.servo.effort, joint.servo.effort
    model = spec.compile()
    qpos = model.qpos0.copy()
    for joint in robot.joints:
        qpos[model.joint(joint.name).qposadr[0]] = joint.home
    key = spec.add_key(name="home")
    key.qpos, key.ctrl = qpos, np.array([joint.home for joint in robot.joints])
    return spec


PREPARED: Mapping[Kind, Callable[[Robot], mujoco.MjSpec]] = {Kind.LEGGED: _legged, Kind.ARM: _arm}
"""Kind of robot -> its model as the tasks of that kind have it; for other kinds the file's own with servos."""
