"""The Crazyflie's flight physics: one small function per effect, with constants, units and sources.

Rotors are numbered as on the Crazyflie, 1 front right, 2 back right, 3 back left, 4 front left; x points forward,
y left, z up. Rotor speeds are in rpm, as every published set gives its polynomials.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.math.rotations import quat_rotate, quat_rotate_inverse

# The same for any leading axes: a drone, the drones of a world.
rotate = jnp.vectorize(quat_rotate, signature="(4),(3)->(3)")
rotate_inverse = jnp.vectorize(quat_rotate_inverse, signature="(4),(3)->(3)")


class Drone(Protocol):
    """Constants of a drone that rotors carry: a `Quadrotor`, whose rotors are alike, or a `multirotor.Multirotor`."""

    @property
    def mass(self) -> float:
        """kg."""
        ...

    @property
    def inertia(self) -> tuple[float, float, float]:
        """kg m^2 about x, y, z of the body."""
        ...

    @property
    def thrust(self) -> tuple[Any, Any]:
        """Linear and square coefficient of the thrust of each rotor over its speed."""
        ...

    @property
    def max_thrust(self) -> Any:
        """N per rotor."""
        ...

    @property
    def speed_up(self) -> tuple[float, float] | None:
        """Coefficients of a rotor's lag while it speeds up; None: no lag."""
        ...

    @property
    def speed_down(self) -> tuple[float, float] | None:
        """The same while it slows down."""
        ...

    @property
    def drag(self) -> tuple[float, float, float]:
        """N s/m, body drag along x, y, z of the body."""
        ...

    @property
    def count(self) -> int:
        """Number of rotors."""
        ...

    @property
    def hover_thrust(self) -> Any:
        """N per rotor that hold the drone level in the air."""
        ...

    @property
    def hover_fraction(self) -> Any:
        """The same as a fraction of the largest thrust."""
        ...

    def wrench(self, speed: Array, strength: Array | float = 1.0) -> tuple[Array, Array]:
        """Force (..., 3) N and torque (..., 3) N m in the body frame of rotors at `speed` (..., count)."""
        ...


# Sources of the sets below, tabulated in crazyflow 0.4.0 (its `first_principles` parameters) and
# gym-pybullet-drones 2.1 (cf2x). The two disagree; the identified sets were measured on the drones named.


@dataclasses.dataclass(frozen=True)
class Quadrotor:
    """Constants of one quadrotor."""

    mass: float
    """kg."""
    inertia: tuple[float, float, float]
    """kg m^2, principal, about the centre of mass."""
    lever: float
    """m, distance of each rotor from the centre of mass along x and along y."""
    thrust: tuple[float, float]
    """(N/rpm, N/rpm^2): thrust = thrust[0] n + thrust[1] n^2 per rotor."""
    torque: tuple[float, float]
    """(N m/rpm, N m/rpm^2): reaction torque about the rotor axis."""
    max_thrust: float
    """N per rotor."""
    speed_up: tuple[float, float] | None
    """(1/s, 1/(s rpm)): n' = a (c - n) + b (c^2 - n^2) while the command c exceeds n; None: no lag."""
    speed_down: tuple[float, float] | None
    """(1/s, 1/(s rpm)): the same while c is below n."""
    drag: tuple[float, float, float]
    """N s/m, body drag along x, y, z of the body."""

    @property
    def count(self) -> int:
        """Four."""
        return 4

    @property
    def hover_thrust(self) -> float:
        """N per rotor at hover."""
        return self.mass * GRAVITY / 4

    @property
    def hover_fraction(self) -> float:
        """Thrust at hover as a fraction of the maximum."""
        return self.mass * GRAVITY / (4 * self.max_thrust)

    def wrench(self, speed: Array, strength: Array | float = 1.0) -> tuple[Array, Array]:
        """Force (..., 3) N and torque (..., 3) N m in the body frame, see `rotor_wrench`."""
        thrust, torque = rotor_wrench(self, speed, strength)
        return thrust[..., None] * UP, torque


GRAVITY = 9.81  # m/s^2, MuJoCo's default
UP = np.array([0.0, 0.0, 1.0], np.float32)


class Preset(StrEnum):
    """Published parameter sets."""

    P250 = "p250"
    L250 = "l250"
    T350 = "t350"
    B500 = "b500"
    GPD = "gpd"


