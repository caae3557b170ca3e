"""Rotations as unit quaternions, in pure JAX.

A quaternion is `(4,)`, ordered w, x, y, z as in MuJoCo, of unit length unless
documented otherwise, and turns body coordinates into world coordinates:
`v_w = quat_rotate(quat, v_b)`. A quaternion and its negative are the same rotation.
Rotation vectors are `(3,)`, axis times angle, in radians.

Every function takes one rotation, without a batch axis; `jax.vmap` adds it. The
arithmetic is written out by component because XLA then fuses it into one loop over
the batch, where `jnp.dot`, `jnp.cross` and indexed permutations each break the loop
or compute their operands several times. A product of more than about five quaternions
is too much for XLA's CPU compiler: write that as a `jax.lax.scan`, as
`embodied.kinematics` does, or put `jax.lax.optimization_barrier` between the factors.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from embodied.math.tracing import traced_once

__all__ = [
    "euler_from_quat",
    "matrix_from_quat",
    "quat_angle",
    "quat_conjugate",
    "quat_error",
    "quat_from_axis_angle",
    "quat_from_euler",
    "quat_from_matrix",
    "quat_from_rotation_vector",
    "quat_from_rpy",
    "quat_from_yaw",
    "quat_integrate",
    "quat_multiply",
    "quat_normalize",
    "quat_rotate",
    "quat_rotate_inverse",
    "random_quat",
    "random_tilt",
    "rotation_vector_from_quat",
    "rpy_from_quat",
    "slerp",
    "up_vector",
    "wxyz_from_xyzw",
    "xyzw_from_wxyz",
    "yaw_from_quat",
]


def _small(array: Array) -> float:
    """Squared angle below which a series of two terms is exact to the last digit of the dtype."""
    return math.sqrt(float(jnp.finfo(array.dtype).eps))


def _norm(squared: Array) -> Array:
    """Square root whose gradient at zero is zero rather than infinite."""
    zero = squared <= jnp.finfo(squared.dtype).tiny
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squared)))


def _arctan2(y: Array, x: Array) -> Array:
    """Arctangent of y / x whose value and gradient stay finite where both are zero."""
    undefined = y * y + x * x <= jnp.finfo(x.dtype).eps ** 2
    return jnp.arctan2(y, jnp.where(undefined, 1.0, x))


# The group: product, inverse, action on vectors.


@traced_once()
def quat_multiply(a: Array, b: Array) -> Array:
    """Product of two quaternions: the rotation `b` followed by the rotation `a`.

    Args:
        a: `(4,)` wxyz, of any length.
        b: `(4,)` wxyz, of any length.

    Returns:
        `(4,)` wxyz; its length is the product of the two lengths.

    Source: Hamilton's product, i j = k.
    """
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return jnp.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ]
    )


@traced_once()
def quat_conjugate(quat: Array) -> Array:
    """Inverse of a unit quaternion: world to body where `quat` is body to world.

    Args:
        quat: `(4,)` wxyz.

    Returns:
        `(4,)` wxyz.
    """
    return quat * np.array([1, -1, -1, -1])


@traced_once()
def quat_normalize(quat: Array) -> Array:
    """Scale a quaternion to unit length.

    Args:
        quat: `(4,)` wxyz, not zero. A zero quaternion is no rotation and yields NaN.

    Returns:
        `(4,)` wxyz, unit.
    """
    return quat * jax.lax.rsqrt(jnp.sum(jnp.square(quat)))


@traced_once()
def quat_rotate(quat: Array, vector: Array) -> Array:
    """Turn a vector from body to world coordinates.

    Args:
        quat: `(4,)` wxyz, unit, body to world.
        vector: `(3,)` in body coordinates, any unit.

    Returns:
        `(3,)` in world coordinates, same unit.

    Source: Euler and Rodrigues, v + 2 w (u x v) + 2 u x (u x v) for the quaternion (w, u).
    """
    w, x, y, z = quat
    vx, vy, vz = vector
    tx = 2.0 * (y * vz - z * vy)
    ty = 2.0 * (z * vx - x * vz)
    tz = 2.0 * (x * vy - y * vx)
    return jnp.stack(
        [
            vx + w * tx + (y * tz - z * ty),
            vy + w * ty + (z * tx - x * tz),
            vz + w * tz + (x * ty - y * tx),
        ]
    )


@traced_once()
def quat_rotate_inverse(quat: Array, vector: Array) -> Array:
    """Turn a vector from world to body coordinates, as a sensor fixed to the body reads it.

    Args:
        quat: `(4,)` wxyz, unit, body to world.
        vector: `(3,)` in world coordinates, any unit.

    Returns:
        `(3,)` in body coordinates, same unit.
    """
    return quat_rotate(quat_conjugate(quat), vector)


@traced_once()
def up_vector(quat: Array) -> Array:
    """The body's z axis in world coordinates; its last entry is the cosine of the tilt.

    Args:
        quat: `(4,)` wxyz, unit, body to world.

    Returns:
        `(3,)` unit vector, world: the third column of the rotation matrix.
    """
    w, x, y, z = quat
    return jnp.stack([2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)])


# Other forms of a rotation.


@traced_once()
def matrix_from_quat(quat: Array) -> Array:
    """Rotation matrix of a quaternion.

    Args:
        quat: `(4,)` wxyz, unit, body to world.

    Returns:
        `(3, 3)`; its columns are the body's axes in world coordinates.
    """
    w, x, y, z = quat
    return jnp.stack(
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y - w * z),
            2.0 * (x * z + w * y),
            2.0 * (x * y + w * z),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z - w * x),
            2.0 * (x * z - w * y),
            2.0 * (y * z + w * x),
            1.0 - 2.0 * (x * x + y * y),
        ]
    ).reshape(3, 3)


@traced_once()
def quat_from_matrix(matrix: Array) -> Array:
    """Quaternion of a rotation matrix, without loss of accuracy at any angle.

    A matrix determines the products of the quaternion's entries, q q^T. Each row of that
    table is the quaternion times one of its entries; the row of the largest entry is the
    one least touched by rounding, and is never zero.

    Args:
        matrix: `(3, 3)` rotation matrix, body to world.

    Returns:
        `(4,)` wxyz, unit, with w >= 0.

    Source: Shepperd, "Quaternion from rotation matrix", J. Guidance and Control 1 (1978).
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = matrix
    row_w = jnp.stack([1.0 + xx + yy + zz, zy - yz, xz - zx, yx - xy])
    row_x = jnp.stack([zy - yz, 1.0 + xx - yy - zz, xy + yx, xz + zx])
    row_y = jnp.stack([xz - zx, xy + yx, 1.0 - xx + yy - zz, yz + zy])
    row_z = jnp.stack([yx - xy, xz + zx, yz + zy, 1.0 - xx - yy + zz])
    wx = jnp.where(row_w[0] >= row_x[1], row_w, row_x)
    yz_ = jnp.where(row_y[2] >= row_z[3], row_y, row_z)
    largest = jnp.where(
        jnp.maximum(row_w[0], row_x[1]) >= jnp.maximum(row_y[2], row_z[3]),
        wx,
        yz_,
    )
    return quat_normalize(jnp.where(largest[0] < 0.0, -largest, largest))


