"""Logs of robots with hidden parameters, for `benchmarks.calibration` and the tests of calibration.

A joint robot is stepped by plain `mj_step` with the delay as a shift of the command's clock, a drone by the functions
of `tasks.swarm.dynamics` under a controller that knows the truth: none of it is of `identification.simulate`.
"""

import dataclasses
import functools
import types
from collections.abc import Mapping
from typing import Any

from embodied import cli  # isort: skip # noqa: F401  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.robot.rotors import GRAVITY
from sim2real.identification.parameters import Kind, Parameter
from sim2real.logs.log import WXYZ, XYZ, Channel, Log
from sim2real.twins import crazyflie
from sim2real.twins.crazyflie import DroneTwin
from sim2real.twins.joints import JointTwin
from tasks.swarm.dynamics import multirotor

DELAY = (0.008, 0.012)  # s: 10 ms, not quite
REMEMBERED = 8  # commands to a drone that are kept until they act


@dataclasses.dataclass(frozen=True)
class Motion:
    """Excitation of joints: about a middle, by chirps that sweep up and down."""

    middle: tuple[float, ...]
    """rad."""
    amplitude: tuple[float, ...]
    """rad."""
    fastest: float
    """Hz."""
    slowest: float = 0.1
    """Hz."""
    hz: float = 200.0
    """Commands per second."""


GO1_LEG = Motion((0.0, 0.9, -1.8), (0.3, 0.4, 0.4), fastest=8.0)
PANDA_ARM = Motion(
    (0.0, -0.3, 0.0, -1.9, 0.0, 1.8, 0.8), (0.4, 0.35, 0.4, 0.35, 0.4, 0.4, 0.5), fastest=1.5, slowest=0.15, hz=1000.0
)
NOISE = {
    "go1": {"joint_pos": 1e-3, "joint_vel": 0.05},  # rad, rad/s
    "panda": {"joint_pos": 2e-4, "joint_vel": 5e-3, "joint_torque": 0.1},  # rad, rad/s, N m
    "crazyflie": {"position": 1e-3, "orientation": 3e-3, "gyro": 0.02, "linvel": 0.02},  # m, rad, rad/s, m/s
}
"""Standard deviation of the sensors."""


def empty(channels: tuple[str, ...], names: tuple[str, ...]) -> Log:
    """A log that holds nothing but the names of joints."""
    return Log({name: Channel(np.arange(2.0), np.zeros((2, len(names))), names) for name in ("command", *channels)})


def draw(parameters: tuple[Parameter, ...], rng: np.random.Generator) -> np.ndarray:
    """(all,) a robot's own values: every free parameter drawn, others nominal."""
    ranges = {
        Kind.FRICTION: lambda p: rng.uniform(0.6, 1.6) * p.nominal if p.nominal else rng.uniform(0.2, 1.0),
        Kind.DAMPING: lambda p: rng.uniform(0.6, 1.6) * p.nominal if p.nominal else rng.uniform(0.02, 0.2),
        Kind.ENCODER_BIAS: lambda p: rng.uniform(-0.03, 0.03),
        Kind.MASS: lambda p: rng.uniform(0.8, 1.25) * p.nominal,
        Kind.DELAY: lambda p: rng.uniform(*DELAY),
        Kind.LOSS: lambda p: 0.0,
        Kind.PAYLOAD: lambda p: rng.uniform(0.0, 0.1),
        Kind.FRICTION_TIME: lambda p: p.nominal,
        Kind.THRUST: lambda p: rng.uniform(0.85, 1.15),
    }
    usual = lambda p: rng.uniform(0.6, 1.6) * p.nominal  # noqa: E731
    return np.array([ranges.get(p.kind, usual)(p) if p.free else p.nominal for p in parameters])


def chirps(motion: Motion, time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, joints) rad: on each joint a logarithmic sweep up and down, at its own pace."""
    duration = time[-1] + time[1]
    columns = []
    for middle, amplitude in zip(motion.middle, motion.amplitude, strict=True):
        sweep = 0.5 - 0.5 * np.cos(2 * np.pi * (time / duration * rng.uniform(1.0, 1.6) + rng.uniform()))
        frequency = motion.slowest * (motion.fastest / motion.slowest) ** sweep
        phase = 2 * np.pi * (np.cumsum(frequency) * time[1] + rng.uniform())
        # A servo can follow a fast motion only where it is small.
        size = amplitude / np.sqrt(1 + (frequency / motion.fastest * 2) ** 2)
        columns.append(middle + size * np.sin(phase) * np.minimum(1, time / 0.5))
    return np.stack(columns, 1)


def joint_log(
    twin: JointTwin, truth: np.ndarray, motion: Motion, seconds: float, seed: int, hz: float = 200.0, finer: int = 1
) -> Log:
    """The log of joints with values `truth`; `finer` physics steps for each of the twin's."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * motion.hz)) / motion.hz
    return played(twin, truth, time, chirps(motion, time, rng), NOISE[twin.name], rng, hz, finer)


