"""The Crazyflie in flight, by the dynamics that training simulates: `tasks.swarm.dynamics.multirotor`.

Forces, moments of inertia and mass share one scale that no motion shows: weigh the drone, and state its mass with
`--known drone_mass 0.0331`. Without that, the mass keeps its nominal value, all forces are relative to it, and none of
them is called identified.

    command        drives the model: rotor speeds in rpm, or thrusts in N (by the channel's unit), which the firmware
                   turns into speeds by the nominal thrust curve
    position       compared
    orientation    compared
    gyro           compared
    linvel         compared, where the log has it

Rotor speeds are not measured: they follow from the commands alone, so they are simulated from the log's begin.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.engines.sensors import multiply
from embodied.errors import listing
from embodied.math.rotations import quat_from_rotation_vector, quat_multiply
from embodied.robot.rotors import GRAVITY
from sim2real.identification import simulate as sm
from sim2real.identification.calibration import Calibration
from sim2real.identification.parameters import COMMANDS, CalibrationError, Kind, Parameter
from sim2real.identification.simulate import Output, Windows, value_and_slope
from sim2real.logs.log import WXYZ, XYZ, Log
from tasks.swarm.dynamics.aerodynamics import RADIANS_PER_SECOND
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.multirotor import Multirotor, body_drag, rotate, rotor_lag, speed_for_thrust

PRESET = Preset.P250  # the drone in the MJCF
ROTORS = ("rotor1", "rotor2", "rotor3", "rotor4")
TIMESTEP = 0.002  # s, as in training
UNITS = ("N", "rpm")
# Standard deviations as first assumed; what the log shows replaces them.
ACCURACIES = {"position": 2e-3, "orientation": 5e-3, "gyro": 0.02, "linvel": 0.02}  # m, rad, rad/s, m/s
OPTIONAL = ("linvel",)
PROPELLER_INERTIA = 26.97e-9
"""kg m^2, stock propellers of the Crazyflie 2.1+: `prop_inertia` of cf2x_P250 in drone-models (utiasDSL).
Training leaves it out: logs have it, the tasks' drone has not."""
SLOWEST = 1e-6  # 1/s
TOGETHER = 8  # vectors in a compiled simulation: always as many, so that it is compiled once


