"""The Franka Panda among Meta-World's tasks: where it stands, its kinematics, and how its hand follows a point.

The world is Meta-World's: x to the right, y away from the robot, z up, the table's top at z = 0; m and rad. The robot
stands at `BASE_POS` and faces +y. Joint positions are `(7,)`, joint1 to joint7 of `assets/robots/panda/panda.xml`. "The
tcp" is the middle between the fingertips.

Everything here is for one robot, without a batch axis, and written out by component: `jax.vmap` turns each scalar into
a row over the batch, and each line into a few vector instructions. Joints are walked in loops (`jax.lax.scan`), because
XLA's CPU compiler fuses a chain that is written out into each of its many readers, sines and all: `follow` then took
ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from embodied.math.tracing import traced_once
from embodied.robot import Robot

ASSET = "robots/panda/panda.xml"
ROBOT = Robot.load("panda")
JOINTS = tuple(joint for joint in ROBOT.joints if not joint.slides)
ARM_JOINTS = tuple(joint.name for joint in JOINTS)
"""Names of the joints and of their position servos."""
FINGER_JOINTS = ("finger_joint1", "finger_joint2")

CONTROL_DT = 0.0125
"""s between two actions; Meta-World's 5 steps of 2.5 ms."""

JOINT_LIMITS = np.array([(joint.low, joint.high) for joint in JOINTS])
"""(7, 2) rad."""
SPEED_LIMITS = np.array([joint.speed for joint in JOINTS])
"""(7,) rad/s."""
ACCELERATION_LIMITS = np.array([joint.acceleration for joint in JOINTS])
"""(7,) rad/s^2."""
FINGER_LIMITS = tuple(ROBOT.model.joint(FINGER_JOINTS[0]).range.tolist())
"""m from closed to open, each finger."""

FLANGE, FINGERTIP = float(ROBOT.model.body("hand").pos[2]), float(ROBOT.model.site("tcp").pos[2])
"""m along the hand: from joint 7's frame to the flange, and on to the tcp."""
HAND_TURN = -math.pi / 4
"""rad about z from the flange to the hand; the model has nine digits of it."""


def _link(joint: str) -> list[float]:
    body, rot = ROBOT.model.body(int(ROBOT.model.joint(joint).bodyid[0])), np.zeros(9)
    mujoco.mju_quat2Mat(rot, body.quat)
    rot = rot.reshape(3, 3).round(9)
    return [rot[1, 1], rot[2, 1], body.pos[0], body.pos @ rot[:, 2]]


LINKS = np.array([_link(joint) for joint in ARM_JOINTS])
"""(7, 4) Denavit-Hartenberg parameters after Craig, each joint's frame from the one before: cosine and sine of the tilt
alpha, a and d in m. The model's bodies have these frames."""

BASE_POS = np.array([0.0, 0.12, 0.175])
"""(3,) m, middle of the base's foot. The tasks take the hand from y = .4 to .92, nearly all that a Panda reaches with
its hand down: 28 to 78 cm from its axis. Searched on a grid (1 cm by 2.5 cm) over the positions that Meta-World's
scripted experts visit and the corners of its goals: no place leaves clearly fewer of them out of reach or at a joint's
limit. 17.5 cm above the table, both the far shelf (z = .46) and the near table's top are within reach. Out of reach
stay y = .9 below z = .1, by 29 mm at most, and y = .4 about z = .3, by 12 mm."""
BASE_QUAT = np.array([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])
"""(4,) wxyz: the robot faces +y."""
BASE_ROT = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""(3, 3) world from base: `BASE_QUAT` as a matrix."""

HAND_DOWN = np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])
"""(3, 3) world from hand: it points down and opens along y, the left finger to +y, as Meta-World's does."""
HOME = np.array([0.0, 0.4420863, 0.0, -2.4286373, 0.0, 2.8707236, -math.pi / 4])
"""(7,) rad: tcp at (0, .6, .2), hand down, elbow upright above the line from base to hand."""

DAMPING = 0.02
"""m: singular values of the Jacobian well above it are followed, those below are not."""
TURN_WEIGHT = 0.3
"""m/rad: how much a radian of the hand counts beside a metre."""
REST_GAIN = 0.02
"""Share of the way to the rest pose per step, as far as the hand's pose leaves the joints free."""