def played(
    twin: JointTwin,
    truth: np.ndarray,
    time: np.ndarray,
    command: np.ndarray,
    noises: Mapping[str, float],
    rng: np.random.Generator,
    hz: float = 200.0,
    finer: int = 1,
) -> Log:
    """The log of joints with values `truth` under commands (n, joints) rad at even times (n,) s.

    Args:
        twin: Of the joints.
        truth: (p,) values of its parameters.
        time: s, from 0.
        command: rad.
        noises: Channel -> standard deviation of its sensor.
        rng: Of the noise.
        hz: Rows of each channel per second.
        finer: Physics steps of the hidden robot for each of the twin's.
    """
    motion_hz, seconds = 1 / time[1], len(time) * time[1]
    named = {p.name: v for p, v in zip(twin.parameters, truth, strict=True)}
    bias = np.array([named.get(f"{joint}.encoder_bias", 0.0) for joint in twin.joints])
    model = twin.compile(truth)
    model.opt.timestep = twin.timestep / finer
    data = mujoco.MjData(model)
    data.qpos[:] = command[0] - bias
    rows, times = [], []
    steps = round(seconds / model.opt.timestep)
    every = finer * max(round(1 / hz / twin.timestep), 1)
    for step in range(steps):
        now = step * model.opt.timestep
        # Held commands, late by the delay; one that changes within a step acts for its part of it.
        edges = (now - named["delay"] + np.array([0.0, model.opt.timestep])) * motion_hz
        marks = np.unique([*edges, *np.arange(np.ceil(edges[0]), edges[1])])
        rows_held = np.clip(np.floor((marks[1:] + marks[:-1]) / 2).astype(int), 0, len(time) - 1)
        data.ctrl[:] = np.average(command[rows_held], axis=0, weights=np.diff(marks)) - bias
        state = np.concatenate([data.qpos + bias, data.qvel])
        mujoco.mj_step(model, data)
        if step % every == 0:
            torque = twin.torques(data.sensordata)
            rows.append(np.concatenate([state, torque]))
            times.append(now)
    n = len(twin.joints)
    parts = np.split(np.array(rows), [n, 2 * n], axis=1)
    seen: dict[str, np.ndarray] = dict(zip(("joint_pos", "joint_vel", "joint_torque"), parts, strict=True))
    channels = {"command": Channel(time, command, twin.joints, "rad")}
    for name, noise in noises.items():
        channels[name] = Channel(np.array(times), seen[name] + rng.normal(0, noise, seen[name].shape), twin.joints)
    return Log(channels)


def bullet_log(twin: JointTwin, truth: np.ndarray, motion: Motion, seconds: float, seed: int, hz: float = 200.0) -> Log:
    """The log of joints with values `truth` in PyBullet, at 1 kHz, which knows nothing of MuJoCo's soft friction."""
    from embodied.core.world import Control, ResetState
    from embodied.engines.pybullet.engine import PybulletEngine

    rng = np.random.default_rng(seed)
    named = {p.name: v for p, v in zip(twin.parameters, truth, strict=True)}
    bias = np.array([named.get(f"{joint}.encoder_bias", 0.0) for joint in twin.joints])
    time = np.arange(round(seconds * motion.hz)) / motion.hz
    command = chirps(motion, time, rng)
    dt = 0.001  # s
    task: Any = types.SimpleNamespace(model=twin.compile(truth), timing=types.SimpleNamespace(physics_dt=dt))
    engine = PybulletEngine(task, 1)
    still: Any = np.zeros((1, len(bias)))
    start: Any = ResetState((command[0] - bias)[None], still, task_state=None)
    engine.reset(np.arange(1), start)
    rows, times = [], []
    every = round(1 / hz / dt)
    for step in range(round(seconds / dt)):
        if step % every == 0:
            world = engine.world()
            rows.append(np.concatenate([world.qpos[0] + bias, world.qvel[0]]))
            times.append(step * dt)
        row = int(np.clip(np.floor((step * dt - named["delay"]) * motion.hz + 1e-9), 0, len(time) - 1))
        held: Any = (command[row] - bias)[None]
        engine.step(Control(ctrl=held), 1)
    seen = dict(zip(("joint_pos", "joint_vel"), np.split(np.array(rows), 2, axis=1), strict=True))
    channels = {"command": Channel(time, command, twin.joints, "rad")}
    for name, values in seen.items():
        noise = NOISE[twin.name][name]
        channels[name] = Channel(np.array(times), values + rng.normal(0, noise, values.shape), twin.joints)
    return Log(channels)