@dataclasses.dataclass(frozen=True)
class DroneTwin:
    """One drone. A start is position (m), orientation (wxyz), velocity (m/s, world) and turning rate (rad/s, body)."""

    name: str
    drone: Multirotor
    """Nominal constants."""
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    unit: str
    """Of the command."""
    timestep: float = TIMESTEP
    actuators: tuple[str, ...] = ROTORS
    exact: bool = True
    """Integrate by Runge-Kutta, with the propellers' inertia, instead of as the engine `rigid`."""
    settle: float = 1.0
    window: float = 0.5

    @property
    def start_step(self) -> np.ndarray:
        """(12,) m, rad, m/s, rad/s."""
        return np.repeat([1e-4, 1e-4, 1e-3, 1e-3], 3)

    @property
    def start_spread(self) -> np.ndarray:
        """(12,) m, rad, m/s, rad/s."""
        return np.repeat([0.05, 0.1, 0.5, 1.0], 3)

    def starts(self, log: Log, times: np.ndarray) -> np.ndarray:
        """(W, 13), from cubics through the measurements around each time."""
        linvel = log.channels.get("linvel")
        states = []
        for time in times:
            pos, vel = value_and_slope(log["position"], linvel, XYZ, time)
            quat = value_and_slope(log["orientation"], None, WXYZ, time)[0]
            spin = value_and_slope(log["gyro"], None, XYZ, time)[0]
            states.append(np.concatenate([pos, quat / np.linalg.norm(quat), vel, spin]))
        return np.stack(states)

    def moved(self, starts: np.ndarray, change: np.ndarray) -> np.ndarray:
        """The sum, with the change of the orientation a rotation vector in the body's frame."""
        half = change[..., 3:6] / 2
        angle = np.linalg.norm(half, axis=-1, keepdims=True)
        turn = np.concatenate([np.cos(angle), np.sinc(angle / np.pi) * half], -1)
        quat = multiply(np, starts[..., 3:7], turn)
        return np.concatenate([starts[..., :3] + change[..., :3], quat, starts[..., 7:] + change[..., 6:]], -1)

    def stepped(self, timestep: float) -> DroneTwin:
        return dataclasses.replace(self, timestep=timestep, exact=False)

    def row(self, kind: Kind) -> int:
        """Index of a parameter."""
        return next(i for i, parameter in enumerate(self.parameters) if parameter.kind is kind)

    def drone_of(self, values: Any) -> Multirotor:
        """The constants with one vector of values (p,), which may be traced."""
        return changed(self.drone, {p.kind: values[i] for i, p in enumerate(self.parameters)})

    def simulate(self, values: np.ndarray, starts: np.ndarray, windows: Windows) -> tuple[np.ndarray, ...]:
        """See `Twin.simulate`: flights side by side, in double precision, some vectors at once."""
        parts = []
        for first in range(0, len(values), TOGETHER):
            rows = np.minimum(np.arange(first, first + TOGETHER), len(values) - 1)
            speeds = self._speeds(values[rows], windows)
            with jax.enable_x64(True):
                tracks = _fly(self, jnp.asarray(values[rows]), jnp.asarray(starts[rows]), jnp.asarray(speeds))
            parts.append([np.asarray(tracks[output.channel]) for output in self.outputs])
        return tuple(np.concatenate(tracks)[: len(values)] for tracks in zip(*parts, strict=True))

    def _speeds(self, values: np.ndarray, windows: Windows) -> np.ndarray:
        """(N, W, steps + 1, 4) rpm at the edges of each physics step, of rotors that began with the log."""
        command = windows.command
        if self.unit == "N":
            with jax.enable_x64(True):
                rpm = speed_for_thrust(self.drone, jnp.asarray(command.values))
            command = dataclasses.replace(command, values=np.asarray(rpm), unit="rpm")
        end = windows.begin[-1] + windows.steps * self.timestep
        steps = int(np.ceil((end - command.time[0]) / self.timestep)) + 1
        whole = dataclasses.replace(windows, begin=command.time[:1], steps=steps, samples=(), command=command)
        held = sm.commands(whole, values[:, self.row(Kind.DELAY)], values[:, self.row(Kind.LOSS)])[:, 0]
        with jax.enable_x64(True):
            speeds = np.asarray(_spin(self, jnp.asarray(values), jnp.asarray(held)))
        # The rotors' grid began with the log, a window's begins with a measurement.
        after = (windows.begin - command.time[0])[:, None] / self.timestep + np.arange(windows.steps + 1)
        low = np.clip(np.floor(after + 1e-6).astype(int), 0, steps - 1)
        part = (after - low)[None, ..., None]
        return (1 - part) * speeds[:, low] + part * speeds[:, low + 1]


def changed(drone: Multirotor, values: Mapping[Kind, Any]) -> Multirotor:
    """`drone` with calibrated values."""
    return dataclasses.replace(drone, **constants(drone, values))


def constants(drone: Multirotor, values: Mapping[Kind, Any]) -> dict[str, Any]:
    """Fields of `drone` by calibrated values; kinds that are missing keep theirs, those of other things are ignored."""
    value = lambda kind, default=1.0: values.get(kind, default)  # noqa: E731
    hover = float(speed_for_thrust(drone, drone.hover_thrust, np))
    # The share that leaves the linear part of the curve goes to the square one, so that both give the same at hover.
    linear = drone.thrust[0] * value(Kind.THRUST_SHAPE)
    square = drone.thrust[1] + (drone.thrust[0] - linear) / hover
    scaled = lambda numbers, factor: None if numbers is None else tuple(n * factor for n in numbers)  # noqa: E731
    drag = value(Kind.DRAG_XY, drone.drag[0])
    return dict(
        mass=value(Kind.DRONE_MASS, drone.mass),
        inertia=scaled(drone.inertia, value(Kind.DRONE_INERTIA)),
        thrust=scaled((linear, square), value(Kind.THRUST)),
        torque=scaled(drone.torque, value(Kind.TORQUE)),
        speed_up=scaled(drone.speed_up, value(Kind.SPEED_UP)),
        speed_down=scaled(drone.speed_down, value(Kind.SPEED_DOWN)),
        drag=(drag, drag, value(Kind.DRAG_Z, drone.drag[2])),
    )


