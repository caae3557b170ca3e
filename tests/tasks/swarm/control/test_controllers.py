"""The firmware's controllers in closed loop, and their parts against the physics that they drive."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from embodied.math.rotations import quat_integrate, random_quat, rpy_from_quat
from embodied.robot.rotors import GRAVITY
from tasks.swarm.control import Setpoint, mellinger, mix, pid, roll_pitch_yaw, saturate, wrap
from tasks.swarm.control.levels import LEVELS, RATE, SPEED, STEP, TILT, YAW_RATE, Level, thrust_from_action
from tasks.swarm.control.mellinger import DSL, FIRMWARE, Mellinger
from tasks.swarm.control.pid import Pid
from tasks.swarm.dynamics import multirotor
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.dynamics.multirotor import Multirotor

P250 = CRAZYFLIES[Preset.P250]
TARGETS = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.577, -0.577, 0.577]], np.float32)
TURNED, ANGLES = jax.jit(jax.vmap(random_quat)), jax.jit(roll_pitch_yaw)


Controller = Callable[[Any, "Body", float], tuple[Array, Any]]
"""State, motion, s since the last time -> thrusts (A, 4) N, next state."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Body(Drones):
    """The motion of A drones and of their rotors."""

    rotor_speed: Array


def fly(drone: Multirotor, control: Controller, state: Any, body: Body, seconds: float, rate: float) -> Body:
    """The path, with a leading axis of time, under drag and rotor lag; semi-implicit Euler as on engine `rigid`."""
    dt = 1 / rate
    inertia = np.asarray(drone.inertia, np.float32)

    def step(carry: tuple[Any, Body], _: None) -> tuple[tuple[Any, Body], Body]:
        state, body = carry
        thrusts, state = control(state, body, dt)
        speed = multirotor.rotor_lag(drone, body.rotor_speed, multirotor.speed_for_thrust(drone, thrusts), dt)
        thrust, torque = drone.wrench(speed)
        force_b = multirotor.body_drag(drone, body.quat, body.vel) + thrust
        force = multirotor.rotate(body.quat, force_b)
        vel = body.vel + dt * (force / drone.mass - jnp.array([0.0, 0.0, GRAVITY]))
        gyroscopic = jnp.cross(body.angvel, inertia * body.angvel)
        angvel = body.angvel + dt * (torque - gyroscopic) / inertia
        quat = jax.vmap(quat_integrate, (0, 0, None))(body.quat, angvel, dt)
        body = Body(body.pos + dt * vel, quat, vel, angvel, speed)
        return (state, body), body

    return jax.jit(lambda c: jax.lax.scan(step, c, None, length=round(seconds * rate))[1])((state, body))


def resting(drone: Multirotor, count: int) -> Body:
    """`count` upright drones at the origin, rotors at hover."""
    zero = jnp.zeros((count, 3))
    hover = multirotor.speed_for_thrust(drone, jnp.full((count, 4), drone.mass * GRAVITY / 4))
    return Body(zero, jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (count, 1)), zero, zero, hover)


def flown_to(targets: np.ndarray, drone: Multirotor, seconds: float, rate: int, gains: Any = None) -> Body:
    """The path of drones that the PID, or Mellinger's controller, leads from the origin to targets (A, 3) m."""
    body, cascade, places = resting(drone, len(targets)), Pid.of(drone), jnp.asarray(targets)
    still = jnp.zeros_like(places)
    setpoint = Setpoint(places, still, still, still[:, 0])
    control: Controller = lambda state, body, dt: cascade.position(state, places, still[:, 0], body, dt)  # noqa: E731
    if gains is not None:
        control = lambda state, body, dt: Mellinger(drone, gains).update(state, setpoint, body, dt)  # noqa: E731
    return fly(drone, control, (mellinger if gains else pid).start(body), body, seconds, rate)


@pytest.mark.parametrize("preset", list(Preset))
def test_the_mixer_inverts_the_rotors(preset: Preset) -> None:
    drone = CRAZYFLIES[preset]
    hover = drone.mass * GRAVITY / 4
    parts = hover * np.array([1.0, 0.1, -0.05, 0.02], np.float32)
    wrench = jax.jit(lambda *parts: drone.wrench(multirotor.speed_for_thrust(drone, mix(*parts))))
    force, torque = wrench(*parts)
    assert float(force[2]) == pytest.approx(4 * parts[0], rel=1e-4)
    np.testing.assert_allclose(torque[:2], 4 * drone.position[0, 0] * parts[1:3], rtol=2e-3)
    speed = multirotor.speed_for_thrust(drone, jnp.asarray(hover))
    per_thrust = (drone.torque[0] * speed + drone.torque[1] * speed**2) / hover
    assert float(torque[2]) == pytest.approx(float(4 * per_thrust * parts[3]), rel=0.15)


