"""Flight controllers of the Crazyflie's firmware: what they are told and the allocation of thrust.

`pid` is the firmware's cascade, `mellinger` its geometric controller, `levels` lets a policy command any stage of the
cascade. Inside, everything is in SI units and this project's axes (x forward, y left, z up); the firmware counts in
degrees, turns pitch the other way and drives each motor with a 16-bit number, of which 65535 is the largest thrust.
Every function takes any leading axes: one drone, the drones of a world, worlds of drones.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

FULL = 65535  # 16-bit actuator units at a rotor's largest thrust (firmware `UINT16_MAX`)

# Per rotor 1 to 4, how thrust, roll, pitch and yaw are added (firmware `powerDistributionForceTorque`, whose signs
# are ours). Positive roll lifts the left, positive pitch the back; rotors 2 and 4 drive the body counter-clockwise.
SIGNS = np.array([[1, 1, 1, 1], [-1, -1, 1, 1], [-1, 1, 1, -1], [-1, 1, -1, 1]], np.float32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Setpoint:
    """Setpoint of Mellinger's controller."""

    position: Array
    """(..., 3) m, world frame."""
    velocity: Array
    """(..., 3) m/s, world frame."""
    acceleration: Array
    """(..., 3) m/s^2, world frame, without gravity."""
    yaw_rate: Array
    """(...) rad/s, rate at which the heading to hold changes."""


def mix(thrust: Array, roll: Array, pitch: Array, yaw: Array) -> Array:
    """Thrusts (..., 4) N of the rotors from four parts, each (...) N per rotor.

    On a Crazyflie (`Multirotor.wrench`) they give a thrust of 4 `thrust`, torques of 4 lever `roll` and 4 lever `pitch`
    and, where the reaction torque is proportional to thrust, a torque of 4 torque/thrust `yaw`.
    """
    parts = zip((thrust, roll, pitch, yaw), SIGNS, strict=True)
    return sum((part[..., None] * sign for part, sign in parts), start=jnp.zeros(()))


def saturate(thrusts: Array, max_thrust: float) -> Array:
    """Thrusts (..., 4) N within limits: the largest excess is subtracted from all, so that the drone still turns.

    Source: firmware `powerDistributionCap`.
    """
    excess = jnp.maximum(jnp.max(thrusts, axis=-1, keepdims=True) - max_thrust, 0.0)
    return jnp.clip(thrusts - excess, 0.0, max_thrust)


def roll_pitch_yaw(quat: Array) -> tuple[Array, Array, Array]:
    """Angles (...) rad about the world's fixed axes of `quat` (..., 4) wxyz: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    w, x, y, z = jnp.unstack(quat, axis=-1)
    roll = jnp.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = jnp.arcsin(jnp.clip(2 * (w * y - x * z), -1.0, 1.0))
    return roll, pitch, jnp.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def wrap(angle: Array) -> Array:
    """`angle` (...) rad moved by whole turns into [-pi, pi]."""
    return angle - 2 * math.pi * jnp.round(angle / (2 * math.pi))