@traced_once()
def quat_from_axis_angle(axis: Array, angle: ArrayLike) -> Array:
    """Quaternion of a turn about an axis.

    Args:
        axis: `(3,)` unit vector; the same in both frames.
        angle: rad, scalar, right-handed about `axis`.

    Returns:
        `(4,)` wxyz, unit.
    """
    half = 0.5 * jnp.asarray(angle)
    x, y, z = jnp.sin(half) * axis
    return jnp.stack([jnp.cos(half), x, y, z])


@traced_once()
def quat_from_rotation_vector(vector: Array) -> Array:
    """Exponential map: the quaternion of a rotation vector. Smooth at zero.

    Args:
        vector: `(3,)` rad, axis times angle, of any length.

    Returns:
        `(4,)` wxyz, unit.

    Source: Sola, "Quaternion kinematics for the error-state Kalman filter", arXiv:1711.02508.
    """
    x, y, z = vector
    squared: Array = x * x + y * y + z * z
    small = squared < _small(squared)
    # The branch that is not taken must be finite too, or its gradient would be NaN.
    angle = jnp.sqrt(jnp.where(small, 1.0, squared))
    w = jnp.where(small, 1.0 - squared / 8.0 + squared * squared / 384.0, jnp.cos(0.5 * angle))
    scale = jnp.where(small, 0.5 - squared / 48.0 + squared * squared / 3840.0, jnp.sin(0.5 * angle) / angle)
    return jnp.stack([w, scale * x, scale * y, scale * z])