def test_saturation_keeps_the_turning_and_gives_up_thrust() -> None:
    thrusts = saturate(jnp.array([[0.10, 0.15, 0.05, 0.01], [0.10, 0.12, 0.0, 0.05]]), 0.12)
    np.testing.assert_allclose(thrusts, [[0.07, 0.12, 0.02, 0.0], [0.10, 0.12, 0.0, 0.05]], atol=1e-7)


def test_angles_are_those_of_the_library_and_wrap() -> None:
    quats = TURNED(jax.random.split(jax.random.PRNGKey(0), 50))
    angles = np.stack(ANGLES(quats), -1)
    np.testing.assert_allclose(angles, jax.jit(jax.vmap(rpy_from_quat))(quats), atol=2e-3)
    np.testing.assert_allclose(
        wrap(jnp.array([3.5, -3.5, 0.1, 7.0])), [3.5 - 2 * np.pi, 2 * np.pi - 3.5, 0.1, 7.0 - 2 * np.pi], atol=1e-6
    )


@pytest.mark.parametrize(
    ("preset", "rate"),
    [
        (Preset.P250, 500),
        # The first below flies as a P250, the next two by the other controller, and the first at that rate.
        *(pytest.param(preset, 500, marks=pytest.mark.slow) for preset in (Preset.L250, Preset.T350, Preset.B500)),
        pytest.param(Preset.P250, 240, marks=pytest.mark.slow),
    ],
)
def test_the_pid_flies_a_metre_and_stays(preset: Preset, rate: int) -> None:
    drone = CRAZYFLIES[preset]
    path = flown_to(TARGETS, drone, 10.0, rate)
    error = np.linalg.norm(np.asarray(path.pos) - TARGETS, axis=-1)
    assert (error[2 * rate] < 0.2).all()
    assert (error[8 * rate - 1, [0, 1, 3]] < 0.02).all()
    # Straight up the firmware overshoots by a seventh, and its integral takes long to give that back.
    assert error[8 * rate - 1, 2] < 0.035
    assert error[-1, 2] < 0.02
    assert np.ptp(error[9 * rate :], axis=0).max() < 0.02
    roll, pitch, yaw = map(np.asarray, ANGLES(path.quat))
    assert np.rad2deg(np.abs([roll, pitch])).max() < 22
    assert np.rad2deg(np.abs(yaw)).max() < 10


def test_the_pid_flies_gym_pybullet_drones_crazyflie() -> None:
    drone = CRAZYFLIES[Preset.GPD]
    path = flown_to(TARGETS, drone, 8.0, 240)
    assert np.linalg.norm(np.asarray(path.pos)[-1] - TARGETS, axis=-1).max() < 0.035


@pytest.mark.parametrize(
    ("preset", "gains"),
    [
        (Preset.T350, FIRMWARE),
        (Preset.GPD, DSL),
        *(pytest.param(preset, FIRMWARE, marks=pytest.mark.slow) for preset in (Preset.B500, Preset.P250)),
    ],
)
def test_mellinger_flies_a_metre_and_stays(preset: Preset, gains: mellinger.Gains) -> None:
    drone, targets = CRAZYFLIES[preset], TARGETS[:3]
    path = flown_to(targets, drone, 8.0, 240, gains)
    error = np.linalg.norm(np.asarray(path.pos) - targets, axis=-1)
    assert (error[2 * 240] < 0.12).all()
    assert (error[-1] < 0.04).all()  # its integral of .05 N/(m s) is slow


def level_path(level: Level, action: list[float], seconds: float) -> Any:
    spec, body = LEVELS[level], resting(P250, 1)
    target = jax.jit(spec.setpoint)(np.array([action], np.float32), body)
    path = fly(P250, lambda s, b, dt: spec.control(s, target, b, P250, dt), spec.start(body), body, seconds, 240)
    return jax.tree.map(np.asarray, path)


