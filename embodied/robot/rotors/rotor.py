"""Rotors and the airframe that carries them, with the rules for what neither the file nor its description has."""

from __future__ import annotations

import dataclasses

Vector = tuple[float, float, float]

GRAVITY = 9.81  # m/s^2
UPRIGHT = 0.9999  # cosine of a rotor's tilt

# Assumptions where nothing is given. Each is reported by a warning with the key that settles it.
THRUST_TO_WEIGHT = 2.0  # -, of a multirotor with a camera; the Crazyflie 2.1+ has 1.54, RotorS' Firefly 2.4
TORQUE_OF_ARM = 0.08  # -, torque per thrust over a rotor's distance from the middle (RotorS: Iris .064, Firefly .074)
LAG = 0.05  # s, between RotorS' Firefly (.025) and the Crazyflie 2.1+ (.11 at hover)
DRAG_OF_MASS = 0.4  # 1/s, drag over mass: Faessler et al., RA-L 2018, have .54 and .39; the Crazyflie 2.1+ has .42


@dataclasses.dataclass(frozen=True)
class Rotor:
    """One rotor of a multirotor."""

    name: str
    """Body or site of the model file; empty where the rotor was given by its place."""
    position: Vector
    """m from the centre of mass, along the trunk's axes."""
    axis: Vector
    """Unit vector along which it pushes, trunk's axes."""
    spin: int
    """1 turns counter-clockwise seen from where it pushes, -1 clockwise; the body is turned the other way."""
    max_thrust: float
    """N."""
    torque_per_thrust: float
    """m, reaction torque in N m for each N of thrust."""
    lag: float
    """s, time constant with which its speed follows a command."""


@dataclasses.dataclass(frozen=True)
class Airframe:
    """A multirotor as one rigid body, whatever else moves on it locked in the home pose."""

    mass: float
    """kg."""
    centre: Vector
    """m, centre of mass in the trunk's frame."""
    inertia: Vector
    """kg m^2 about the centre of mass, along the trunk's axes; products of inertia are left out."""
    rotors: tuple[Rotor, ...]
    drag: Vector
    """N s/m of air drag along the trunk's axes."""

    @property
    def places(self) -> tuple[str | Vector, ...]:
        """Names of the rotors, or where all are not named, their places in m in the trunk's frame."""
        if all(rotor.name for rotor in self.rotors):
            return tuple(rotor.name for rotor in self.rotors)
        cx, cy, cz = self.centre
        return tuple((x + cx, y + cy, z + cz) for x, y, z in (rotor.position for rotor in self.rotors))

    @property
    def is_tilted(self) -> bool:
        """Whether a rotor pushes elsewhere than along z."""
        return any(rotor.axis[2] < UPRIGHT for rotor in self.rotors)

    @property
    def thrust_to_weight(self) -> float:
        """Largest thrust of all rotors over the weight."""
        return sum(rotor.max_thrust for rotor in self.rotors) / (self.mass * GRAVITY)