Vector: TypeAlias = tuple[Array, Array, Array]
Frame: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""Axes x, y, z and origin, in the world."""
Gram: TypeAlias = tuple[tuple[Array, ...], ...]
"""Lower triangle of a symmetric matrix, by rows."""
System: TypeAlias = tuple[Gram, tuple[Array, ...]]


@traced_once("fingertip")
def tcp_pose(joints: Array, fingertip: float = FINGERTIP) -> tuple[Array, Array]:
    """Position of the middle between the fingertips, and rotation of the hand.

    Args:
        joints: `(7,)` rad.
        fingertip: m from the flange to the tcp.

    Returns:
        Position `(3,)` m and rotation `(3, 3)`, world from hand. Its columns are the hand's axes: z out of the hand, y
        from the right finger to the left.

    Source: Craig, "Introduction to Robotics", chapter 3.
    """
    _, _, pos, axes = _chain(joints, fingertip)
    return jnp.stack(pos), jnp.stack([axis[i] for i in range(3) for axis in axes]).reshape(3, 3)


@traced_once("dt", "fingertip")
def follow(
    joints: Array,
    target_pos: Array,
    target_rot: ArrayLike = HAND_DOWN,
    rest: ArrayLike = HOME,
    dt: float = CONTROL_DT,
    fingertip: float = FINGERTIP,
) -> Array:
    """Next joint targets on the way to a pose of the hand: one step of damped least squares.

    Feed it its own result, the last targets, not the measured joints, which lag behind them by 50 ms: the targets then
    run as far ahead of the arm as its servos need. Joints that the hand's pose leaves free move towards `rest`.

    Args:
        joints: `(7,)` rad, the last targets.
        target_pos: `(3,)` m, world, for the tcp.
        target_rot: `(3, 3)` world from hand, within 90 degrees of the hand's rotation.
        rest: `(7,)` rad.
        dt: s until the next call.
        fingertip: m from the flange to the tcp.

    Returns:
        `(7,)` rad, within `JOINT_LIMITS`. No joint moves faster than `SPEED_LIMITS`: the step is shortened, in its
        direction, until the last one complies.

    Source: Wampler, IEEE Transactions on Systems, Man, and Cybernetics 16 (1986); the rotation's error: Luh, Walker and
    Paul, IEEE Transactions on Automatic Control 25 (1980).
    """
    axes, origins, pos, hand = _chain(joints, fingertip)
    wanted = jnp.asarray(target_rot)
    turns = [_cross(hand[i], (wanted[0, i], wanted[1, i], wanted[2, i])) for i in range(3)]
    error = tuple(target_pos[i] - pos[i] for i in range(3))
    error += tuple(0.5 * TURN_WEIGHT * (turns[0][i] + turns[1][i] + turns[2][i]) for i in range(3))
    pull = REST_GAIN * (jnp.asarray(rest) - joints)

    def add(system: System, joint: tuple[Vector, Vector, Array]) -> tuple[System, tuple[Array, ...]]:
        """Add one joint: its column of the Jacobian, and the effect of its pull to rest on the hand."""
        axis, origin, pulled = joint
        gram, left = system
        column = (*_cross(axis, _minus(pos, origin)), *_scaled(TURN_WEIGHT, axis))
        gram = tuple(tuple(gram[r][c] + column[r] * column[c] for c in range(r + 1)) for r in range(6))
        return (gram, tuple(left[r] - column[r] * pulled for r in range(6))), column

    zero = jnp.zeros_like(joints[0])
    damped = tuple(tuple(zero + (DAMPING**2 if c == r else 0.0) for c in range(r + 1)) for r in range(6))
    (gram, left), columns = jax.lax.scan(add, (damped, error), (axes, origins, pull))
    weights = solved(gram, left)
    step = pull
    for column, weight in zip(columns, weights, strict=True):
        step = step + weight * column
    step = step / jnp.maximum(jnp.max(jnp.abs(step) / (SPEED_LIMITS * dt)), 1.0)
    return jnp.clip(joints + step, JOINT_LIMITS[:, 0], JOINT_LIMITS[:, 1])


def _chain(joints: Array, fingertip: float) -> tuple[Vector, Vector, Vector, tuple[Vector, Vector, Vector]]:
    """Axes and origins of the seven joints, by component `(7,)`; the tcp; the hand's axes. All in the world."""

    def add(frame: Frame, link: tuple[Array, ...]) -> tuple[Frame, tuple[Vector, Vector]]:
        x, y, z, pos = frame
        cosine, sine, level, tilt, a, d = link
        y, z = _plus(_scaled(level, y), _scaled(tilt, z)), _minus(_scaled(level, z), _scaled(tilt, y))
        pos = _plus(pos, _plus(_scaled(a, x), _scaled(d, z)))
        x, y = _plus(_scaled(cosine, x), _scaled(sine, y)), _minus(_scaled(cosine, y), _scaled(sine, x))
        return (x, y, z, pos), (z, pos)

    zero = jnp.zeros_like(joints[0])
    bx, by, bz, base = ((zero + entry[0], zero + entry[1], zero + entry[2]) for entry in (*BASE_ROT.T, BASE_POS))
    links = tuple(jnp.asarray(column, joints.dtype) for column in LINKS.T)
    (x, y, z, pos), (axes, origins) = jax.lax.scan(add, (bx, by, bz, base), (jnp.cos(joints), jnp.sin(joints), *links))
    c, s = math.cos(HAND_TURN), math.sin(HAND_TURN)
    hand = (_plus(_scaled(c, x), _scaled(s, y)), _minus(_scaled(c, y), _scaled(s, x)), z)
    return axes, origins, _plus(pos, _scaled(FLANGE + fingertip, z)), hand


def solved(gram: Gram, right: Sequence[Array]) -> list[Array]:
    """Solution of a symmetric positive definite system by elimination (L D L^T), written out."""
    size = len(right)
    lower, result = [list(row) for row in gram], list(right)
    for k in range(size):
        inverse = 1.0 / lower[k][k]
        for r in range(k + 1, size):
            ratio = lower[r][k] * inverse
            for c in range(k + 1, r + 1):
                lower[r][c] = lower[r][c] - ratio * lower[c][k]
            result[r] = result[r] - ratio * result[k]
    for r in reversed(range(size)):
        for c in range(r + 1, size):
            result[r] = result[r] - lower[c][r] * result[c]
        result[r] = result[r] / lower[r][r]
    return result


def _plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _scaled(factor: float | Array, a: Vector) -> Vector:
    return factor * a[0], factor * a[1], factor * a[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
