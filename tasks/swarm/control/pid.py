"""The Crazyflie's default controller: position -> velocity -> attitude -> body rates -> thrust of each rotor.

Source: crazyflie-firmware, `controller_pid.c`, `position_controller_pid.c`, `attitude_pid_controller.c` and
`platform_defaults_cf2.h`. Three things differ. The firmware runs its inner loops at 500 Hz and the outer ones at 100
Hz; here all run at every physics step, because holding the outer loops' output would need a counter and save nothing.
The thrust to start from is the drone's weight instead of 36000/65535 of full thrust, so that no drone sinks until the
integral has found the weight. And the derivative of yaw is the gyro's reading.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.robot.rotors import GRAVITY
from tasks.swarm.control import FULL, mix, roll_pitch_yaw, saturate, wrap
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.dynamics.multirotor import Multirotor

DEGREE = math.pi / 180
Triple = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Gains:
    """Proportional (p), integral (i) and derivative (d) gains about x, y, z in the firmware's own units."""

    position_p: Triple = (2.0, 2.0, 2.0)
    """1/s: m/s per m."""
    position_i: Triple = (0.0, 0.0, 0.5)
    """1/s^2."""
    velocity_p: Triple = (25.0, 25.0, 25.0)
    """degrees per m/s along x and y; along z 1,000 actuator units per m/s."""
    velocity_i: Triple = (1.0, 1.0, 15.0)
    """The same per second. Its integral's limit in the firmware, 5,000 m, is never reached."""
    attitude_p: Triple = (6.0, 6.0, 6.0)
    """1/s: degrees/s per degree."""
    attitude_i: Triple = (3.0, 3.0, 1.0)
    """1/s^2."""
    attitude_d: Triple = (0.0, 0.0, 0.35)
    """-: degrees/s per degree/s."""
    attitude_limit: Triple = (20.0, 20.0, 360.0)
    """degrees s, of the integral."""
    rate_p: Triple = (250.0, 250.0, 120.0)
    """Actuator units per degree/s."""
    rate_i: Triple = (500.0, 500.0, 16.7)
    """Actuator units per degree."""
    rate_d: Triple = (2.5, 2.5, 0.0)
    """Actuator units per degree/s^2, of the measured rate, unfiltered as by default."""
    rate_limit: Triple = (33.3, 33.3, 166.7)
    """degrees, of the integral."""
    tilt: float = 20.0
    """degrees, largest roll and pitch to command."""
    speed: float = 1.0
    """m/s along each axis to command, with a tenth to spare."""
    least_thrust: float = 20000.0
    """Actuator units."""


