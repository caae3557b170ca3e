"""Floating hands: a hand on a six-axis base that stands in for an arm, with the Cartesian limits of a Franka arm.

A floating base has three slides along the world's axes and three hinges about the palm's, in the palm's middle. It
bears the hand's weight (`gravcomp`), as an arm's controller does that knows its payload. Its servos follow velocities,
as Franka's Cartesian interface does: forces end at what the arm's accelerations need, and `track_reference` holds
positions.
"""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from embodied.core.scenes import compile_spec, load_spec
from tasks.grasping.hands.hand import PALM_UP, Hand

# Cartesian limits of the Panda (Franka Control Interface, "Robot and interface specifications").
SPEED = 1.7  # m/s
ACCELERATION = 13.0  # m/s^2, along each axis
TURNING = 2.5  # rad/s
TURNING_ACCELERATION = 25.0  # rad/s^2, about each axis
ARM_MASS = 5.0  # kg that an arm adds along each axis: of the Panda's 18, what moves with the flange; our choice
ARM_INERTIA = 0.1  # kg m^2 that it adds about each axis; our choice
FLANGE = 0.2  # kg, the adapter that bears the hand; our choice
LAG = 0.015  # s, time constant of the servos, three physics steps
AXES = ("x", "y", "z", "roll", "pitch", "yaw")
"""Joints and servos of a base: slides along the world's x, y, z, then hinges about the palm's x, y', z''."""
TRAVEL = (0.25, 0.25, 0.25)  # m, half the ranges of the slides
TURNS = (2.8, 1.2, 1.2)  # rad, those of the hinges: the Panda's last joint turns by 2.9
BRAKING = 0.4  # share of its acceleration with which a base brakes before an end, and of the way left per step
ACCELERATIONS = np.array([ACCELERATION] * 3 + [TURNING_ACCELERATION] * 3, np.float32)  # (6,) m/s^2 and rad/s^2
LEAD = np.array([0.05] * 3 + [0.1] * 3, np.float32)  # (6,) m and rad that a reference may be ahead of its base
CATCHING_UP = 8.0  # 1/s, speed of a base over its distance from the reference
LIMITS = np.array([SPEED] * 3 + [TURNING] * 3, np.float32)
"""(6,) m/s and rad/s, what an action of 1 along one axis stands for."""


@dataclasses.dataclass(frozen=True)
class Mount:
    """Pose of the palm of a floating hand while all axes of its base are at zero, and the ranges of the axes."""

    prefix: str
    """Prefix of the names of the base and of its hand, such as `left_`."""
    pos: tuple[float, float, float]
    """m, world frame."""
    quat: tuple[float, float, float, float] = PALM_UP
    """wxyz, world from palm."""
    travel: tuple[float, float, float] = TRAVEL
    """m, half the range along each of the world's axes."""
    turns: tuple[float, float, float] = TURNS
    """rad, half the range about each of the palm's axes."""

    @property
    def ranges(self) -> np.ndarray:
        """(6, 2) m and rad, lowest and highest along `AXES`."""
        half = np.array([*self.travel, *self.turns], np.float32)
        return np.stack([-half, half], axis=1)


@dataclasses.dataclass(frozen=True)
class FloatingBase:
    """Addresses of a floating base in a compiled model, along `AXES`."""

    qpos: np.ndarray
    """(6,) addresses in qpos."""
    qvel: np.ndarray
    """(6,) addresses in qvel."""
    actuators: np.ndarray
    """(6,) actuator ids."""
    ranges: np.ndarray
    """(6, 2) m and rad, lowest and highest."""
    body: int
    """Id of the body, whose frame is the palm's while a wrist is straight."""

    @classmethod
    def of(cls, model: mujoco.MjModel, mount: Mount) -> FloatingBase:
        """The base that `add_floating_hand` put there."""
        names = [mount.prefix + axis for axis in AXES]
        return cls(
            qpos=np.array([model.joint(name).qposadr[0] for name in names]),
            qvel=np.array([model.joint(name).dofadr[0] for name in names]),
            actuators=np.array([model.actuator(name).id for name in names]),
            ranges=mount.ranges,
            body=model.body(f"{mount.prefix}base").id,
        )


@dataclasses.dataclass(frozen=True)
class _HandOnArm:
    """Palm, mass and inertia of a hand on an arm, all joints at zero."""

    palm: np.ndarray
    """(3,) m, the palm's origin in the frame of the body that is screwed on; their axes agree."""
    mass: float
    """kg."""
    inertia: float
    """kg m^2 about the palm's origin: sum of m r^2, which no axis exceeds."""


