"""The Crazyflie's constants and flight physics, against textbook formulas and the published tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.math.rotations import quat_rotate
from embodied.robot.rotors import GRAVITY
from tasks.swarm.dynamics import multirotor
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.multirotor import Multirotor

# Thrust-to-weight ratios of the published sets.
RATIOS = {Preset.GPD: 2.25, Preset.P250: 1.54, Preset.L250: 1.49, Preset.T350: 1.94, Preset.B500: 1.88}
# Positions of rotors 1 to 4, as signs of the lever along x and y: front right, back right, back left, front left.
CORNERS = np.array([[1, -1], [-1, -1], [-1, 1], [1, 1]])
TURNS = np.array([1, -1, 1, -1])  # seen from above, +1 counter-clockwise
LAGGING = [preset for preset in Preset if CRAZYFLIES[preset].speed_up is not None]

each_drone = pytest.mark.parametrize("drone", [CRAZYFLIES[preset] for preset in Preset], ids=list(Preset))
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
    speed = np.asarray(multirotor.speed_for_thrust(drone, jnp.asarray(thrust)))
    np.testing.assert_allclose(thrust_of(drone, speed), thrust, rtol=1e-4, atol=1e-6)
    assert (np.diff(speed) > 0).all()
    assert 15_000 < speed[-1] < 35_000  # rpm, what a Crazyflie's motors reach


@each_drone
def test_equal_rotors_at_hover_thrust_carry_the_weight_without_turning(drone: Multirotor) -> None:
    speed = multirotor.speed_for_thrust(drone, jnp.full(4, drone.hover_fraction * drone.max_thrust))
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
        force_w = quat_rotate(quat, multirotor.body_drag(drone, quat, velocity))
        power = float(force_w @ velocity)
        least, most = min(drone.drag), max(drone.drag)
        speed2 = float(velocity @ velocity)
        assert -most * speed2 * 1.001 - 1e-9 <= power <= -least * speed2 * 0.999 + 1e-9
    level = jnp.array([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(multirotor.body_drag(drone, level, jnp.ones(3)), -np.array(drone.drag), rtol=1e-6)


@each_lagging_drone
def test_rotors_approach_their_command_monotonically_and_settle(drone: Multirotor) -> None:
    low, high = 12_000.0, float(multirotor.speed_for_thrust(drone, jnp.asarray(drone.max_thrust)))
    command = jnp.array([high, low, high, low])

    def advance(speed: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        speed = multirotor.rotor_lag(drone, speed, command, 0.002)
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
    faster = float(multirotor.rotor_lag(drone, jnp.asarray(n), jnp.asarray(c), dt))
    slower = float(multirotor.rotor_lag(drone, jnp.asarray(c), jnp.asarray(n), dt))
    assert (faster - n) / dt == pytest.approx(up_a * (c - n) + up_b * (c**2 - n**2), rel=1e-2)
    assert (slower - c) / dt == pytest.approx(down_a * (n - c) + down_b * (n**2 - c**2), rel=1e-2)


def test_a_drone_without_lag_obeys_at_once() -> None:
    command = jnp.array([1e4, 2e4, 1.5e4, 0.0])
    assert (multirotor.rotor_lag(CRAZYFLIES[Preset.GPD], jnp.zeros(4), command, 0.002) == command).all()


def test_the_world_wrench_is_the_body_wrench_rotated() -> None:
    quat = jnp.array([np.cos(0.4), np.sin(0.4), 0.0, 0.0])  # 0.8 rad about x
    wrench = multirotor.world_wrench(quat, jnp.array([0.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 0.0]))
    expected = [0.0, -np.sin(0.8), np.cos(0.8), 0.0, np.cos(0.8), np.sin(0.8)]
    np.testing.assert_allclose(wrench, expected, atol=1e-6)