def test_the_attitude_level_tracks_a_roll() -> None:
    path = level_path(Level.ATTITUDE, [0.1, 0.5, -0.25, 0.0], 2.0)
    roll, pitch, _ = ANGLES(path.quat[-120:, 0])
    np.testing.assert_allclose(roll, 0.5 * TILT, atol=np.deg2rad(1.0))
    np.testing.assert_allclose(pitch, -0.25 * TILT, atol=np.deg2rad(1.0))


def test_the_rates_level_tracks_a_rate() -> None:
    path = level_path(Level.RATES, [0.0, 0.0, 0.2, 0.5], 1.0)
    np.testing.assert_allclose(np.mean(path.angvel[-60:, 0], axis=0), [0, 0.2 * RATE, 0.5 * YAW_RATE], atol=0.15)


def test_the_velocity_level_tracks_a_velocity_while_it_turns() -> None:
    path = level_path(Level.VELOCITY, [0.5, -0.25, 0.25, 0.25], 6.0)
    np.testing.assert_allclose(path.vel[-1, 0], np.array([0.5, -0.25, 0.25]) * SPEED, atol=0.06)
    turned = np.unwrap(np.asarray(ANGLES(path.quat[:, 0])[2]))[-1]
    assert turned == pytest.approx(0.25 * YAW_RATE * 6.0, abs=0.4)


def test_the_position_level_counts_from_where_the_drone_is() -> None:
    body = dataclasses.replace(resting(P250, 2), pos=jnp.array([[1.0, 2, 3], [4, 5, 6]]))
    target = jax.jit(LEVELS[Level.POSITION].setpoint)(np.array([[1.0, 0, -1, 0.5], [0, 0, 0, 0]]), body)
    np.testing.assert_allclose(target, [[1 + STEP, 2, 3 - STEP, 0.5 * YAW_RATE], [4, 5, 6, 0]], rtol=1e-6)


def test_every_level_is_in_the_table_and_thrust_hovers_at_zero() -> None:
    assert set(LEVELS) == set(Level)
    assert all(len(spec.scale) == spec.size for spec in LEVELS.values())
    assert {level: spec.size for level, spec in LEVELS.items() if spec.size != 4} == {Level.TRAJECTORY: 10}
    thrust = thrust_from_action(P250, jnp.array([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(thrust, [0.0, P250.mass * GRAVITY / 4, P250.max_thrust], rtol=1e-5, atol=1e-8)


@functools.cache
def wild(count: int) -> Any:
    """Drones in every attitude, fast and spinning."""
    keys = jax.random.split(jax.random.PRNGKey(3), count)
    draw = 5 * jax.random.normal(keys[0], (3, count, 3))
    body = resting(P250, count)
    quat = TURNED(keys)
    return dataclasses.replace(body, pos=draw[0], vel=draw[1], angvel=draw[2], quat=quat)


@pytest.mark.parametrize("level", list(Level))
def test_commands_stay_within_what_rotors_can_give(level: Level) -> None:
    body, spec = wild(200), LEVELS[level]
    actions = jax.random.uniform(jax.random.PRNGKey(1), (200, spec.size), minval=-1.0)
    run = jax.jit(lambda body: spec.control(spec.start(body), spec.setpoint(actions, body), body, P250, 0.002)[0])
    thrusts = np.asarray(run(body))
    assert np.isfinite(thrusts).all()
    assert thrusts.min() >= 0
    assert thrusts.max() <= np.float32(P250.max_thrust)


@pytest.mark.parametrize(
    "level",
    [Level.POSITION, *(pytest.param(level, marks=pytest.mark.slow) for level in (Level.RATES, Level.TRAJECTORY))],
)
def test_many_drones_fly_as_each_alone(level: Level) -> None:
    body, spec = wild(6), LEVELS[level]
    actions = jax.random.uniform(jax.random.PRNGKey(1), (6, spec.size), minval=-1.0)

    def one(body: Any, action: jax.Array) -> Any:
        target = spec.setpoint(action, body)
        _, state = spec.control(spec.start(body), target, body, P250, 0.002)
        return spec.control(state, target, body, P250, 0.002)

    together, alone = jax.jit(lambda *now: (one(*now), jax.vmap(one)(*now)))(body, actions)
    for whole, separate in zip(*map(jax.tree.leaves, (together, alone)), strict=True):
        np.testing.assert_allclose(whole, separate, rtol=1e-4, atol=1e-5)
