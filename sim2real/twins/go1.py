"""The Unitree Go1 hung up by its trunk: as many legs as the log has, each three joints on a fixed base.

PACE's set-up (arXiv 2509.06342): legs in the air, soft servos, chirps on all joints. Every joint has its own friction,
damping, rotor inertia and encoder bias, every link its mass, every foot a payload, the whole robot one delay and one
loss of commands, and one time in which dry friction stops a joint.

    command       drives the model: joint targets, rad, for servos of the gains in the model
    joint_pos     compared
    joint_vel     compared, where the log has it
"""

from __future__ import annotations

import mujoco

from embodied.errors import listing
from embodied.storage.paths import asset
from sim2real.identification.parameters import COMMANDS, CalibrationError, Kind, Parameter, read
from sim2real.identification.simulate import Output
from sim2real.logs.log import Log
from sim2real.twins.joints import JointTwin, Torque, friction_time, prepared

MODEL = "robots/go1/go1.xml"
LEGS = ("FR", "FL", "RR", "RL")
LINKS = ("hip", "thigh", "calf")
TIMESTEP = 0.002  # s: half a training's step or less, so that the servo's stiff damping is well resolved
ENCODER = 1e-3  # rad, about a 14-bit encoder with its gear's play
SPEED = 0.05  # rad/s, what differences of such an encoder over some milliseconds come to


def spec_of(legs: tuple[str, ...]) -> mujoco.MjSpec:
    """The legs named, on a trunk that cannot move."""
    spec = mujoco.MjSpec.from_file(str(asset(MODEL)))
    spec.delete(spec.joint("root"))
    joints = tuple(f"{leg}_{link}" for leg in legs for link in LINKS)
    prepared(spec, joints, TIMESTEP, Torque.MOTOR)
    for leg in set(LEGS) - set(legs):
        spec.delete(spec.body(f"{leg}_hip"))
    return spec


def twin(log: Log) -> JointTwin:
    """The twin of the legs in the log; a `CalibrationError` where it has no whole leg."""
    names = set(log["joint_pos"].names) & set(log["command"].names)
    legs = tuple(leg for leg in LEGS if all(f"{leg}_{link}" in names for link in LINKS))
    if not legs:
        whole = listing(f"{LEGS[0]}_{link}" for link in LINKS)
        raise CalibrationError(f"the log has no whole leg of a go1, such as {whole}; it has joints {listing(names)}")
    spec = spec_of(legs)
    model = spec.compile()
    joints = tuple(f"{leg}_{link}" for leg in legs for link in LINKS)
    outputs = [Output("joint_pos", joints, ENCODER)]
    if "joint_vel" in log:
        outputs.append(Output("joint_vel", joints, SPEED))
    return JointTwin("go1", spec, joints, parameters(model, joints), tuple(outputs), TIMESTEP)


def parameters(model: mujoco.MjModel, joints: tuple[str, ...]) -> tuple[Parameter, ...]:
    """Parameters of each joint and its link, of each foot, then of the whole robot.

    A hip turns about an axis that all but passes through its own centre of mass: its mass shows in nothing that
    encoders see, and stays about its prior. Motor strength is assumed, since no motion separates it from all masses
    together. The servo's gains are settings of the robot's controller.
    """
    result = []
    for joint in joints:
        friction, armature, mass = (read(model, k, joint) for k in (Kind.FRICTION, Kind.ARMATURE, Kind.MASS))
        result += [
            Parameter(Kind.FRICTION, joint, friction, 0.0, 4 * friction, friction, "N m"),
            Parameter(Kind.DAMPING, joint, read(model, Kind.DAMPING, joint), 0.0, 0.5, 0.1, "N m s/rad"),
            Parameter(Kind.ARMATURE, joint, armature, armature / 10, 4 * armature, armature, "kg m^2"),
            Parameter(Kind.MASS, joint, mass, mass / 2, 2 * mass, mass / 4, "kg"),
            Parameter(Kind.ENCODER_BIAS, joint, 0.0, -0.2, 0.2, 0.05, "rad"),
            Parameter(Kind.STRENGTH, joint, 1.0, 0.5, 1.5, 0.15, free=False),
        ]
    feet = [f"{leg}_foot" for leg in LEGS if f"{leg}_{LINKS[-1]}" in joints]
    result += [Parameter(Kind.PAYLOAD, foot, 0.0, 0.0, 0.5, 0.05, "kg") for foot in feet]
    return (*result, friction_time(model, joints), *COMMANDS)
