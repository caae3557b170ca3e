"""Aerodynamic effects on a Crazyflie: ground effect, drag, downwash, gusts; and its battery's voltage sag.

One small pure function per effect, for any leading axes: one drone, the drones of a world, worlds of drones. Where
gym-pybullet-drones ("gpd" below, version 2.1, `BaseAviary`) has the effect, formula and constants are its own, for
comparison; its errors are named and fixed.
"""

from __future__ import annotations

import dataclasses
import math
from enum import StrEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.errors import UnknownNameError
from embodied.robot.rotors import GRAVITY
from tasks.swarm.dynamics.crazyflie import Preset
from tasks.swarm.dynamics.multirotor import Multirotor, body_drag, rotate_inverse


class Effect(StrEnum):
    """Effects that a task may add to thrust and weight."""

    DRAG = "drag"
    GROUND = "ground"
    DOWNWASH = "downwash"
    WIND = "wind"
    BATTERY = "battery"


@dataclasses.dataclass(frozen=True)
class Mode:
    """A drone and the effects it flies under."""

    preset: Preset
    """Constants of the drone."""
    effects: frozenset[Effect]
    """Effects besides thrust, reaction torque and weight."""


MODES: dict[str, Mode] = {
    # The names of gpd's `Physics`. Its `pyb` and `dyn` differ in the integrator only, so here they are one.
    "pyb": Mode(Preset.GPD, frozenset()),
    "dyn": Mode(Preset.GPD, frozenset()),
    "pyb_gnd": Mode(Preset.GPD, frozenset({Effect.GROUND})),
    "pyb_drag": Mode(Preset.GPD, frozenset({Effect.DRAG})),
    "pyb_dw": Mode(Preset.GPD, frozenset({Effect.DOWNWASH})),
    "pyb_gnd_drag_dw": Mode(Preset.GPD, frozenset({Effect.GROUND, Effect.DRAG, Effect.DOWNWASH})),
}


def find_mode(name: str) -> Mode:
    """The mode that gpd calls `name`, in lower or upper case."""
    try:
        return MODES[name.lower()]
    except KeyError:
        raise UnknownNameError("physics mode", name, MODES) from None


# Ground effect.

PROPELLER_RADIUS = 0.0231348  # m, Crazyflie 2.x (gpd cf2x.urdf)
GROUND_GAIN = 11.36859  # -, fitted to a Crazyflie (gpd cf2x.urdf)
# m, gpd lets the gain grow no further below .25 r sqrt(15 rpm_max^2 kf G / T_max). Its T_max is that of four rotors,
# 4 kf rpm_max^2, so thrust curve and largest thrust cancel and the height is the same for every drone: 3.8 cm.
GROUND_CLIP = 0.25 * PROPELLER_RADIUS * math.sqrt(15 * GROUND_GAIN / 4)


def ground_effect(thrust: Array, height: Array, upright: Array) -> Array:
    """Thrust (..., 4) N that the ground adds to each rotor's own `thrust` (..., 4) N.

    Args:
        thrust: N per rotor, without ground.
        height: (...) m of the rotors above the floor.
        upright: (...) cosine of the tilt. A drone on its back is pushed by nothing.

    Source: gpd, F = f G (r / 4h)^2 (after Cheeseman and Bennett, 1955), while |roll| and |pitch| are below 90 degrees,
    which is while `upright` is positive. 26.7 % at most, 3.8 % at 10 cm.
    """
    gain = GROUND_GAIN * (PROPELLER_RADIUS / (4 * jnp.maximum(height, GROUND_CLIP))) ** 2
    return thrust * jnp.where(upright > 0, gain, 0.0)[..., None]


# Drag.

ROTOR_DRAG = (9.1785e-7, 9.1785e-7, 10.311e-7)  # N s^2/(m rad), body axes; Forster, ETH Zurich 2015
RADIANS_PER_SECOND = 2 * math.pi / 60  # per rpm


def rotor_drag(quat: Array, airvel_w: Array, rotor_speed: Array) -> Array:
    """Drag (..., 3) N in the body frame that grows with the rotors' speed: F = -(sum w_i) D (R' v).

    Args:
        quat: (..., 4) wxyz, body -> world.
        airvel_w: (..., 3) m/s of the drone relative to the air, world frame.
        rotor_speed: (..., 4) rpm.

    Source: Forster, "System identification of the Crazyflie 2.0 nano quadrocopter", ETH Zurich 2015. gpd multiplies D
    with the velocity in the world frame and turns the product, which for its two coefficients makes vertical drag that
    of the world's vertical; D belongs to the body's axes. It also uses the speeds commanded one step before.
    """
    total = RADIANS_PER_SECOND * jnp.sum(rotor_speed, axis=-1, keepdims=True)
    return -total * np.asarray(ROTOR_DRAG, np.float32) * rotate_inverse(quat, airvel_w)