def drone_log(twin: DroneTwin, truth: np.ndarray, seconds: float, seed: int, hz: float = 100.0) -> Log:
    """The log of a drone with values `truth` that hovers, climbs and sways; commands in rpm at 250 Hz."""
    rng = np.random.default_rng(seed)
    named = {p.kind: v for p, v in zip(twin.parameters, truth, strict=True)}
    hold = 2  # physics steps that a command is held: 250 Hz
    steps = round(seconds / twin.timestep)
    late = named[Kind.DELAY] / (hold * twin.timestep)
    time = twin.timestep * np.arange(steps)
    sway = _wobble(time, rng)
    with jax.enable_x64(True):
        states, commands = _flight(twin, jnp.asarray(truth), jnp.asarray(sway), jnp.asarray(late), hold)
    states, commands = np.asarray(states), np.asarray(commands)[::hold]
    every = round(1 / hz / twin.timestep)
    when, seen = time[::every], states[::every]
    noise = NOISE["crazyflie"]
    turn = rng.normal(0, noise["orientation"], (len(when), 3))
    moved = twin.moved(seen, np.concatenate([np.zeros((len(when), 3)), turn, np.zeros((len(when), 6))], 1))
    channels = {"command": Channel(time[::hold], commands, twin.actuators, "rpm")}
    channels["orientation"] = Channel(when, moved[:, 3:7], WXYZ)
    for name, first in (("position", 0), ("linvel", 7), ("gyro", 10)):
        values = seen[:, first : first + 3]
        channels[name] = Channel(when, values + rng.normal(0, noise[name], values.shape), XYZ)
    return Log(channels)


WOBBLE = (
    (0.6, 0.1, 0.4),
    (0.6, 0.1, 0.4),
    (0.4, 0.1, 0.4),
    (0.03, 0.5, 4.0),
    (0.03, 0.5, 4.0),
    (0.08, 0.3, 2.0),
    (0.15, 0.5, 3.0),
)
"""Of a point (m) and of extra thrust (of hover) for roll, pitch, yaw and climb: size, slowest and fastest (Hz)."""


def _wobble(time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, 7) commands of the controller: a point (m), and extra thrust (of hover) for roll, pitch, yaw, climb."""
    columns = []
    for size, low, high in WOBBLE:
        waves = [np.sin(2 * np.pi * (f * time + rng.uniform())) for f in rng.uniform(low, high, 3)]
        columns.append(size * sum(waves) / np.sqrt(3))
    return np.stack(columns, 1)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _flight(twin: DroneTwin, values: Array, sway: Array, late: Array, hold: int) -> tuple[Array, Array]:
    """States (steps, 13) before each step and the commands (steps, 4) rpm in force, before their delay."""
    mix = jnp.array([[-1.0, -1, 1, 1], [-1, 1, 1, -1], [-1, 1, -1, 1]])
    drone, propeller = twin.drone_of(values), values[twin.row(Kind.PROPELLER_INERTIA)]
    weight = drone.mass * GRAVITY
    whole = jnp.floor(late).astype(int)
    part = late - whole

    def control(state: Array, ask: Array) -> Array:
        pos, quat, vel, spin = state[:3], state[3:7], state[7:10], state[10:]
        up = multirotor.rotate(quat, jnp.array([0.0, 0.0, 1.0]))
        wanted = jnp.clip(1.5 * (ask[:3] - pos) - 2.0 * vel, -4.0, 4.0)
        axis = wanted + jnp.array([0.0, 0.0, GRAVITY])
        lean = multirotor.rotate_inverse(quat, jnp.cross(up, axis / jnp.linalg.norm(axis)))
        yaw = 2 * (quat[0] * quat[3] + quat[1] * quat[2])
        turn = jnp.concatenate([70.0 * lean[:2], -8.0 * yaw[None]]) - jnp.array([14.0, 14.0, 6.0]) * spin
        moment = turn * jnp.asarray(drone.inertia)
        reach = jnp.array([*drone.position[3, :2], 0.006]) * 4  # m, torque by thrust of a rotor
        thrust = weight / 4 * (axis @ up / GRAVITY + ask[6]) + mix.T @ (moment / reach + weight / 4 * ask[3:6])
        return multirotor.speed_for_thrust(drone, jnp.clip(thrust, 0.05 * weight, 0.6 * weight))

    def step(carry: Any, row: Any) -> tuple[Any, tuple[Array, Array]]:
        state, held, speed = carry
        number, ask = row
        command: Any = jnp.where(number % hold == 0, control(state, ask), held[0])
        past: Any = jnp.where(number % hold == 0, jnp.concatenate([command[None], held[:-1]]), held)
        # In units of the time a command is held: how long ago the one that acts now was given.
        age = number % hold / hold - part
        first = past[whole + (age < -1e-9)]
        after = age + 1 / hold
        last = past[whole + (after < 1e-9)]
        share: Any = jnp.where((age < -1e-9) & (after > 1e-9), after * hold, 1.0)
        acting = share * last + (1 - share) * first
        after = crazyflie.exact_lag(drone, speed, acting, twin.timestep)
        state_after = crazyflie.exactly_advanced(drone, propeller, state, jnp.stack([speed, after]), twin.timestep)
        return (state_after, past, after), (state, command)

    hover = multirotor.speed_for_thrust(drone, jnp.full(4, weight / 4))
    start = jnp.zeros(13).at[3].set(1.0)
    carry = (start, jnp.tile(hover, (REMEMBERED, 1)), hover)
    return jax.lax.scan(step, carry, (jnp.arange(len(sway)), sway))[1]
