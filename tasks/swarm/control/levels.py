"""What a policy may command: the rotors themselves, or a setpoint for one stage of the firmware's cascade.

Every level takes four numbers in [-1, 1] per drone. `LevelSpec.setpoint` turns them into units once per control step;
`LevelSpec.control` runs the cascade below them once per physics step, holding that setpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum

import jax.numpy as jnp
import numpy as np
from jax import Array

from tasks.swarm.control import Motion
from tasks.swarm.control.pid import DEGREE, Pid, State, start
from tasks.swarm.quadrotor import Quadrotor

# What an action of 1 commands. Tilt and speed are the firmware's own limits; the rest is our choice.
RATE = 360 * DEGREE  # rad/s about body x and y
YAW_RATE = 180 * DEGREE  # rad/s
TILT = 20 * DEGREE  # rad of roll and of pitch (firmware `PID_VEL_ROLL_MAX`)
SPEED = 1.0  # m/s along each axis of the world (firmware `PID_POS_VEL_X_MAX`)
STEP = 1.0  # m along each axis of the world, from where the drone is; gym-pybullet-drones' longest step


class Level(StrEnum):
    """What the numbers command, from the rotors outward."""

    ROTORS = "rotors"
    RATES = "rates"
    ATTITUDE = "attitude"
    VELOCITY = "velocity"
    POSITION = "position"


Run = Callable[[Pid, State, Array, Motion, float], tuple[Array, State]]
"""Controller, its state, setpoint (..., k), motion, s since the last time -> thrusts (..., 4) N, next state."""


@dataclasses.dataclass(frozen=True)
class LevelSpec:
    """How one level is commanded and run."""

    entries: tuple[str, ...]
    """Names and units of a setpoint's entries. Thrust is relative: -1 idles, 0 hovers, +1 is full."""
    scale: tuple[float, ...]
    """What an action of 1 commands, in those units."""
    run: Run
    """The cascade from this stage on."""
    world: bool = False
    """Whether directions are those of the world, rather than the drone's."""
    relative: bool = False
    """Whether the first three entries count from the drone's position at the time of the command."""

    @property
    def size(self) -> int:
        """Numbers per drone."""
        return len(self.entries)

    def start(self, motion: Motion) -> State:
        """The controllers' state at the start of an episode."""
        return start(motion)

    def setpoint(self, action: Array, motion: Motion) -> Array:
        """The setpoint (..., k), in the units of `entries`, of an action (..., k) in [-1, 1]."""
        command = action * np.asarray(self.scale, np.float32)
        return command.at[..., :3].add(motion.pos) if self.relative else command

    def control(
        self, state: State, setpoint: Array, motion: Motion, drone: Quadrotor, dt: float
    ) -> tuple[Array, State]:
        """Thrusts (..., 4) N of the rotors for a held `setpoint` (..., k), and the state `dt` s after the last time."""
        return self.run(Pid.of(drone), state, setpoint, motion, dt)


def thrust_from_action(drone: Quadrotor, action: Array) -> Array:
    """Thrust (...) N per rotor: -1 idles, 0 hovers, +1 gives full thrust, piecewise linear."""
    hover = drone.hover_fraction
    return drone.max_thrust * (hover + jnp.where(action > 0, (1 - hover) * action, hover * action))


def _rotors(pid: Pid, state: State, setpoint: Array, motion: Motion, dt: float) -> tuple[Array, State]:
    del motion, dt
    return thrust_from_action(pid.drone, setpoint), state


def _rates(pid: Pid, state: State, setpoint: Array, motion: Motion, dt: float) -> tuple[Array, State]:
    return pid.rates(state, thrust_from_action(pid.drone, setpoint[..., 0]), setpoint[..., 1:], motion, dt)


def _attitude(pid: Pid, state: State, setpoint: Array, motion: Motion, dt: float) -> tuple[Array, State]:
    thrust, roll, pitch, yaw_rate = jnp.unstack(setpoint, axis=-1)
    return pid.attitude(state, thrust_from_action(pid.drone, thrust), roll, pitch, yaw_rate, motion, dt)


def _velocity(pid: Pid, state: State, setpoint: Array, motion: Motion, dt: float) -> tuple[Array, State]:
    return pid.velocity(state, setpoint[..., :3], setpoint[..., 3], motion, dt)


def _position(pid: Pid, state: State, setpoint: Array, motion: Motion, dt: float) -> tuple[Array, State]:
    return pid.position(state, setpoint[..., :3], setpoint[..., 3], motion, dt)


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
}