TUNED: dict[Multirotor, Gains] = {
    # `platform_defaults_cf21bl.h`; all others fly with those of `platform_defaults_cf2.h`.
    CRAZYFLIES[Preset.B500]: Gains(rate_p=(200.0, 200.0, 120.0), rate_i=(400.0, 400.0, 16.7)),
    # gym-pybullet-drones' rotors answer at once. Then the derivative of the rate feeds itself back with a gain of
    # 1.3 per step, which no time step makes stable; without lag there is nothing for it to damp either. Our choice.
    CRAZYFLIES[Preset.GPD]: Gains(rate_d=(0.0, 0.0, 0.0)),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """State of the controller."""

    position: Array
    """(..., 3) m s, integral of the position error, axes of the heading."""
    velocity: Array
    """(..., 3) m, integral of the velocity error, axes of the heading."""
    attitude: Array
    """(..., 3) rad s, integral of the errors of roll, pitch and yaw."""
    rate: Array
    """(..., 3) rad, integral of the body rates' errors."""
    angvel: Array
    """(..., 3) rad/s, the last measured body rates."""
    heading: Array
    """(...) rad to hold."""


def start(motion: Drones) -> State:
    """A controller that wakes up in flight: nothing integrated, its heading the one to hold."""
    zero = jnp.zeros_like(motion.angvel)
    return State(zero, zero, zero, zero, motion.angvel, roll_pitch_yaw(motion.quat)[2])


def _vector(values: Triple, factor: float | Triple = 1.0) -> np.ndarray:
    return np.multiply(values, factor).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Pid:
    """The cascade for one drone. Every stage runs those below it, and returns thrusts (..., 4) N and the next state."""

    drone: Multirotor
    """Mass and largest thrust turn the firmware's units into newtons."""
    gains: Gains = dataclasses.field(default_factory=Gains)
    """The firmware's numbers."""

    @classmethod
    def of(cls, drone: Multirotor) -> Pid:
        """The cascade with the gains that the firmware has for `drone`."""
        return cls(drone, TUNED.get(drone, Gains()))

    @property
    def unit(self) -> float:
        """N of one rotor per actuator unit."""
        return self.drone.max_thrust / FULL

    def position(self, state: State, target: Array, yaw_rate: Array, motion: Drones, dt: float) -> tuple[Array, State]:
        """Fly to `target` (..., 3) m, world frame."""
        error = to_heading(motion.quat, target - motion.pos)
        integral = state.position + dt * error
        velocity = _vector(self.gains.position_p) * error + _vector(self.gains.position_i) * integral
        velocity = jnp.clip(velocity, -1.1 * self.gains.speed, 1.1 * self.gains.speed)
        return self._velocity(dataclasses.replace(state, position=integral), velocity, yaw_rate, motion, dt)

    def velocity(self, state: State, target: Array, yaw_rate: Array, motion: Drones, dt: float) -> tuple[Array, State]:
        """Fly at `target` (..., 3) m/s, world frame."""
        return self._velocity(state, to_heading(motion.quat, target), yaw_rate, motion, dt)

    def _velocity(self, state: State, target: Array, yaw_rate: Array, motion: Drones, dt: float) -> tuple[Array, State]:
        """The same along the axes of the heading."""
        units = (DEGREE, DEGREE, 1000 * self.unit)
        error = target - to_heading(motion.quat, motion.vel)
        integral = state.velocity + dt * error
        output = _vector(self.gains.velocity_p, units) * error + _vector(self.gains.velocity_i, units) * integral
        limit = _vector((self.gains.tilt, self.gains.tilt, FULL / 2000), units)
        forward, left, up = jnp.unstack(jnp.clip(output, -limit, limit), axis=-1)
        hover = self.drone.mass * GRAVITY / 4
        thrust = jnp.clip(hover + up, self.gains.least_thrust * self.unit, self.drone.max_thrust)
        # A nose that goes down (positive pitch) flies forward, a left side that goes up (positive roll) to the right.
        state = dataclasses.replace(state, velocity=integral)
        return self.attitude(state, thrust, -left, forward, yaw_rate, motion, dt)

    def attitude(
        self, state: State, thrust: Array, roll: Array, pitch: Array, yaw_rate: Array, motion: Drones, dt: float
    ) -> tuple[Array, State]:
        """Hold `roll` and `pitch` (...) rad at a `thrust` (...) N per rotor."""
        heading = wrap(state.heading + dt * yaw_rate)
        actual = roll_pitch_yaw(motion.quat)
        error = jnp.stack([roll - actual[0], pitch - actual[1], wrap(heading - actual[2])], axis=-1)
        limit = _vector(self.gains.attitude_limit, DEGREE)
        integral = jnp.clip(state.attitude + dt * error, -limit, limit)
        rates = jnp.asarray(
            _vector(self.gains.attitude_p) * error
            + _vector(self.gains.attitude_i) * integral
            - _vector(self.gains.attitude_d) * motion.angvel
        )
        state = dataclasses.replace(state, attitude=integral, heading=heading)
        return self.rates(state, thrust, rates, motion, dt)

    def rates(self, state: State, thrust: Array, rates: Array, motion: Drones, dt: float) -> tuple[Array, State]:
        """Turn at `rates` (..., 3) rad/s, body frame, at a `thrust` (...) N per rotor."""
        # The power distribution halves roll and pitch, but not yaw.
        share = (0.5 * self.unit, 0.5 * self.unit, self.unit)
        units = (share[0] / DEGREE, share[1] / DEGREE, share[2] / DEGREE)
        error = rates - motion.angvel
        limit = _vector(self.gains.rate_limit, DEGREE)
        integral = jnp.clip(state.rate + dt * error, -limit, limit)
        output = (
            _vector(self.gains.rate_p, units) * error
            + _vector(self.gains.rate_i, units) * integral
            - _vector(self.gains.rate_d, units) * ((motion.angvel - state.angvel) / dt)
        )
        limit = _vector(share, FULL // 2)  # the firmware's outputs are signed 16-bit numbers
        roll, pitch, yaw = jnp.unstack(jnp.clip(output, -limit, limit), axis=-1)
        thrusts = saturate(mix(thrust, roll, pitch, yaw), self.drone.max_thrust)
        return thrusts, dataclasses.replace(state, rate=integral, angvel=motion.angvel)


def to_heading(quat: Array, vector: Array) -> Array:
    """A vector (..., 3) of the world frame along the axes of the heading: the world turned about z by the yaw."""
    w, x, y, z = jnp.unstack(quat, axis=-1)
    cosine, sine = 1 - 2 * (y * y + z * z), 2 * (w * z + x * y)
    scale = jax.lax.rsqrt(jnp.maximum(cosine**2 + sine**2, 1e-12))  # zero where the nose points straight up
    cosine, sine = cosine * scale, sine * scale
    forward, left, up = jnp.unstack(vector, axis=-1)
    return jnp.stack([cosine * forward + sine * left, cosine * left - sine * forward, up], axis=-1)