def drag(drone: Multirotor, quat: Array, airvel_w: Array, rotor_speed: Array) -> Array:
    """Drag (..., 3) N in the body frame: `body_drag`; where a Crazyflie's preset has none, `rotor_drag`."""
    if any(drone.drag) or not drone.crazyflie:
        return body_drag(drone, quat, airvel_w)
    return rotor_drag(quat, airvel_w, rotor_speed)


# Downwash.

WASH_GAIN = 2267.18 * (PROPELLER_RADIUS / 4) ** 2  # N m^2: 2267.18 (r / 4z)^2 = WASH_GAIN / z^2 (gpd cf2x.urdf)
WASH_WIDTH = (0.16, -0.11)  # -, m: the wash is .16 z - .11 m wide, `z` m below (gpd cf2x.urdf)
WASH_REACH = 10.0  # m, gpd's own limit on the horizontal distance
# Our limits. At z = .6875 m the published width is zero and the published force 0/0, so no wash is narrower than
# 3 cm, about a rotor's radius. At .25 m the published force is 4.6 times the weight of gpd's drone and grows without
# bound below, while the air that four rotors move can push with no more than about their own thrust, 2.25 weights:
# drones nearer than .25 m, where they all but touch, are pushed as at .25 m.
LEAST_WIDTH = 0.03  # m
LEAST_DROP = 0.25  # m


def downwash_of_pairs(offset: Array) -> Array:
    """Force (...) N, downward, on a drone from the wash of another at `offset` (..., 3) m from it, world axes.

    Zero unless the other is above (positive z). As published, the sign of the width is lost in its square: below
    .6875 m the wash widens again.

    Source: gpd, alpha exp(-.5 (d / beta)^2), alpha = 2267.18 (r / 4z)^2, beta = .16 z - .11, with our limits on both.
    """
    x, y, z = offset[..., 0], offset[..., 1], offset[..., 2]
    return _wash(x * x + y * y, z)


def _wash(distance2: Array, drop: Array) -> Array:
    """Force (...) N at a squared horizontal distance `distance2` (...) m^2 and `drop` (...) m below another drone."""
    width = jnp.maximum(jnp.abs(WASH_WIDTH[0] * drop + WASH_WIDTH[1]), LEAST_WIDTH)
    force = WASH_GAIN / jnp.maximum(drop, LEAST_DROP) ** 2 * jnp.exp(-0.5 * distance2 / width**2)
    return jnp.where((drop > 0) & (distance2 < WASH_REACH**2), force, 0.0)


def downwash(positions: Array) -> Array:
    """Force (A,) N, downward, on each of the drones at `positions` (A, 3) m from all those above it.

    Costs A^2 exponentials; `downwash_from` takes a list of neighbours.
    """
    x, y, z = (axis[None, :] - axis[:, None] for axis in jnp.unstack(positions, axis=-1))
    return jnp.sum(_wash(x * x + y * y, z), axis=-1)


def downwash_from(positions: Array, index: Array, mask: Array) -> Array:
    """The same from the drones `index` (A, K) of a list such as `neighbours.columns` gives, where `mask` (A, K)."""
    offset = positions.at[index].get(mode="clip") - positions[:, None, :]
    return jnp.sum(jnp.where(mask, downwash_of_pairs(offset), 0.0), axis=-1)


# Gusts.

FOOT = 0.3048  # m
LOW, HIGH = 10.0, 1000.0  # feet, where the low-altitude model holds


@dataclasses.dataclass(frozen=True)
class Wind:
    """A mean wind with the turbulence that goes with it."""

    velocity: tuple[float, float, float] = (2.0, 0.0, 0.0)
    """m/s, world frame, 20 feet (6 m) above ground; our choice, a light breeze. No wind, no gusts."""

    @property
    def speed(self) -> float:
        """m/s."""
        return math.hypot(*self.velocity)