def calibrated(result: Calibration) -> Multirotor:
    """The constants of a calibrated drone, for `tasks.swarm`; its delay is in `result["delay"]`."""
    if result.robot != "crazyflie":
        raise CalibrationError(f"the calibration is of a {result.robot}; expected a crazyflie")
    return changed(CRAZYFLIES[PRESET], {estimate.parameter.kind: estimate.value for estimate in result.estimates})


@functools.partial(jax.jit, static_argnums=0)
def _spin(twin: DroneTwin, values: jax.Array, command: jax.Array) -> jax.Array:
    """(N, steps + 1, 4) rpm at the edges of steps under commands (N, steps, 4), from the first command on."""

    def one(vector: jax.Array, wanted: jax.Array) -> jax.Array:
        drone = twin.drone_of(vector)
        lag = exact_lag if twin.exact else rotor_lag

        def step(speed: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
            speed = lag(drone, speed, target, twin.timestep)
            return speed, speed

        return jnp.concatenate([wanted[:1], jax.lax.scan(step, wanted[0], wanted)[1]])

    return jax.vmap(one)(values, command)


@functools.partial(jax.jit, static_argnums=0)
def _fly(twin: DroneTwin, values: jax.Array, starts: jax.Array, speeds: jax.Array) -> dict[str, jax.Array]:
    """Tracks (N, W, steps + 1, k) from `starts` (N, W, 13) under rotor speeds (N, W, steps + 1, 4)."""

    def one(vector: jax.Array, start: jax.Array, speed: jax.Array) -> jax.Array:
        drone, propeller = twin.drone_of(vector), vector[twin.row(Kind.PROPELLER_INERTIA)]

        def step(state: jax.Array, rpm: jax.Array) -> tuple[jax.Array, jax.Array]:
            if twin.exact:
                state = exactly_advanced(drone, propeller, state, rpm, twin.timestep)
            else:
                state = advanced(drone, state, rpm[1], twin.timestep)
            return state, state

        after = jax.lax.scan(step, start, jnp.stack([speed[:-1], speed[1:]], 1))[1]
        return jnp.concatenate([start[None], after])

    track = jax.vmap(jax.vmap(one, (None, 0, 0)))(values, starts, speeds)
    parts = {"position": slice(0, 3), "orientation": slice(3, 7), "linvel": slice(7, 10), "gyro": slice(10, 13)}
    return {name: track[..., part] for name, part in parts.items()}


def advanced(drone: Multirotor, state: jax.Array, speed: jax.Array, dt: float) -> jax.Array:
    """A state (13,) after `dt` s with rotors at `speed` (4,) rpm, by semi-implicit Euler as the engine `rigid`."""
    pos, quat, vel, spin = state[:3], state[3:7], state[7:10], state[10:]
    force, torque = _forces(drone, quat, vel, spin, speed)
    spin = spin + dt * torque / jnp.asarray(drone.inertia)
    vel = vel + dt * force
    quat = quat_multiply(quat, quat_from_rotation_vector(dt * spin))
    return jnp.concatenate([pos + dt * vel, quat / jnp.linalg.norm(quat), vel, spin])


def exactly_advanced(drone: Multirotor, propeller: Any, state: jax.Array, speeds: jax.Array, dt: float) -> jax.Array:
    """A state (13,) after `dt` s, by the classical Runge-Kutta method.

    Rotors go evenly from `speeds[0]` (4,) to `speeds[1]` rpm. Their propellers, of `propeller` kg m^2 each, act by
    minus the rate of change of their angular momentum in the world.
    """
    pushed = -propeller * RADIANS_PER_SECOND * jnp.dot(drone.spin, speeds[1] - speeds[0]) / dt

    def rate(at: jax.Array, speed: jax.Array) -> jax.Array:
        quat, vel, spin = at[3:7], at[7:10], at[10:]
        force, torque = _forces(drone, quat, vel, spin, speed)
        momentum = propeller * RADIANS_PER_SECOND * jnp.dot(drone.spin, speed)
        torque = torque + jnp.stack([-spin[1] * momentum, spin[0] * momentum, pushed])
        turn = quat_multiply(quat, jnp.concatenate([jnp.zeros(1), spin / 2]))
        return jnp.concatenate([vel, turn, force, torque / jnp.asarray(drone.inertia)])

    middle = (speeds[0] + speeds[1]) / 2
    first = rate(state, speeds[0])
    second = rate(state + dt / 2 * first, middle)
    third = rate(state + dt / 2 * second, middle)
    fourth = rate(state + dt * third, speeds[1])
    after = state + dt / 6 * (first + 2 * second + 2 * third + fourth)
    return after.at[3:7].divide(jnp.linalg.norm(after[3:7]))


def _forces(drone: Multirotor, quat: Any, vel: Any, spin: Any, speed: Any) -> tuple[jax.Array, jax.Array]:
    """Acceleration (3,) m/s^2 in the world, and torque (3,) N m in the body with what turning does to it."""
    thrust, torque = drone.wrench(speed)
    force = thrust + body_drag(drone, quat, vel)
    torque = torque - jnp.cross(spin, jnp.asarray(drone.inertia) * spin)
    return rotate(quat, force) / drone.mass - jnp.array([0.0, 0.0, GRAVITY]), torque


def exact_lag(drone: Multirotor, speed: jax.Array, command: jax.Array, dt: float) -> jax.Array:
    """`rotor_lag` in closed form, (4,) rpm: the command is a fixed point of its Riccati equation.

    With the error e = command - speed, e' = -(a + 2 b command) e + b e^2, which is linear in 1 / e.
    """
    assert drone.speed_up is not None
    assert drone.speed_down is not None
    error = command - speed
    a, b = (jnp.where(error > 0, up, down) for up, down in zip(drone.speed_up, drone.speed_down, strict=True))
    rate = a + 2 * b * command
    # For rotors that are commanded to stop, the rate may be 0.
    span = jnp.where(rate > SLOWEST, -jnp.expm1(-rate * dt) / jnp.maximum(rate, SLOWEST), dt)
    return command - error * jnp.exp(-rate * dt) / (1 - b * error * span)


def twin(log: Log) -> DroneTwin:
    """The twin of the drone; a `CalibrationError` where commands are neither rpm nor N."""
    unit = log["command"].unit
    if unit not in UNITS:
        raise CalibrationError(f"the commands of a crazyflie are in '{unit}'; expected {listing(UNITS)}")
    if missing := [name for name in ACCURACIES if name not in log and name not in OPTIONAL]:
        raise CalibrationError(f"the log lacks {listing(missing)}; it has {listing(sorted(log.channels))}")
    outputs = tuple(
        Output(name, WXYZ if name == "orientation" else XYZ, accuracy, rotation=name == "orientation")
        for name, accuracy in ACCURACIES.items()
        if name in log
    )
    drone = CRAZYFLIES[PRESET]
    return DroneTwin("crazyflie", drone, parameters(drone), outputs, unit)


def parameters(drone: Multirotor) -> tuple[Parameter, ...]:
    """Mass, known from a scale; then what shows in flight."""
    mass, drag, propeller = drone.mass, drone.drag, PROPELLER_INERTIA
    factors = (Kind.DRONE_INERTIA, Kind.THRUST, Kind.TORQUE, Kind.SPEED_UP, Kind.SPEED_DOWN)
    return (
        Parameter(Kind.DRONE_MASS, "", mass, mass / 2, 2 * mass, mass / 5, "kg", free=False),
        *(Parameter(kind, "", 1.0, 0.3, 3.0, 0.4) for kind in factors),
        Parameter(Kind.THRUST_SHAPE, "", 1.0, -2.0, 4.0, 1.0),
        Parameter(Kind.DRAG_XY, "", drag[0], 0.0, 6 * drag[0], drag[0], "N s/m"),
        Parameter(Kind.DRAG_Z, "", drag[2], 0.0, 6 * drag[2], drag[2], "N s/m"),
        Parameter(Kind.PROPELLER_INERTIA, "", propeller, 0.0, 4 * propeller, propeller, "kg m^2"),
        *COMMANDS,
    )