@traced_once()
def rotation_vector_from_quat(quat: Array) -> Array:
    """Logarithm: the shortest rotation vector of a quaternion. Smooth at zero.

    Args:
        quat: `(4,)` wxyz, of any length but zero.

    Returns:
        `(3,)` rad, axis times angle, no longer than pi. At exactly pi, where both signs
        are right, the direction is that of the quaternion's vector part.

    Source: Sola, "Quaternion kinematics for the error-state Kalman filter", arXiv:1711.02508.
    """
    w, x, y, z = jnp.unstack(jnp.where(quat[0] < 0.0, -quat, quat))
    squared: Array = x * x + y * y + z * z
    small = squared < _small(squared) * w * w
    sine = jnp.sqrt(jnp.where(small, 1.0, squared))
    cosine = jnp.where(small, w, 1.0)
    ratio = squared / (cosine * cosine)
    series = (2.0 - ratio * (2.0 / 3.0) + ratio * ratio * (2.0 / 5.0)) / cosine
    scale = jnp.where(small, series, 2.0 * jnp.arctan2(sine, w) / sine)
    return jnp.stack([scale * x, scale * y, scale * z])


@traced_once()
def quat_from_rpy(rpy: Array) -> Array:
    """Quaternion of roll, pitch and yaw about the world's fixed axes: R = Rz(yaw) Ry(pitch) Rx(roll).

    The convention of ROS, URDF and flight controllers (extrinsic x-y-z, which is
    intrinsic z-y'-x''), so that `yaw` is the heading. MJCF's `euler` attribute means
    another product: see `quat_from_euler`.

    Args:
        rpy: `(3,)` rad: roll about x, pitch about y, yaw about z.

    Returns:
        `(4,)` wxyz, unit.
    """
    cr, cp, cy = jnp.cos(0.5 * rpy)
    sr, sp, sy = jnp.sin(0.5 * rpy)
    return jnp.stack(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )


@traced_once()
def rpy_from_quat(quat: Array) -> Array:
    """Roll, pitch and yaw about the world's fixed axes: R = Rz(yaw) Ry(pitch) Rx(roll).

    Accurate up to gimbal lock (pitch = +-pi/2), where only the sum or the difference
    of roll and yaw is defined: there roll is zero and yaw takes the whole turn.

    Args:
        quat: `(4,)` wxyz, of any length but zero.

    Returns:
        `(3,)` rad: roll and yaw in [-pi, pi], pitch in [-pi/2, pi/2].

    Source: Bernardes and Viollet, "Quaternion to Euler angles conversion", PLoS ONE 17 (2022).
    """
    w, x, y, z = quat_normalize(quat)
    # Half the sum and half the difference of yaw and roll have these sines and cosines,
    # up to the positive factors cos(pitch/2) -+ sin(pitch/2).
    sum_sine, sum_cosine = x + z, w - y
    difference_sine, difference_cosine = z - x, w + y
    sum_squared = sum_sine * sum_sine + sum_cosine * sum_cosine
    difference_squared = difference_sine * difference_sine + difference_cosine * difference_cosine
    pitch = 0.5 * jnp.pi - 2.0 * jnp.arctan2(_norm(sum_squared), _norm(difference_squared))
    # A length below this is rounding, not a direction.
    locked = (4.0 * jnp.finfo(w.dtype).eps) ** 2
    half_sum = _arctan2(sum_sine, sum_cosine)
    half_difference = _arctan2(difference_sine, difference_cosine)
    half_sum, half_difference = (
        jnp.where(sum_squared <= locked, half_difference, half_sum),
        jnp.where(difference_squared <= locked, half_sum, half_difference),
    )
    roll = _wrapped(half_sum - half_difference)
    yaw = _wrapped(half_sum + half_difference)
    return jnp.stack([roll, pitch, yaw])


