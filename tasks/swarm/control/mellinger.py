"""Mellinger's geometric controller as the Crazyflie's firmware has it, and as gym-pybullet-drones' `DSLPIDControl`.

Source: Mellinger and Kumar, "Minimum snap trajectory generation and control for quadrotors", ICRA 2011;
crazyflie-firmware `controller_mellinger.c`, whose gains, except one, gym-pybullet-drones uses. The firmware turns
newtons into actuator units by its `massThrust` of 132000 units per N of all rotors together; with a largest thrust of
.12 N per rotor that is the 65535 / (4 * .12 N) = 136500 by which newtons here become newtons again, within 4 %.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.robot.rotors import GRAVITY
from tasks.swarm.control import FULL, Setpoint, mix, roll_pitch_yaw, saturate, wrap
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.dynamics.multirotor import Multirotor

Triple = tuple[float, float, float]
MOMENT = 32000  # actuator units, largest moment (firmware)


@dataclasses.dataclass(frozen=True)
class Gains:
    """Gains along x, y, z (world for forces, body for moments) in the firmware's own units."""

    force_p: Triple = (0.4, 0.4, 1.25)
    """N/m."""
    force_i: Triple = (0.05, 0.05, 0.05)
    """N/(m s)."""
    force_d: Triple = (0.2, 0.2, 0.4)
    """N s/m."""
    force_limit: Triple = (2.0, 2.0, 0.4)
    """m s, of the integral."""
    moment_p: Triple = (70000.0, 70000.0, 60000.0)
    """Actuator units per unit of the rotation error, which is about twice an angle in rad."""
    moment_i: Triple = (0.0, 0.0, 500.0)
    """The same per second."""
    moment_d: Triple = (20000.0, 20000.0, 12000.0)
    """Actuator units per rad/s."""
    moment_dd: Triple = (200.0, 200.0, 0.0)
    """Actuator units per rad/s^2."""
    moment_limit: Triple = (1.0, 1.0, 1500.0)
    """s, of the integral."""


FIRMWARE = Gains()
# `DSLPIDControl.py`. It works at 48 Hz by default and does not know `kd_omega_rp`.
DSL = Gains(force_d=(0.2, 0.2, 0.5), force_limit=(2.0, 2.0, 0.15), moment_dd=(0.0, 0.0, 0.0))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """State of the controller."""

    force: Array
    """(..., 3) m s, integral of the position error, world frame."""
    moment: Array
    """(..., 3) s, integral of the rotation error, body frame."""
    angvel: Array
    """(..., 3) rad/s, the last measured body rates."""
    heading: Array
    """(...) rad to hold."""


def start(motion: Drones) -> State:
    """A controller that wakes up in flight: nothing integrated, its heading the one to hold."""
    zero = jnp.zeros_like(motion.angvel)
    return State(zero, zero, motion.angvel, roll_pitch_yaw(motion.quat)[2])


@dataclasses.dataclass(frozen=True)
class Mellinger:
    """The controller for one drone."""

    drone: Multirotor
    """Mass, and the largest thrust that turns the firmware's units into newtons."""
    gains: Gains = FIRMWARE
    """The firmware's numbers."""

    def update(self, state: State, setpoint: Setpoint, motion: Drones, dt: float) -> tuple[Array, State]:
        """Thrusts (..., 4) N toward `setpoint`, and the state, `dt` s after the last time."""
        gains, unit = self.gains, self.drone.max_thrust / FULL
        heading = wrap(state.heading + dt * setpoint.yaw_rate)
        error = setpoint.position - motion.pos
        force_integral = _clip(state.force + dt * error, gains.force_limit)
        force = (
            self.drone.mass * (setpoint.acceleration + np.array([0.0, 0.0, GRAVITY], np.float32))
            + _vector(gains.force_p) * error
            + _vector(gains.force_i) * force_integral
            + _vector(gains.force_d) * (setpoint.velocity - motion.vel)
        )
        rotation, thrust = _rotation_error(motion.quat, force, heading)
        moment_integral = _clip(state.moment + dt * rotation, gains.moment_limit)
        yaw_rate = setpoint.yaw_rate[..., None] * np.array([0.0, 0.0, 1.0], np.float32)
        share = (0.5 * unit, 0.5 * unit, unit)  # the power distribution halves roll and pitch, but not yaw
        moment = (
            _vector(gains.moment_p) * rotation
            + _vector(gains.moment_i) * moment_integral
            + _vector(gains.moment_d) * (yaw_rate - motion.angvel)
            - _vector(gains.moment_dd) * ((motion.angvel - state.angvel) / dt)
        )
        roll, pitch, yaw = jnp.unstack(_vector(share) * jnp.clip(moment, -MOMENT, MOMENT), axis=-1)
        # A drone on its back stops its rotors: thrust would only push it away.
        thrusts = jnp.where(thrust[..., None] > 0, mix(thrust / 4, roll, pitch, yaw), 0.0)
        state = State(force_integral, moment_integral, motion.angvel, heading)
        return saturate(thrusts, self.drone.max_thrust), state


def _vector(values: Triple) -> np.ndarray:
    return np.asarray(values, np.float32)


def _clip(value: Array, limit: Triple) -> Array:
    return jnp.clip(value, -_vector(limit), _vector(limit))


Components = tuple[Array, Array, Array]


def _dot(a: Components, b: Components) -> Array:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Components, b: Components) -> Components:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _unit(a: Components) -> Components:
    scale = jax.lax.rsqrt(jnp.maximum(_dot(a, a), 1e-12))
    return a[0] * scale, a[1] * scale, a[2] * scale


def _rotation_error(quat: Array, force: Array, heading: Array) -> tuple[Array, Array]:
    """Rotation error (..., 3), body frame, to a thrust along `force` at `heading`; and the thrust (...) N along body z.

    Source: Mellinger and Kumar 2011, equations 6 to 10: z_des along the force, y_des across it and the heading; error
    vee(R' R_des - R_des' R), without their factor 1/2 as in the firmware. Written out by component, for products of
    many 3 x 3 matrices are slow on a CPU.
    """
    w, x, y, z = jnp.unstack(quat, axis=-1)
    body_x = (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))
    body_y = (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x))
    body_z = (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))
    wanted: Components = (force[..., 0], force[..., 1], force[..., 2])
    z_des = _unit(wanted)
    y_des = _unit(_cross(z_des, (jnp.cos(heading), jnp.sin(heading), jnp.zeros_like(heading))))
    x_des = _cross(y_des, z_des)
    turn = [
        _dot(body_z, y_des) - _dot(body_y, z_des),
        _dot(body_x, z_des) - _dot(body_z, x_des),
        _dot(body_y, x_des) - _dot(body_x, y_des),
    ]
    return jnp.stack(turn, axis=-1), _dot(wanted, body_z)