QUADROTORS: dict[Preset, Quadrotor] = {
    # Crazyflie 2.1+, stock propellers, 250 mAh battery (crazyflow cf21B/2.1+ "P250").
    Preset.P250: Quadrotor(
        mass=0.0318, inertia=(16.8e-6, 16.8e-6, 29.8e-6), lever=0.03253,
        thrust=(-3.620e-7, 1.6061e-10), torque=(-2.2665e-9, 1.11495e-12), max_thrust=0.12,
        speed_up=(5.173, 8.148e-5), speed_down=(0.0, 2.095e-4), drag=(0.01351, 0.01351, 0.01677),
    ),
    # Crazyflie 2.1 with the legacy propellers, 250 mAh battery.
    Preset.L250: Quadrotor(
        mass=0.0328, inertia=(16.8e-6, 16.8e-6, 29.8e-6), lever=0.03253,
        thrust=(-5.382e-7, 2.4583e-10), torque=(1.4105e-9, 1.4593e-12), max_thrust=0.12,
        speed_up=(7.356, 0.0), speed_down=(0.0, 2.444e-4), drag=(0.01495, 0.01495, 0.01390),
    ),
    # Crazyflie 2.1 with the thrust upgrade kit, 350 mAh battery.
    Preset.T350: Quadrotor(
        mass=0.0379, inertia=(15.7e-6, 17.1e-6, 30.0e-6), lever=0.03253,
        thrust=(-7.167e-7, 2.9401e-10), torque=(5.816e-10, 1.3318e-12), max_thrust=0.18,
        speed_up=(11.375, 0.0), speed_down=(0.0, 3.787e-4), drag=(0.01520, 0.01520, 0.02205),
    ),
    # Crazyflie 2.1 Brushless.
    Preset.B500: Quadrotor(
        mass=0.0434, inertia=(25e-6, 28e-6, 49e-6), lever=0.035355,
        thrust=(-3.133e-7, 4.4074e-10), torque=(1.6589e-9, 2.4693e-12), max_thrust=0.20,
        speed_up=(13.996, 1.109e-4), speed_down=(5.933, 3.195e-4), drag=(0.02164, 0.02164, 0.02477),
    ),
    # gym-pybullet-drones cf2x, for comparison with its results: its thrust-to-weight ratio (2.25) is half as much
    # again as the identified one (1.54), its yaw authority 3.6 times. Arm .0397 m, so lever .0397/sqrt(2); maximum
    # thrust from its 2.25 ratio; it has neither rotor lag nor, in its default mode, drag.
    Preset.GPD: Quadrotor(
        mass=0.027, inertia=(14e-6, 14e-6, 21.7e-6), lever=0.02807,
        thrust=(0.0, 3.16e-10), torque=(0.0, 7.94e-12), max_thrust=0.149,
        speed_up=None, speed_down=None, drag=(0.0, 0.0, 0.0),
    ),
}  # fmt: skip


def speed_for_thrust(drone: Drone, thrust: Array) -> Array:
    """Rotor speed in rpm that gives `thrust` in N, (...) or (..., rotors): the positive root of the thrust curve."""
    linear, square = drone.thrust
    return (-linear + jnp.sqrt(linear**2 + 4 * square * jnp.maximum(thrust, 0.0))) / (2 * square)


def rotor_lag(drone: Drone, speed: Array, command: Array, dt: float | Array) -> Array:
    """Rotor speeds in rpm after `dt` s toward `command`, any shape: first order, speeding up unlike slowing down."""
    if drone.speed_up is None or drone.speed_down is None:
        return command
    (up_a, up_b), (down_a, down_b) = drone.speed_up, drone.speed_down
    error, square = command - speed, command**2 - speed**2
    rate = jnp.where(error > 0, up_a * error + up_b * square, down_a * error + down_b * square)
    return speed + dt * rate


def rotor_wrench(drone: Quadrotor, speed: Array, strength: Array | float = 1.0) -> tuple[Array, Array]:
    """Thrust (...,) N along body z and torque (..., 3) N m in the body frame of four rotors at `speed` (..., 4) rpm.

    `strength` (...,) scales every thrust: a sagging battery, a worn propeller.
    """
    thrust = jnp.asarray(strength)[..., None] * (drone.thrust[0] * speed + drone.thrust[1] * speed**2)
    reaction = drone.torque[0] * speed + drone.torque[1] * speed**2
    f1, f2, f3, f4 = jnp.unstack(thrust, axis=-1)
    q1, q2, q3, q4 = jnp.unstack(reaction, axis=-1)
    torque = jnp.stack(
        [
            drone.lever * (-f1 - f2 + f3 + f4),
            drone.lever * (-f1 + f2 + f3 - f4),
            # Rotors 1 and 3 turn counter-clockwise seen from above; the body is driven the other way.
            -q1 + q2 - q3 + q4,
        ],
        axis=-1,
    )
    return f1 + f2 + f3 + f4, torque


def body_drag(drone: Drone, quat: Array, linvel_w: Array) -> Array:
    """Air drag (..., 3) N in the body frame at `linvel_w` (..., 3) m/s: F = -D R' v."""
    return -jnp.asarray(drone.drag) * rotate_inverse(quat, linvel_w)


def world_wrench(quat: Array, force_b: Array, torque_b: Array) -> Array:
    """Force and torque (..., 6) in the world frame from those in the body frame."""
    force, torque = jax.lax.optimization_barrier((rotate(quat, force_b), rotate(quat, torque_b)))
    return jnp.concatenate([force, torque], axis=-1)
