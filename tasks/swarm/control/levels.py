"""Command levels of a policy: the rotors themselves, or a setpoint for one stage of the firmware's cascade.

Every level but the last, and the rotors of other drones than quadrotors, takes four numbers in [-1, 1] per drone. A
user's multirotor flies under the Crazyflie's controllers, whose thrusts `allocation` distributes to its rotors.
`LevelSpec.setpoint` converts the numbers to units once per control step; `LevelSpec.control` runs the controllers below
them once per physics step, holding that setpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.errors import EmbodiedError, listing
from embodied.robot.rotors import GRAVITY
from tasks.swarm.control import Setpoint, mellinger, pid
from tasks.swarm.control.allocation import Allocation
from tasks.swarm.control.mellinger import Mellinger
from tasks.swarm.control.pid import DEGREE, Pid
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.dynamics.multirotor import Multirotor

# Setpoints for an action of 1. Tilt and speed are the firmware's own limits; the rest is our choice.
RATE = 360 * DEGREE  # rad/s about body x and y
YAW_RATE = 180 * DEGREE  # rad/s
TILT = 20 * DEGREE  # rad of roll and of pitch (firmware `PID_VEL_ROLL_MAX`)
SPEED = 1.0  # m/s along each axis of the world (firmware `PID_POS_VEL_X_MAX`)
FASTEST = 3.0  # m/s along each axis, largest of a trajectory's setpoint
STEP = 1.0  # m along each axis of the world, from where the drone is; gym-pybullet-drones' longest step


class Level(StrEnum):
    """Stage that actions command, from the rotors outward."""

    ROTORS = "rotors"
    RATES = "rates"
    ATTITUDE = "attitude"
    VELOCITY = "velocity"
    POSITION = "position"
    TRAJECTORY = "trajectory"
    """Position, velocity and acceleration, ten numbers, for the Mellinger controller instead of the cascade."""


Run = Callable[[Multirotor, Any, Array, Drones, float], tuple[Array, Any]]
"""Drone, controller's state, setpoint (..., k), motion, s since the last time -> thrusts (..., 4) N, next state."""


def require_level(level: Level, known: Collection[Level]) -> None:
    """Check that a script can act on a level.

    Raises:
        EmbodiedError: it acts on others.
    """
    if level not in known:
        plural = "s" * (len(known) > 1)
        raise EmbodiedError(f"the expert acts on level{plural} {listing(known)}, not on {level}: --config.level")


@dataclasses.dataclass(frozen=True)
class LevelSpec:
    """Setpoint and controllers of one level."""

    entries: tuple[str, ...]
    """Names and units of a setpoint's entries. Thrust is relative: -1 idles, 0 hovers, +1 is full."""
    scale: tuple[float, ...]
    """Setpoint for an action of 1, in those units."""
    run: Run
    """The controllers from this stage on."""
    begin: Callable[[Drones], Any] = pid.start
    """Their state at the start of an episode."""
    world: bool = False
    """Whether directions are those of the world, rather than the drone's."""
    relative: bool = False
    """Whether the first three entries count from the drone's position at the time of the command."""

    @property
    def size(self) -> int:
        return len(self.entries)

    def start(self, motion: Drones) -> Any:
        """The controllers' state at the start of an episode."""
        return self.begin(motion)

    def setpoint(self, action: Array, motion: Drones) -> Array:
        """The setpoint (..., k), in the units of `entries`, of an action (..., k) in [-1, 1]."""
        command = action * np.asarray(self.scale, np.float32)
        return command.at[..., :3].add(motion.pos) if self.relative else command

    def control(self, state: Any, setpoint: Array, motion: Drones, drone: Multirotor, dt: float) -> tuple[Array, Any]:
        """Thrusts (..., rotors) N for a held `setpoint` (..., k), and the state `dt` s after the last time."""
        if drone.crazyflie:
            return self.run(drone, state, setpoint, motion, dt)
        if self.run is _rotors:
            return thrust_from_action(drone, setpoint), state
        thrusts, state = self.run(REFERENCE, state, setpoint, motion, dt)
        return Allocation.of(drone, REFERENCE).thrusts(thrusts), state

    def of(self, drone: Multirotor) -> LevelSpec:
        """The level for a drone with any number of rotors."""
        if self.run is not _rotors or drone.count == self.size:
            return self
        return dataclasses.replace(self, entries=(THRUST,) * drone.count, scale=(1.0,) * drone.count)


