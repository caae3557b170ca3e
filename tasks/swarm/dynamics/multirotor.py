"""Flight physics of any multirotor: any number of rotors, anywhere, pushing anywhere; thrust by allocation.

Rotor speeds are relative to full speed. Functions of `quadrotor` take a `Multirotor` as they take a `Quadrotor`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import lsq_linear

from embodied.errors import ModelError
from embodied.robot import NAME, Airframe
from tasks.swarm.dynamics.quadrotor import GRAVITY

Vector = tuple[float, float, float]
FULLEST = 0.9  # of a rotor's largest thrust: with less left at hover, there is nothing to turn with
MISSING = 0.01  # of the weight, and of the weight times the arm, that hover may lack
EVEN = 1e-4  # how much an even use of the rotors counts beside hovering at all
QUICK = 0.01  # s: quicker rotors answer at once, for physics steps of 2 to 4 ms do not resolve their lag


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
    """(n,) 1 counter-clockwise seen from where the rotor pushes, -1 clockwise."""
    max_thrust: np.ndarray
    """(n,) N."""
    thrust: tuple[np.ndarray, np.ndarray]
    """(n,) N each: thrust = thrust[0] s + thrust[1] s^2 at a speed s."""
    torque: tuple[np.ndarray, np.ndarray]
    """(n,) N m each: reaction torque, likewise."""
    speed_up: tuple[float, float] | None
    """1/s: s' = a (c - s) + b (c^2 - s^2) while the command c exceeds s; None: no lag."""
    speed_down: tuple[float, float] | None
    """The same while c is below s."""
    drag: Vector
    """N s/m along x, y, z of the body."""
    hover_thrust: np.ndarray
    """(n,) N per rotor at hover."""

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
            spin=np.array([rotor.spin for rotor in rotors], np.float32),
            max_thrust=full,
            thrust=(np.zeros_like(full), full),
            torque=(np.zeros_like(full), full * np.array([rotor.torque_per_thrust for rotor in rotors], np.float32)),
            speed_up=rate,
            speed_down=rate,
            drag=airframe.drag,
            hover_thrust=np.zeros_like(full),
        )
        return dataclasses.replace(drone, hover_thrust=_hover(drone, path))

    @property
    def count(self) -> int:
        """Number of rotors."""
        return len(self.max_thrust)

    @property
    def hover_fraction(self) -> np.ndarray:
        """(n,) thrust at hover as a fraction of the maximum."""
        return self.hover_thrust / self.max_thrust

    @property
    def arm(self) -> float:
        """m, mean distance of the rotors from the centre of mass."""
        return float(np.linalg.norm(self.position, axis=1).mean())

    @property
    def allocation(self) -> np.ndarray:
        """(6, n) force and torque on the body for each N of a rotor's thrust, body frame; reaction as at full speed."""
        linear, square = self.thrust
        full = (-linear + np.sqrt(linear**2 + 4 * square * self.max_thrust)) / (2 * square)
        ratio = (self.torque[0] * full + self.torque[1] * full**2) / self.max_thrust
        torque = np.cross(self.position, self.axis) - (ratio * self.spin)[:, None] * self.axis
        return np.concatenate([self.axis, torque], axis=1).T.astype(np.float32)

    @property
    def turning(self) -> np.ndarray:
        """(3,) rad/s^2 that the rotors reach about x, y and z of the body from hover, by more thrust on one side and
        less on the other."""
        room = np.minimum(self.hover_thrust, self.max_thrust - self.hover_thrust)
        return np.abs(self.allocation[3:]) @ room / np.array(self.inertia)

    def wrench(self, speed: Array, strength: Array | float = 1.0) -> tuple[Array, Array]:
        """Force (..., 3) N and torque (..., 3) N m in the body frame of rotors at `speed` (..., n).

        `strength` (...,) scales every thrust: a sagging battery, a worn propeller.
        """
        thrust = jnp.asarray(strength)[..., None] * (self.thrust[0] * speed + self.thrust[1] * speed**2)
        reaction = jnp.asarray((self.torque[0] * speed + self.torque[1] * speed**2) * self.spin)
        levers = np.cross(self.position, self.axis)
        return _sum(thrust, self.axis), _sum(thrust, levers) - _sum(reaction, self.axis)


def _sum(weights: Array, rows: np.ndarray) -> Array:
    """(..., 3) sum of rows (n, 3) times weights (..., n), in full precision on every device."""
    return jnp.sum(weights[..., None] * rows, axis=-2)


def _rows(vectors: Sequence[Vector]) -> np.ndarray:
    return np.array(vectors, np.float32).reshape(-1, 3)


def _hover(drone: Multirotor, path: Path) -> np.ndarray:
    """(n,) N per rotor that hold the drone level without turning it, as even a part of each rotor's range as can be.

    Bounded least squares over fractions of the largest thrusts: force in weights, torque in weights times arm.
    """
    weight = drone.mass * GRAVITY
    units = np.repeat([weight, weight * max(drone.arm, 1e-6)], 3)
    effect = drone.allocation.astype(float) * drone.max_thrust / units[:, None]
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
    return (fraction * drone.max_thrust).astype(np.float32)