def _wrapped(angle: Array) -> Array:
    """An angle in [-2 pi, 2 pi] brought to [-pi, pi]."""
    turn = 2.0 * jnp.pi
    return jnp.where(angle > jnp.pi, angle - turn, jnp.where(angle < -jnp.pi, angle + turn, angle))


@traced_once()
def quat_from_euler(euler: Array) -> Array:
    """Quaternion of intrinsic x-y'-z'' Euler angles: R = Rx(e0) Ry(e1) Rz(e2).

    The default meaning of MJCF's `euler` attribute (`eulerseq="xyz"`): each turn is
    about an axis of the frame already turned. For roll, pitch and yaw as in ROS or a
    flight controller, use `quat_from_rpy`.

    Args:
        euler: `(3,)` rad, about x, y' and z''.

    Returns:
        `(4,)` wxyz, unit.
    """
    return quat_conjugate(quat_from_rpy(-euler))


@traced_once()
def euler_from_quat(quat: Array) -> Array:
    """Intrinsic x-y'-z'' Euler angles: R = Rx(e0) Ry(e1) Rz(e2), as MJCF's `euler` by default.

    At gimbal lock (e1 = +-pi/2) the first angle is zero and the third takes the whole turn.
    The heading of a robot is `yaw_from_quat`, not the third angle.

    Args:
        quat: `(4,)` wxyz, of any length but zero.

    Returns:
        `(3,)` rad: first and third in [-pi, pi], second in [-pi/2, pi/2].
    """
    return -rpy_from_quat(quat_conjugate(quat))


@traced_once()
def yaw_from_quat(quat: Array) -> Array:
    """Heading: the angle from the world's x axis to the body's x axis, both seen from above.

    Args:
        quat: `(4,)` wxyz, body to world.

    Returns:
        `()` rad in [-pi, pi]; zero where the body's x axis is vertical and heading has no meaning.
    """
    w, x, y, z = quat
    return _arctan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z)


@traced_once()
def quat_from_yaw(yaw: ArrayLike) -> Array:
    """Quaternion of a turn about the world's z axis.

    Args:
        yaw: rad, scalar.

    Returns:
        `(4,)` wxyz, unit.
    """
    half = 0.5 * jnp.asarray(yaw)
    zero = jnp.zeros_like(half)
    return jnp.stack([jnp.cos(half), zero, zero, jnp.sin(half)])


@traced_once()
def wxyz_from_xyzw(quat: Array) -> Array:
    """Reorder a quaternion of PyBullet, ROS or SciPy (x, y, z, w) into MuJoCo's order (w, x, y, z)."""
    x, y, z, w = quat
    return jnp.stack([w, x, y, z])


@traced_once()
def xyzw_from_wxyz(quat: Array) -> Array:
    """Reorder a quaternion of MuJoCo (w, x, y, z) into the order of PyBullet, ROS or SciPy (x, y, z, w)."""
    w, x, y, z = quat
    return jnp.stack([x, y, z, w])


# Motion and difference.


