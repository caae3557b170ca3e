"""Flight physics of a multirotor: any number of rotors, anywhere, pushing anywhere; one small function per effect.

Functions take any leading axes: one drone, the drones of a world. Rotor speeds are in `Multirotor.speed_unit`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import lsq_linear

from embodied.errors import ModelError
from embodied.math.rotations import quat_rotate, quat_rotate_inverse
from embodied.robot import NAME, Airframe
from embodied.robot.rotors import GRAVITY

Vector = tuple[float, float, float]
Each = Any  # one number for all rotors, or (n,) numbers
FULLEST = 0.9  # of a rotor's largest thrust: with less left at hover, there is nothing to turn with
MISSING = 0.01  # of the weight, and of the weight times the arm, that hover may lack
EVEN = 1e-4  # how much an even use of the rotors counts beside hovering at all
QUICK = 0.01  # s: quicker rotors answer at once, for physics steps of 2 to 4 ms do not resolve their lag

rotate = jnp.vectorize(quat_rotate, signature="(4),(3)->(3)")
rotate_inverse = jnp.vectorize(quat_rotate_inverse, signature="(4),(3)->(3)")


@dataclasses.dataclass(frozen=True, eq=False)
class Multirotor:
    """Constants of one multirotor with n rotors."""

    mass: float
    """kg."""
    inertia: Vector
    """kg m^2 about the centre of mass, x, y, z of the body."""
    position: np.ndarray
    """(n, 3) m from the centre of mass, body frame."""
    axis: np.ndarray
    """(n, 3) unit vectors along which the rotors push, body frame."""
    spin: np.ndarray
    """(n,) 1 counter-clockwise seen from where the rotor pushes, -1 clockwise; the body is driven the other way."""
    thrust: tuple[Each, Each]
    """N each: a rotor's thrust = thrust[0] s + thrust[1] s^2 at a speed s."""
    torque: tuple[Each, Each]
    """N m each: its reaction torque, likewise."""
    max_thrust: Each
    """N per rotor."""
    speed_up: tuple[float, float] | None
    """1/s and 1/s per unit of speed: s' = a (c - s) + b (c^2 - s^2) while the command c exceeds s; None: no lag."""
    speed_down: tuple[float, float] | None
    """The same while c is below s."""
    drag: Vector
    """N s/m along x, y, z of the body."""
    hover_share: Each
    """Thrust per rotor at hover, in weights."""
    crazyflie: bool = False
    """Whether it is a Crazyflie: its rotors are the firmware's, with speeds in rpm, else relative to full speed."""

    @classmethod
    def of(cls, airframe: Airframe, path: Path) -> Multirotor:
        """The flight physics of an airframe: thrust and torque grow with the square of the speed.

        Raises:
            ModelError: its rotors cannot hold it level, or cannot turn it about x or y; names the file and what to add.
        """
        rotors = airframe.rotors
        full = np.array([rotor.max_thrust for rotor in rotors], np.float32)
        lag = rotors[0].lag
        rate = None if lag < QUICK else (1 / lag, 0.0)
        drone = cls(
            mass=airframe.mass,
            inertia=airframe.inertia,
            position=_rows([rotor.position for rotor in rotors]),
            axis=_rows([rotor.axis for rotor in rotors]),
            spin=np.array([rotor.spin for rotor in rotors], float),
            thrust=(0.0, full),
            torque=(0.0, full * np.array([rotor.torque_per_thrust for rotor in rotors], np.float32)),
            max_thrust=full,
            speed_up=rate,
            speed_down=rate,
            drag=airframe.drag,
            hover_share=np.zeros_like(full),
        )
        return dataclasses.replace(drone, hover_share=_hover(drone, path))

    @property
    def count(self) -> int:
        """Number of rotors."""
        return len(self.spin)

    @property
    def speed_unit(self) -> str:
        """Unit of the rotors' speeds."""
        return "rpm" if self.crazyflie else "of full speed"

    @property
    def hover_thrust(self) -> Each:
        """N per rotor that hold the drone level in the air."""
        return self.mass * GRAVITY * self.hover_share

    @property
    def hover_fraction(self) -> Each:
        """Thrust at hover as a fraction of the maximum."""
        return self.hover_thrust / self.max_thrust

    @property
    def thrust_to_weight(self) -> float:
        """Largest thrust of all rotors over the weight."""
        return float(np.broadcast_to(self.max_thrust, self.count).sum()) / (self.mass * GRAVITY)

    @property
    def arm(self) -> float:
        """m, mean distance of the rotors from the centre of mass."""
        return float(np.linalg.norm(self.position, axis=1).mean())

    @property
    def allocation(self) -> np.ndarray:
        """(6, n) force and torque on the body for each N of a rotor's thrust, body frame; reaction as at full speed."""
        full = speed_for_thrust(self, self.max_thrust, np)
        ratio = (self.torque[0] * full + self.torque[1] * full**2) / self.max_thrust
        torque = np.cross(self.position, self.axis) - (ratio * self.spin)[:, None] * self.axis
        return np.concatenate([self.axis, torque], axis=1).T

    @property
    def turning(self) -> np.ndarray:
        """(3,) rad/s^2 that the rotors reach about x, y and z of the body from hover, by more thrust on one side and
        less on the other."""
        room = np.minimum(self.hover_thrust, self.max_thrust - self.hover_thrust) * np.ones(self.count)
        return np.abs(self.allocation[3:]) @ room / np.array(self.inertia)

    def wrench(self, speed: Array, strength: Array | float = 1.0) -> tuple[Array, Array]:
        """Force (..., 3) N and torque (..., 3) N m in the body frame of rotors at `speed` (..., n).

        `strength` (...,) scales every thrust: a sagging battery, a worn propeller.
        """
        thrust = jnp.asarray(strength)[..., None] * (self.thrust[0] * speed + self.thrust[1] * speed**2)
        reaction = self.torque[0] * speed + self.torque[1] * speed**2
        thrusts, reactions = jnp.unstack(thrust, axis=-1), jnp.unstack(reaction, axis=-1)
        levers = np.cross(self.position, self.axis)
        longest = np.abs(levers).max()  # taken out of the sum, which is then exact where all levers are equal
        turns = zip((levers / longest).T, (-self.spin[:, None] * self.axis).T, strict=True)
        torque = [(_sum(push, thrusts, float(longest)), _sum(turn, reactions)) for push, turn in turns]
        if (self.axis == self.axis[0]).all():
            total: Any = _sum(np.ones(self.count), thrusts)
            return total[..., None] * self.axis[0], _stacked(torque, thrusts[0])
        return _stacked([(_sum(axis, thrusts),) for axis in self.axis.T], thrusts[0]), _stacked(torque, thrusts[0])


