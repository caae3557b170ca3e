"""The Franka Panda: seven joints with torque sensors behind their gears, the hand's fingers still.

Every joint has its own friction, damping and rotor inertia, every moving link its mass, the whole robot one delay of
commands. The hand's mass stands for all that is mounted on link 7, which moves with it. The robot compensates gravity
by itself; its masses show in the torque sensors.

    command        drives the model: joint targets, rad, for the joint impedance in the model
    joint_pos      compared
    joint_vel      compared, where the log has it
    joint_torque   compared, where the log has it: libfranka's `tau_J`, gravity included
"""

from __future__ import annotations

import mujoco

from embodied.errors import listing
from embodied.storage.paths import asset
from sim2real.identification.parameters import COMMANDS, CalibrationError, Kind, Parameter, read
from sim2real.identification.simulate import Output
from sim2real.logs.log import Log
from sim2real.twins.joints import JointTwin, Torque, prepared

MODEL = "robots/panda/panda.xml"
JOINTS = tuple(f"joint{i}" for i in range(1, 8))
MASSES = (*(f"link{i}" for i in range(1, 7)), "hand")
TIMESTEP = 0.002  # s
# Standard deviations as first assumed; what the log shows replaces them.
ENCODER = 2e-4  # rad
SPEED = 5e-3  # rad/s
TORQUE = 0.1  # N m, about the data sheet's resolution and a little ripple


def twin(log: Log) -> JointTwin:
    """The twin of the arm.

    Raises:
        CalibrationError: the log lacks a joint.
    """
    names = set(log["joint_pos"].names) & set(log["command"].names)
    if missing := [joint for joint in JOINTS if joint not in names]:
        raise CalibrationError(f"the log lacks {listing(missing)} of a panda; it has joints {listing(sorted(names))}")
    spec = mujoco.MjSpec.from_file(str(asset(MODEL)))
    prepared(spec, JOINTS, TIMESTEP, Torque.LINK, gravity_compensated=True)
    accuracies = {"joint_pos": ENCODER, "joint_vel": SPEED, "joint_torque": TORQUE}
    outputs = tuple(Output(name, JOINTS, value) for name, value in accuracies.items() if name in log)
    return JointTwin("panda", spec, JOINTS, parameters(spec.compile()), outputs, TIMESTEP, Torque.LINK)


def parameters(model: mujoco.MjModel) -> tuple[Parameter, ...]:
    """Parameters of each joint, of each link, then the delay."""
    result = []
    for joint in JOINTS:
        damping, armature = (read(model, kind, joint) for kind in (Kind.DAMPING, Kind.ARMATURE))
        result += [
            Parameter(Kind.FRICTION, joint, 0.0, 0.0, 3.0, 0.5, "N m"),
            Parameter(Kind.DAMPING, joint, damping, 0.0, 4 * damping + 2, damping, "N m s/rad"),
            Parameter(Kind.ARMATURE, joint, armature, armature / 10, 3 * armature, armature / 2, "kg m^2"),
            Parameter(Kind.STRENGTH, joint, 1.0, 0.5, 1.5, 0.15, free=False),
        ]
    for link in MASSES:
        mass = read(model, Kind.MASS, link)
        result.append(Parameter(Kind.MASS, link, mass, mass / 3, 3 * mass, mass / 3, "kg"))
    return (*result, *COMMANDS)
