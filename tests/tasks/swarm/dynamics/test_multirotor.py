"""Rotors of any number and direction, and the Crazyflie's against textbook formulas and published tables."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.errors import ModelError
from embodied.math.rotations import quat_rotate
from embodied.robot import Airframe, Rotor
from embodied.robot.rotors import GRAVITY
from tasks.swarm.control.allocation import Allocation
from tasks.swarm.control.levels import LEVELS, REFERENCE, Level
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.multirotor import Multirotor, body_drag, rotor_lag, speed_for_thrust, world_wrench

FILE = Path("drone.urdf")
each_drone = pytest.mark.parametrize("drone", [CRAZYFLIES[preset] for preset in Preset], ids=list(Preset))


def by_rotor(drone: Multirotor) -> Multirotor:
    """The same with a number for each rotor, and a fifth without thrust that pushes sideways."""
    each = lambda numbers: tuple(number * np.array([1, 1, 1, 1, 0]) for number in numbers)  # noqa: E731
    return dataclasses.replace(
        drone,
        position=np.concatenate([drone.position, [[0.0, 0.0, 0.01]]]),
        axis=np.concatenate([drone.axis, [[1.0, 0.0, 0.0]]]),
        spin=np.array([*drone.spin, 1.0]),
        thrust=each(drone.thrust),
        torque=each(drone.torque),
    )


def ring(count: int, tilt: float = 0.0, **changes: float) -> Airframe:
    """Rotors in a ring of 0.2 m, tilted about their arms by `tilt` rad to one side and the other in turns."""
    rotors = []
    for number in range(count):
        angle = 2 * math.pi * (number + 0.5) / count
        side = tilt * (-1) ** number
        axis = (-math.sin(side) * math.sin(angle), math.sin(side) * math.cos(angle), math.cos(side))
        place = (0.2 * math.cos(angle), 0.2 * math.sin(angle), 0.02)
        rotors.append(Rotor("", place, axis, (-1) ** number, 20.0 / count, 0.015, 0.03))
    frame = Airframe(1.0, (0.0, 0.0, 0.0), (0.01, 0.012, 0.02), tuple(rotors), (0.3, 0.3, 0.3))
    return dataclasses.replace(frame, **changes)


def changed(frame: Airframe, number: int, **changes: object) -> Airframe:
    rotors = list(frame.rotors)
    rotors[number] = dataclasses.replace(rotors[number], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(frame, rotors=tuple(rotors))


@each_drone
def test_rotors_alike_push_and_turn_as_those_with_a_number_each(drone: Multirotor) -> None:
    speed = 1000 * jax.random.uniform(jax.random.key(0), (64, 5), minval=10.0, maxval=25.0)
    strength = jax.random.uniform(jax.random.key(1), (64,), minval=0.9, maxval=1.1)
    alike, each = drone.wrench(speed[:, :4], strength), by_rotor(drone).wrench(speed, strength)
    for one, other in zip(alike, each, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("count", "tilt"), [(4, 0.0), (6, 0.0), (8, 0.0), (6, 0.3), (8, -0.2), (4, 0.2)])
def test_at_hover_rotors_carry_the_weight_and_nothing_turns(count: int, tilt: float) -> None:
    drone = Multirotor.of(ring(count, tilt), FILE)
    speed = speed_for_thrust(drone, jnp.asarray(drone.hover_thrust))
    force, torque = drone.wrench(speed)
    np.testing.assert_allclose(force, [0, 0, GRAVITY], atol=1e-4)
    np.testing.assert_allclose(torque, 0.0, atol=1e-5)
    np.testing.assert_allclose(drone.hover_fraction, drone.hover_fraction[0], rtol=1e-3)


def test_uneven_rotors_share_the_weight_unevenly() -> None:
    """Twice as strong in front as behind, and the centre of mass nearer to the front."""
    frame = ring(4)
    rotors = tuple(
        dataclasses.replace(
            rotor,
            position=(rotor.position[0] - 0.04, *rotor.position[1:]),
            max_thrust=8.0 if rotor.position[0] > 0 else 4.0,
        )
        for rotor in frame.rotors
    )
    drone = Multirotor.of(dataclasses.replace(frame, rotors=rotors), FILE)
    force, torque = drone.wrench(speed_for_thrust(drone, jnp.asarray(drone.hover_thrust)))
    np.testing.assert_allclose([*force, *torque], [0, 0, GRAVITY, 0, 0, 0], atol=1e-4)
    front = np.array([rotor.max_thrust > 5 for rotor in rotors])
    assert drone.hover_thrust[front].min() > 1.5 * drone.hover_thrust[~front].max()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (ring(3), "its 3 rotors cannot hold it level in the air without yawing"),
        (changed(ring(4), 1, spin=1), "its 4 rotors cannot hold it level in the air without"),
        (changed(ring(4), 0, position=(0.0, -0.2, 0.0)), "its 4 rotors cannot hold it level in the air without"),
        (ring(4, mass=2.0), r"its rotors push with 20 N upwards at most and it weighs 19.6 N"),
        (
            dataclasses.replace(
                ring(4),
                rotors=tuple(
                    dataclasses.replace(r, position=(0.0, r.position[1], 0.0), torque_per_thrust=0.0)
                    for r in ring(4).rotors
                ),
            ),
            "its 4 rotors cannot roll and pitch it",
        ),
    ],
)
def test_what_cannot_hover_is_refused_in_one_line(frame: Airframe, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        Multirotor.of(frame, FILE)
    assert "drone.urdf" in str(caught.value)
    assert "robot.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_allocated_to_the_reference_thrusts_stay_what_they_are() -> None:
    wanted = jax.random.uniform(jax.random.key(2), (64, 4), minval=0.05, maxval=0.1)
    np.testing.assert_allclose(Allocation.of(REFERENCE, REFERENCE).thrusts(wanted), wanted, atol=1e-3 * 0.12)


@pytest.mark.parametrize(("count", "tilt"), [(4, 0.0), (6, 0.0), (6, 0.3), (8, 0.0)])
def test_shared_out_thrusts_accelerate_alike(count: int, tilt: float) -> None:
    drone = Multirotor.of(ring(count, tilt), FILE)
    hover = REFERENCE.hover_thrust
    wanted = hover * (1 + 0.02 * jax.random.normal(jax.random.key(3), (32, 4)))
    thrusts = Allocation.of(drone, REFERENCE).thrusts(wanted)
    force, torque = drone.wrench(speed_for_thrust(drone, thrusts))
    lift, turn = REFERENCE.wrench(speed_for_thrust(REFERENCE, wanted))
    np.testing.assert_allclose(force[:, 2] / drone.mass, lift[:, 2] / REFERENCE.mass, rtol=1e-3)
    np.testing.assert_allclose(
        torque / np.array(drone.inertia), turn / np.array(REFERENCE.inertia), rtol=5e-3, atol=0.05
    )
    if tilt and count >= 6:  # which can choose not to push sideways
        np.testing.assert_allclose(force[:, :2], 0.0, atol=1e-3)


def test_what_one_rotor_lacks_is_taken_from_all() -> None:
    drone = Multirotor.of(ring(6), FILE)
    thrusts = Allocation.of(drone, REFERENCE).thrusts(jnp.array([0.12, 0.12, 0.06, 0.06]))
    assert float(thrusts.max()) <= float(drone.max_thrust.max()) + 1e-5
    assert float(thrusts.min()) >= 0.0
    _, torque = drone.wrench(speed_for_thrust(drone, thrusts))
    assert float(torque[0]) < -0.1


def test_the_level_of_rotors_has_a_number_for_each() -> None:
    drone = Multirotor.of(ring(6), FILE)
    level = LEVELS[Level.ROTORS].of(drone)
    assert level.size == 6
    thrusts, _ = level.control(None, jnp.array([-1.0, 0, 1, 0, 0, 0]), None, drone, 0.01)  # type: ignore[arg-type]
    np.testing.assert_allclose(thrusts[:3], [0, GRAVITY / 6, 20 / 6], rtol=1e-4)
    assert LEVELS[Level.RATES].of(drone) is LEVELS[Level.RATES]


# Thrust-to-weight ratios of the published sets.
RATIOS = {Preset.GPD: 2.25, Preset.P250: 1.54, Preset.L250: 1.49, Preset.T350: 1.94, Preset.B500: 1.88}
# Positions of rotors 1 to 4, as signs of the lever along x and y: front right, back right, back left, front left.
CORNERS = np.array([[1, -1], [-1, -1], [-1, 1], [1, 1]])
TURNS = np.array([1, -1, 1, -1])  # seen from above, +1 counter-clockwise
LAGGING = [preset for preset in Preset if CRAZYFLIES[preset].speed_up is not None]

each_lagging_drone = pytest.mark.parametrize("drone", [CRAZYFLIES[preset] for preset in LAGGING], ids=LAGGING)


def thrust_of(drone: Multirotor, speed: np.ndarray) -> np.ndarray:
    return drone.thrust[0] * speed + drone.thrust[1] * speed**2


@pytest.mark.parametrize("preset", list(Preset))
def test_thrust_to_weight_is_the_published_one(preset: Preset) -> None:
    drone = CRAZYFLIES[preset]
    assert 4 * drone.max_thrust / (drone.mass * GRAVITY) == pytest.approx(RATIOS[preset], abs=0.005)
    assert drone.hover_fraction == pytest.approx(1 / RATIOS[preset], rel=0.005)


def test_every_preset_is_in_the_table() -> None:
    assert set(CRAZYFLIES) == set(Preset) == set(RATIOS)


@each_drone
def test_speed_for_thrust_inverts_the_thrust_curve(drone: Multirotor) -> None:
    thrust = np.linspace(0.0, drone.max_thrust, 50)
    speed = np.asarray(speed_for_thrust(drone, jnp.asarray(thrust)))
    np.testing.assert_allclose(thrust_of(drone, speed), thrust, rtol=1e-4, atol=1e-6)
    assert (np.diff(speed) > 0).all()
    assert 15_000 < speed[-1] < 35_000  # rpm, what a Crazyflie's motors reach


@each_drone
def test_equal_rotors_at_hover_thrust_carry_the_weight_without_turning(drone: Multirotor) -> None:
    speed = speed_for_thrust(drone, jnp.full(4, drone.hover_fraction * drone.max_thrust))
    force, torque = drone.wrench(speed)
    assert float(force[2]) == pytest.approx(drone.mass * GRAVITY, rel=1e-5)
    np.testing.assert_allclose(torque, 0.0, atol=1e-9)


@each_drone
@pytest.mark.parametrize("rotor", range(4))
def test_one_rotor_turns_the_body_as_lever_cross_force_says(drone: Multirotor, rotor: int) -> None:
    speed = jnp.zeros(4).at[rotor].set(20_000.0)
    force, torque = drone.wrench(speed)
    np.testing.assert_allclose(force, [0.0, 0.0, float(thrust_of(drone, np.array(20_000.0)))], rtol=1e-5)
    np.testing.assert_array_equal(np.sign(drone.position[rotor, :2]), CORNERS[rotor])
    expected = np.cross(drone.position[rotor], force)
    reaction = drone.torque[0] * 20_000.0 + drone.torque[1] * 20_000.0**2
    expected[2] -= TURNS[rotor] * reaction
    np.testing.assert_allclose(torque, expected, rtol=1e-5, atol=1e-10)
    assert reaction > 0


@each_drone
def test_strength_scales_thrust_and_its_torques(drone: Multirotor) -> None:
    speed = jnp.array([18e3, 19e3, 20e3, 21e3])
    full, weak = drone.wrench(speed), drone.wrench(speed, 0.9)
    np.testing.assert_allclose(weak[0], 0.9 * full[0], rtol=1e-6)
    np.testing.assert_allclose(weak[1][:2], 0.9 * full[1][:2], rtol=1e-5)


@each_drone
def test_drag_opposes_motion_and_takes_energy(drone: Multirotor) -> None:
    for key in jax.random.split(jax.random.PRNGKey(0), 20):
        quat, velocity = jax.random.normal(key, (4,)), 3 * jax.random.normal(key, (3,))
        quat = quat / jnp.linalg.norm(quat)
        force_w = quat_rotate(quat, body_drag(drone, quat, velocity))
        power = float(force_w @ velocity)
        least, most = min(drone.drag), max(drone.drag)
        speed2 = float(velocity @ velocity)
        assert -most * speed2 * 1.001 - 1e-9 <= power <= -least * speed2 * 0.999 + 1e-9
    level = jnp.array([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(body_drag(drone, level, jnp.ones(3)), -np.array(drone.drag), rtol=1e-6)


@each_lagging_drone
def test_rotors_approach_their_command_monotonically_and_settle(drone: Multirotor) -> None:
    low, high = 12_000.0, float(speed_for_thrust(drone, jnp.asarray(drone.max_thrust)))
    command = jnp.array([high, low, high, low])

    def advance(speed: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        speed = rotor_lag(drone, speed, command, 0.002)
        return speed, speed

    _, path = jax.lax.scan(advance, jnp.array([low, high, 0.0, low]), None, length=2500)
    path = np.asarray(path)
    # Equality: single precision stops once a step is below half a digit.
    assert (np.diff(path[:, [0, 2]], axis=0) >= 0).all()
    assert (np.diff(path[:, 1]) <= 0).all()
    assert (path[:, 3] == low).all()
    assert path.max() <= high * (1 + 1e-6)
    np.testing.assert_allclose(path[-1], command, rtol=1e-2)
    # Within a tenth of a step most of the way is still to go, within a second and a half hardly any.
    progress = (path[:, 0] - low) / (high - low)
    assert progress[5] < 0.5
    assert progress[750] > 0.95


@each_lagging_drone
def test_rotor_lag_follows_the_published_differential_equation(drone: Multirotor) -> None:
    (up_a, up_b), (down_a, down_b) = drone.speed_up, drone.speed_down  # type: ignore[misc]
    n, c, dt = 15_000.0, 20_000.0, 1e-4
    faster = float(rotor_lag(drone, jnp.asarray(n), jnp.asarray(c), dt))
    slower = float(rotor_lag(drone, jnp.asarray(c), jnp.asarray(n), dt))
    assert (faster - n) / dt == pytest.approx(up_a * (c - n) + up_b * (c**2 - n**2), rel=1e-2)
    assert (slower - c) / dt == pytest.approx(down_a * (n - c) + down_b * (n**2 - c**2), rel=1e-2)


def test_a_drone_without_lag_obeys_at_once() -> None:
    command = jnp.array([1e4, 2e4, 1.5e4, 0.0])
    assert (rotor_lag(CRAZYFLIES[Preset.GPD], jnp.zeros(4), command, 0.002) == command).all()


def test_the_world_wrench_is_the_body_wrench_rotated() -> None:
    quat = jnp.array([np.cos(0.4), np.sin(0.4), 0.0, 0.0])  # 0.8 rad about x
    wrench = world_wrench(quat, jnp.array([0.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 0.0]))
    expected = [0.0, -np.sin(0.8), np.cos(0.8), 0.0, np.cos(0.8), np.sin(0.8)]
    np.testing.assert_allclose(wrench, expected, atol=1e-6)