def _sum(weights: np.ndarray, numbers: Sequence[Array], factor: float = 1.0) -> Array | None:
    """(...) sum of weights (n,) times n numbers (...), times a factor; None where all weights are zero.

    Weights of 1 and -1 only add and subtract, so that equal rotors are rounded as in a formula written out.
    """
    total = None
    for weight, number in zip(weights.tolist(), numbers, strict=True):
        term = number if abs(weight) == 1 else abs(weight) * number
        if weight > 0:
            total = term if total is None else total + term
        elif weight < 0:
            total = -term if total is None else total - term
    return total if total is None or factor == 1 else factor * total


def _stacked(components: Sequence[tuple[Array | None, ...]], like: Array) -> Array:
    """(..., k) sums of what each of k components has; zeros as `like` (...) where it has nothing."""
    sums = [[part for part in parts if part is not None] or [jnp.zeros_like(like)] for parts in components]
    return jnp.stack([sum(parts[1:], start=parts[0]) for parts in sums], axis=-1)


def speed_for_thrust(drone: Multirotor, thrust: Any, xp: Any = jnp) -> Any:
    """Rotor speed that gives `thrust` in N, (...) or (..., n): the positive root of its curve; by JAX or numpy."""
    linear, square = drone.thrust
    return (-linear + xp.sqrt(linear**2 + 4 * square * xp.maximum(thrust, 0.0))) / (2 * square)


def rotor_lag(drone: Multirotor, speed: Array, command: Array, dt: float | Array) -> Array:
    """Rotor speeds after `dt` s toward `command`, any shape: first order, speeding up unlike slowing down."""
    if drone.speed_up is None or drone.speed_down is None:
        return command
    (up_a, up_b), (down_a, down_b) = drone.speed_up, drone.speed_down
    error, square = command - speed, command**2 - speed**2
    rate = jnp.where(error > 0, up_a * error + up_b * square, down_a * error + down_b * square)
    return speed + dt * rate


def body_drag(drone: Multirotor, quat: Array, linvel_w: Array) -> Array:
    """Air drag (..., 3) N in the body frame at `linvel_w` (..., 3) m/s: F = -D R' v."""
    return -jnp.asarray(drone.drag) * rotate_inverse(quat, linvel_w)


def world_wrench(quat: Array, force_b: Array, torque_b: Array) -> Array:
    """Force and torque (..., 6) in the world frame from those in the body frame."""
    force, torque = jax.lax.optimization_barrier((rotate(quat, force_b), rotate(quat, torque_b)))
    return jnp.concatenate([force, torque], axis=-1)


def _rows(vectors: Sequence[Vector]) -> np.ndarray:
    return np.array(vectors, float).reshape(-1, 3)


def _hover(drone: Multirotor, path: Path) -> np.ndarray:
    """(n,) weights that the rotors bear at hover without turning, as even a part of each one's range as can be.

    Bounded least squares over fractions of the largest thrusts: force in weights, torque in weights times arm.
    """
    weight = drone.mass * GRAVITY
    units = np.repeat([weight, weight * max(drone.arm, 1e-6)], 3)
    effect = drone.allocation * drone.max_thrust / units[:, None]
    wanted = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    matrix = np.concatenate([effect, EVEN * np.eye(drone.count)])
    found = lsq_linear(
        matrix, np.concatenate([wanted, np.zeros(drone.count)]), bounds=(0.0, 1.0), method="bvls", tol=1e-12
    )
    fraction = found.x
    lacking = np.abs(effect @ fraction - wanted)
    if effect[2].sum() < 1 / FULLEST:
        raise ModelError(
            f"{path}: its rotors push with {effect[2].sum() * weight:.3g} N upwards at most and it weighs "
            f"{weight:.3g} N; expected a tenth more; say thrust or thrust_to_weight in {NAME}"
        )
    if lacking.max() > MISSING or fraction.max() > FULLEST:
        which = ("pushing it forward", "pushing it sideways", "sinking", "rolling", "pitching", "yawing")
        worst = which[int(lacking.argmax())] if lacking.max() > MISSING else "giving all that one of them can"
        raise ModelError(
            f"{path}: its {drone.count} rotors cannot hold it level in the air without {worst}; say rotors, "
            f"rotor_axes, spin or thrust in {NAME}"
        )
    if np.linalg.matrix_rank(effect[[2, 3, 4]], tol=1e-3) < 3:
        raise ModelError(f"{path}: its {drone.count} rotors cannot roll and pitch it; say rotors in {NAME}")
    return (fraction * drone.max_thrust / weight).astype(np.float32)
