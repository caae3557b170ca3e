"""Addresses, symmetry and settings by joint role of a legged robot, derived from its description and compiled model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np

from embodied.math.symmetry import PSEUDOVECTOR, VECTOR, Reflection, partners
from embodied.robot.prepared.legged import GRAVITY, LeggedModel
from embodied.robot.prepared.roles import Role

UNLIKE = 0.05  # of the height, and of the cosine between axes: what two sides of one robot may differ by


@dataclasses.dataclass(frozen=True)
class Size:
    """Size of a robot for which settings were chosen."""

    height: float
    """m of the trunk above the ground in the home pose."""
    effort: float
    """N m, weight times height."""


GO1 = Size(0.278, 12.74 * GRAVITY * 0.278)
G1 = Size(0.7842, 33.34 * GRAVITY * 0.7842)

QUADRUPED_POSE = {role: 0.1 if role in (Role.KNEE, Role.ANKLE_PITCH) else 1.0 for role in Role}
"""Weight of a joint's squared distance from the home pose, 1/rad^2: knees must bend."""
BIPED_POSE = {
    Role.HIP: 0.01,
    Role.KNEE: 0.01,
    Role.ANKLE_PITCH: 0.1,
    Role.ANKLE: 0.5,
    Role.LEG: 1.0,
    Role.TRUNK: 1.0,
    Role.TRUNK_YAW: 1.0,
    Role.ARM_PITCH: 0.2,
    Role.ARM: 0.5,
}
"""The same on two feet: legs swing freely, but neither spread nor turn; waist and arms keep still."""
BIPED_REACH = {
    Role.HIP: 1.0,
    Role.KNEE: 1.0,
    Role.ANKLE_PITCH: 1.0,
    Role.ANKLE: 0.6,
    Role.LEG: 0.6,
    Role.TRUNK: 0.1,
    Role.TRUNK_YAW: 0.2,
    Role.ARM_PITCH: 0.4,
    Role.ARM: 0.2,
}
"""Reach of an action on a joint's target, in multiples of `action_scale`: a biped's torso and arms are more than half
of its mass, and exploring with them shakes it off its feet."""
STIFF = 2.0  # times its largest torque that an action of 1 may command of a joint's servo at most


def by_role(robot: LeggedModel, numbers: Mapping[Role, float]) -> np.ndarray:
    """(n,) numbers of the robot's joints."""
    return np.array([numbers[role] for role in robot.roles])


def action_reach(robot: LeggedModel, action_scale: float) -> np.ndarray:
    """(n,) reach of an action on each joint's target, in multiples of `action_scale`."""
    reach = by_role(robot, BIPED_REACH) if robot.is_biped else np.ones(len(robot.roles))
    effort = np.array([joint.servo.effort for joint in robot.source.joints])
    return np.minimum(reach, STIFF * effort / (action_scale * np.array(robot.stiffness)))


@dataclasses.dataclass(frozen=True)
class Layout:
    """Addresses in a compiled model; joints in the order of actions."""

    root_qpos: int
    """First of the floating base's 7 entries in qpos."""
    root_qvel: int
    """First of its 6 entries in qvel."""
    qpos: np.ndarray
    """(n,) addresses in qpos."""
    qvel: np.ndarray
    """(n,) addresses in qvel."""
    actuators: np.ndarray
    """(n,) actuator ids."""
    home: np.ndarray
    """(n,) rad, the home pose."""
    stance: np.ndarray
    """(n,) rad, servo targets that hold the home pose against gravity."""
    limits: np.ndarray
    """(n, 2) rad."""
    trunk: int
    """Body id."""

    @classmethod
    def of(cls, robot: LeggedModel, model: mujoco.MjModel) -> Layout:
        """Addresses of a robot's parts in a compiled model."""
        joints = [model.joint(name) for name in robot.joint_names]
        actuators = [model.actuator(name).id for name in robot.joint_names]
        root = model.body(robot.trunk).jntadr[0]
        home = model.key("home")
        return cls(
            root_qpos=int(model.jnt_qposadr[root]),
            root_qvel=int(model.jnt_dofadr[root]),
            qpos=np.array([joint.qposadr[0] for joint in joints]),
            qvel=np.array([joint.dofadr[0] for joint in joints]),
            actuators=np.array(actuators),
            home=np.array([home.qpos[joint.qposadr[0]] for joint in joints], np.float32),
            stance=np.array([home.ctrl[actuator] for actuator in actuators], np.float32),
            limits=np.array([joint.range for joint in joints], np.float32),
            trunk=model.body(robot.trunk).id,
        )


def reflections(robot: LeggedModel, model: mujoco.MjModel) -> tuple[Reflection, Reflection]:
    """Left-right reflections of joints (n) and feet (k), from where they and their axes lie in the home pose.

    A mirrored joint turns about its mirrored axis, which is a pseudovector, and counts the other way where its
    partner's axis points the other way.

    Raises:
        EmbodiedError: a joint or a foot has no mirror image; names it.
    """

    def apart(places: np.ndarray) -> np.ndarray:
        """(n, n) distance of each mirrored place (n, 3) from each, as a fraction of the height."""
        return np.linalg.norm(VECTOR(places)[:, None] - places, axis=-1) / robot.height

    data = mujoco.MjData(model)
    root = model.jnt_qposadr[model.body(robot.trunk).jntadr[0]]
    data.qpos = model.key("home").qpos
    data.qpos[root : root + 7] = [0, 0, robot.height, 1, 0, 0, 0]
    mujoco.mj_forward(model, data)
    joints = [model.joint(name).id for name in robot.joint_names]
    along = PSEUDOVECTOR(data.xaxis[joints]) @ data.xaxis[joints].T
    index = partners(apart(data.xanchor[joints]) + 1 - np.abs(along), robot.joint_names, UNLIKE)
    sign = tuple(1 if along[i, j] > 0 else -1 for i, j in enumerate(index))
    places = np.array([data.sensor(f"{foot}_pos").data for foot in robot.feet])
    feet = partners(apart(places), robot.feet, UNLIKE)
    return Reflection(index, sign), Reflection(feet, (1,) * len(feet))