def thrust_from_action(drone: Multirotor, action: Array) -> Array:
    """Thrust (...) N per rotor: -1 idles, 0 hovers, +1 gives full thrust, piecewise linear."""
    hover = drone.hover_fraction
    return drone.max_thrust * (hover + jnp.where(action > 0, (1 - hover) * action, hover * action))


def _rotors(drone: Multirotor, state: Any, setpoint: Array, motion: Drones, dt: float) -> tuple[Array, Any]:
    del motion, dt
    return thrust_from_action(drone, setpoint), state


def _rates(drone: Multirotor, state: Any, setpoint: Array, motion: Drones, dt: float) -> tuple[Array, Any]:
    thrust = thrust_from_action(drone, setpoint[..., 0])
    return Pid.of(drone).rates(state, thrust, setpoint[..., 1:], motion, dt)


def _attitude(drone: Multirotor, state: Any, setpoint: Array, motion: Drones, dt: float) -> tuple[Array, Any]:
    thrust, roll, pitch, yaw_rate = jnp.unstack(setpoint, axis=-1)
    return Pid.of(drone).attitude(state, thrust_from_action(drone, thrust), roll, pitch, yaw_rate, motion, dt)


def _velocity(drone: Multirotor, state: Any, setpoint: Array, motion: Drones, dt: float) -> tuple[Array, Any]:
    return Pid.of(drone).velocity(state, setpoint[..., :3], setpoint[..., 3], motion, dt)


def _position(drone: Multirotor, state: Any, setpoint: Array, motion: Drones, dt: float) -> tuple[Array, Any]:
    return Pid.of(drone).position(state, setpoint[..., :3], setpoint[..., 3], motion, dt)


def _trajectory(drone: Multirotor, state: Any, setpoint: Array, motion: Drones, dt: float) -> tuple[Array, Any]:
    position, velocity, acceleration, yaw_rate = jnp.split(setpoint, [3, 6, 9], axis=-1)
    gains = mellinger.FIRMWARE if drone.speed_up else mellinger.DSL  # without rotor lag the firmware's never settle
    target = Setpoint(position, velocity, acceleration, yaw_rate[..., 0])
    return Mellinger(drone, gains).update(state, target, motion, dt)


REFERENCE = CRAZYFLIES[Preset.P250]  # the Crazyflie whose controllers fly a user's multirotor
THRUST, YAW = "thrust, relative", "yaw rate, rad/s"
LEVELS: dict[Level, LevelSpec] = {
    Level.ROTORS: LevelSpec((THRUST,) * 4, (1.0,) * 4, _rotors),
    Level.RATES: LevelSpec((THRUST, "roll rate, rad/s", "pitch rate, rad/s", YAW), (1.0, RATE, RATE, YAW_RATE), _rates),
    Level.ATTITUDE: LevelSpec((THRUST, "roll, rad", "pitch, rad", YAW), (1.0, TILT, TILT, YAW_RATE), _attitude),
    Level.VELOCITY: LevelSpec(
        ("x, m/s", "y, m/s", "z, m/s", YAW), (SPEED, SPEED, SPEED, YAW_RATE), _velocity, world=True
    ),
    Level.POSITION: LevelSpec(
        ("x, m", "y, m", "z, m", YAW), (STEP, STEP, STEP, YAW_RATE), _position, world=True, relative=True
    ),
    Level.TRAJECTORY: LevelSpec(
        ("x, m", "y, m", "z, m", "x, m/s", "y, m/s", "z, m/s", "x, m/s^2", "y, m/s^2", "z, m/s^2", YAW),
        (STEP,) * 3 + (FASTEST,) * 3 + (GRAVITY,) * 3 + (YAW_RATE,),
        _trajectory,
        mellinger.start,
        world=True,
        relative=True,
    ),
}