@functools.cache
def _hand_on_arm(hand: Hand) -> _HandOnArm:
    spec = load_spec(hand.asset)
    root = spec.body(hand.on_arm)
    carried = [root.name, *(body.name for body in root.find_all("body"))]
    model = compile_spec(spec)
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    bodies = [model.body(name).id for name in carried]
    palm = data.site("palm").xpos
    arms = np.sum((data.xipos[bodies] - palm) ** 2, axis=1)
    mass = model.body_mass[bodies]
    return _HandOnArm(palm - data.body(hand.on_arm).xpos, float(mass.sum()), float(mass @ arms))


def add_floating_hand(spec: mujoco.MjSpec, hand: Hand, mount: Mount) -> None:
    """Put a hand on a floating base into a scene. Names of the hand and of `AXES` begin with the mount's prefix.

    Of Shadow's hand the forearm stays behind, as on the Panda (`hands.mounted`).
    """
    found, child, prefix = _hand_on_arm(hand), load_spec(hand.asset), mount.prefix
    for key in list(child.keys):
        child.delete(key)
    root = child.body(hand.on_arm)
    for part in (root, *root.find_all("body")):
        part.gravcomp = 1
    root.pos, root.quat = -found.palm, PALM_UP
    base = spec.worldbody.add_body(name=f"{prefix}base", pos=mount.pos, quat=mount.quat, gravcomp=1)
    base.mass, base.inertia, base.ipos = FLANGE, [1e-4] * 3, root.pos
    base.explicitinertial = True
    force = ACCELERATION * (ARM_MASS + FLANGE + found.mass)
    torque = TURNING_ACCELERATION * (ARM_INERTIA + found.inertia)
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.array(mount.quat))
    world = turn.reshape(3, 3).T  # whose columns are the world's axes in the palm's frame
    for number, (axis, (low, high)) in enumerate(zip(AXES, mount.ranges, strict=True)):
        slides = number < 3
        unit = np.eye(3)[number % 3]
        base.add_joint(
            name=prefix + axis, axis=world @ unit if slides else unit,
            type=mujoco.mjtJoint.mjJNT_SLIDE if slides else mujoco.mjtJoint.mjJNT_HINGE,
            range=[low, high], limited=mujoco.mjtLimited.mjLIMITED_TRUE,
            armature=ARM_MASS if slides else ARM_INERTIA,
        )  # fmt: skip
        most = force if slides else torque
        gain = most / (ACCELERATION if slides else TURNING_ACCELERATION) / LAG
        spec.add_actuator(
            name=prefix + axis, target=prefix + axis, trntype=mujoco.mjtTrn.mjTRN_JOINT,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED, gainprm=[gain] + [0] * 9,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE, biasprm=[0, 0, -gain] + [0] * 7,
            ctrlrange=[-LIMITS[number], LIMITS[number]], ctrllimited=mujoco.mjtLimited.mjLIMITED_TRUE,
            forcerange=[-most, most], forcelimited=mujoco.mjtLimited.mjLIMITED_TRUE,
        )  # fmt: skip
    base.add_frame().attach_body(root, prefix, "")


def track_reference(
    reference: Array, position: Array, action: Array, ranges: ArrayLike, dt: float
) -> tuple[Array, Array]:
    """Velocity commands for the servos of a floating base for one control step, and the next reference.

    The reference moves by the action, and the servos follow it and correct their distance from it: an action of 0 holds
    the place. The reference stays in its ranges and within `LEAD` of the base, which brakes in time before the ends of
    its ranges: v^2 = 2 a d.

    Args:
        reference: (6,) m and rad, where the base should be now.
        position: (6,) m and rad, where it is.
        action: (6,) in [-1, 1], shares of `SPEED` and `TURNING` along `AXES`; faster ones are slowed down to that.
        ranges: (6, 2) m and rad.
        dt: s, a control step.

    Returns:
        Velocities (6,) m/s and rad/s, and the next reference (6,).
    """
    low, high = jnp.asarray(ranges).T
    wanted = jnp.clip(reference + dt * _bounded(jnp.asarray(LIMITS) * action), low, high)
    velocity = _bounded((wanted - reference) / dt + CATCHING_UP * (reference - position))
    velocity = jnp.clip(velocity, -_arriving(position - low, dt), _arriving(high - position, dt))
    return velocity, jnp.clip(wanted, position - LEAD, position + LEAD)


def _arriving(room: Array, dt: float) -> Array:
    """(6,) m/s and rad/s at which a base with so much room (6,) m and rad before it stops in time."""
    room = jnp.maximum(room, 0.0)
    return jnp.minimum(jnp.sqrt(2 * BRAKING * jnp.asarray(ACCELERATIONS) * room), BRAKING * room / dt)


def _bounded(velocity: Array) -> Array:
    """A velocity (6,) no faster than the arm moves and turns, in the same direction."""
    moving, turning = velocity[:3], velocity[3:]
    return jnp.concatenate([_shortened(moving, SPEED), _shortened(turning, TURNING)])


def _shortened(vector: Array, longest: float) -> Array:
    """A vector of at most that length."""
    return vector * longest / jnp.maximum(jnp.linalg.norm(vector), longest)