@traced_once()
def quat_integrate(quat: Array, angvel_b: Array, dt: ArrayLike) -> Array:
    """Orientation after turning for `dt` at a constant body angular velocity; exact at any rate.

    Args:
        quat: `(4,)` wxyz, unit, body to world.
        angvel_b: `(3,)` rad/s, body frame.
        dt: s, scalar.

    Returns:
        `(4,)` wxyz, scaled to unit length so that rounding does not build up over steps.

    Source: q exp(w dt); Sola, arXiv:1711.02508, and `mju_quatIntegrate` of MuJoCo.
    """
    return quat_normalize(quat_multiply(quat, quat_from_rotation_vector(angvel_b * dt)))


@traced_once()
def quat_error(quat: Array, target: Array) -> Array:
    """Rotation vector that takes `quat` to `target` along the shortest way, in the body frame of `quat`.

    It is the body angular velocity that reaches the target in one second:
    `quat_integrate(quat, quat_error(quat, target), 1.0)` is `target`. Apply
    `quat_rotate(quat, ...)` for world coordinates. `mju_subQuat` of MuJoCo is this
    with its arguments exchanged.

    Args:
        quat: `(4,)` wxyz, unit, body to world.
        target: `(4,)` wxyz, unit.

    Returns:
        `(3,)` rad, body frame of `quat`, no longer than pi. Smooth where the two agree.
    """
    return rotation_vector_from_quat(quat_multiply(quat_conjugate(quat), target))


@traced_once()
def quat_angle(quat: Array, target: Array) -> Array:
    """Angle between two orientations.

    Args:
        quat: `(4,)` wxyz, of any length but zero.
        target: `(4,)` wxyz, of any length but zero.

    Returns:
        `()` rad in [0, pi]; its gradient is zero where the two agree.
    """
    w, x, y, z = quat_multiply(quat_conjugate(quat), target)
    return 2.0 * jnp.arctan2(_norm(x * x + y * y + z * z), jnp.abs(w))


@traced_once()
def slerp(start: Array, end: Array, fraction: ArrayLike) -> Array:
    """Orientation on the shortest turn from `start` to `end`, at constant angular speed.

    Args:
        start: `(4,)` wxyz, unit.
        end: `(4,)` wxyz, unit.
        fraction: scalar; 0 is `start`, 1 is `end`, values outside go on turning.

    Returns:
        `(4,)` wxyz, unit. Smooth also where the two agree.

    Source: Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985.
    """
    return quat_integrate(start, quat_error(start, end), fraction)


# Random orientations.


@traced_once()
def random_quat(key: Array) -> Array:
    """An orientation drawn uniformly from all orientations.

    Args:
        key: JAX random key.

    Returns:
        `(4,)` wxyz, unit.

    Source: Shoemake, "Uniform random rotations", Graphics Gems III (1992).
    """
    height, first, second = jax.random.uniform(key, (3,))
    low, high = jnp.sqrt(1.0 - height), jnp.sqrt(height)
    first, second = 2.0 * jnp.pi * first, 2.0 * jnp.pi * second
    return jnp.stack([low * jnp.sin(first), low * jnp.cos(first), high * jnp.sin(second), high * jnp.cos(second)])


@traced_once()
def random_tilt(key: Array, max_angle: ArrayLike) -> Array:
    """A tilt away from upright: a turn about a random horizontal axis, without a turn about z.

    The direction is uniform over the compass and the angle uniform in [0, max_angle].
    Follow it by a heading with `quat_multiply(quat_from_yaw(yaw), tilt)`.

    Args:
        key: JAX random key.
        max_angle: rad, scalar, at most pi.

    Returns:
        `(4,)` wxyz, unit.
    """
    direction, share = jax.random.uniform(key, (2,))
    direction, half = 2.0 * jnp.pi * direction, 0.5 * share * max_angle
    sine = jnp.sin(half)
    return jnp.stack([jnp.cos(half), sine * jnp.cos(direction), sine * jnp.sin(direction), jnp.zeros_like(half)])