def _turbulence(wind: Wind, height: Array) -> tuple[Array, Array]:
    """Standard deviation (..., 3) m/s and length (..., 3) m of the gusts along the world's axes at `height` (...) m."""
    feet = jnp.clip(height / FOOT, LOW, HIGH)
    slope = 0.177 + 0.000823 * feet
    vertical = 0.1 * wind.speed * jnp.ones_like(feet)
    level, length = vertical / slope**0.4, feet / slope**1.2
    # Along and across the wind the model's deviations and lengths agree, so any horizontal axes will do.
    return jnp.stack([level, level, vertical], axis=-1), FOOT * jnp.stack([length, length, feet], axis=-1)


def gust_start(wind: Wind, key: Array, height: Array) -> Array:
    """A gust (..., 3) m/s, world frame, as found at a random time, `height` (...) m above ground."""
    deviation, _ = _turbulence(wind, height)
    return deviation * jax.random.normal(key, deviation.shape)


def gust(wind: Wind, state: Array, key: Array, height: Array, dt: float) -> Array:
    """The gust (..., 3) m/s, world frame, `dt` s after `state` (..., 3) m/s; `height` (...) m above ground.

    The air's velocity is `wind.velocity` plus this. Statistically exact for any `dt`, so once per control step is
    enough: gusts last seconds. One state per drone, or one per world of drones that fly close together.

    Source: MIL-F-8785C (1980), Dryden model below 1,000 feet: lengths L_w = h, L_u = L_v = h / (.177 + .000823 h)^1.2
    and deviations s_w = .1 W20, s_u = s_v = s_w / (.177 + .000823 h)^.4 with h in feet, for a field that the mean wind
    W20 carries past. Each component is white noise through a first-order filter of time constant L / W20, as the
    specification's difference equations have it; its spectra across the flight path are of second order.
    """
    deviation, length = _turbulence(wind, height)
    keep = jnp.exp(-dt * wind.speed / length)
    return keep * state + jnp.sqrt(1 - keep**2) * deviation * jax.random.normal(key, state.shape)


# Battery.


@dataclasses.dataclass(frozen=True)
class Battery:
    """A lithium-polymer cell and what four motors draw from it. The state is the charge used so far, (...) A s."""

    capacity: float = 250.0
    """mAh: the Crazyflie 2.1's stock battery."""
    resistance: float = 0.17
    """Ohm, cell and wires. Our choice: Chen and Rincon-Mora's 850 mAh cell has .171 once settled, and Bitcraze's thrust
    table (wires only, without a cell) drops .169 V per ampere; no measurement of the Crazyflie's own was found."""
    current: tuple[float, float, float] = (0.279, 5.815, 2.567)
    """A, A/N, A/N^2 of the total thrust: our fit, within .04 A, to Bitcraze's table of thrust and current (firmware
    documentation, "PWM to Thrust", 16 steps up to 57.9 g)."""


def battery_current(battery: Battery, thrust: Array) -> Array:
    """Current (...) A at a total `thrust` (...) N."""
    idle, linear, square = battery.current
    return idle + linear * thrust + square * thrust**2


def battery_voltage(battery: Battery, used: Array, thrust: Array) -> Array:
    """Voltage (...) V at the motors after `used` (...) A s, at a total `thrust` (...) N.

    Source of the open-circuit voltage: Chen and Rincon-Mora, "Accurate electrical battery model capable of predicting
    runtime and I-V performance", IEEE Trans. Energy Conversion 21 (2006), with their cell's coefficients.
    """
    charge = jnp.clip(1 - used / (3.6 * battery.capacity), 0.0, 1.0)
    full = 3.685 + charge * (0.2156 + charge * (-0.1178 + charge * 0.3201)) - 1.031 * jnp.exp(-35 * charge)
    return jnp.maximum(full - battery.resistance * battery_current(battery, thrust), 0.0)


def battery_update(battery: Battery, used: Array, thrust: Array, dt: float) -> Array:
    """Charge used (...) A s after another `dt` s at a total `thrust` (...) N."""
    return used + dt * battery_current(battery, thrust)


def battery_strength(battery: Battery, drone: Multirotor, used: Array, thrust: Array) -> Array:
    """Factor (...) on thrust, for `Multirotor.wrench`: one for a full battery at hover.

    A motor's speed at a given duty goes with its voltage, and thrust with the square of the speed. The firmware
    compensates for the battery until duty is full; this is a drone without that compensation.
    """
    fresh = battery_voltage(battery, jnp.zeros(()), jnp.asarray(drone.mass * GRAVITY))
    return (battery_voltage(battery, used, thrust) / fresh) ** 2
