"""Each effect of the air against its published formula, its limits and its symmetries."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.errors import UnknownNameError
from embodied.robot.rotors import GRAVITY
from tasks.swarm.dynamics import aerodynamics as air
from tasks.swarm.dynamics.aerodynamics import MODES, Battery, Effect, Wind
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.multirotor import body_drag, rotate, speed_for_thrust
from tests.kit.worlds import jitted

GPD = CRAZYFLIES[Preset.GPD]
P250 = CRAZYFLIES[Preset.P250]
KEY = jax.random.PRNGKey(0)


@pytest.mark.parametrize(("height", "gain"), [(0.0, 4 / 15), (0.0378, 4 / 15), (0.10, 0.03803), (1.0, 0.00038)])
def test_ground_adds_the_published_share_of_thrust(height: float, gain: float) -> None:
    own = np.array([0.05, 0.06, 0.07, 0.08], np.float32)
    added = jitted(air.ground_effect)(own, height, 1.0)
    np.testing.assert_allclose(np.asarray(added) / own, gain, rtol=3e-3)


def test_ground_pushes_only_drones_that_are_upright() -> None:
    added = np.asarray(jitted(air.ground_effect)(np.ones((3, 4)), np.full(3, 0.1), np.array([0.1, 0.0, -0.9])))
    assert (added[0] > 0).all()
    assert (added[1:] == 0).all()


def test_rotor_drag_at_hover_is_the_published_coefficient() -> None:
    hover = jax.jit(functools.partial(speed_for_thrust, GPD))(np.full(4, GPD.mass * GRAVITY / 4))
    force = np.asarray(jitted(air.rotor_drag)(np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, -1.0, 1.0]), hover))
    assert float(force[0]) == pytest.approx(-0.0056, abs=1e-4)  # N at 1 m/s
    assert float(force[1]) == pytest.approx(0.0056, abs=1e-4)
    assert float(force[2] / force[0]) == pytest.approx(10.311 / 9.1785, rel=1e-5)


def test_rotor_drag_belongs_to_the_body() -> None:
    drag, speed = jitted(air.rotor_drag), np.full(4, 15e3)
    pitched = np.array([np.cos(np.pi / 4), 0.0, np.sin(np.pi / 4), 0.0])  # body x points down, body z forward
    forward = jitted(rotate)(pitched, drag(pitched, np.array([1.0, 0.0, 0.0]), speed))
    upward = drag(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0]), speed)
    np.testing.assert_allclose(forward, [float(upward[2]), 0.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("preset", list(Preset))
def test_drag_is_the_identified_one_where_there_is_one(preset: Preset) -> None:
    drone, quat = CRAZYFLIES[preset], jnp.array([1.0, 0.0, 0.0, 0.0])
    velocity, speed = jnp.array([1.0, 2.0, 3.0]), jnp.full(4, 15e3)
    known = air.rotor_drag(quat, velocity, speed) if preset == Preset.GPD else body_drag(drone, quat, velocity)
    np.testing.assert_array_equal(air.drag(drone, quat, velocity, speed), known)


@pytest.mark.parametrize(("distance", "drop"), [(0.0, 0.3), (0.05, 0.3), (0.1, 1.0), (0.5, 2.0), (1.0, 9.0)])
def test_downwash_follows_the_published_formula_within_our_limits(distance: float, drop: float) -> None:
    alpha = 2267.18 * (0.0231348 / (4 * drop)) ** 2
    beta = 0.16 * drop - 0.11
    expected = alpha * np.exp(-0.5 * (distance / beta) ** 2)
    force = jitted(air.downwash_of_pairs)(np.array([0.6 * distance, -0.8 * distance, drop]))
    assert float(force) == pytest.approx(expected, rel=1e-3)


def test_downwash_is_finite_and_bounded_where_the_published_formula_is_not() -> None:
    wash, drops = jitted(air.downwash_of_pairs), np.append(np.linspace(0.0, 1.0, 2001), 0.6875)
    for distance in (0.0, 0.01, 0.1):
        offset = np.stack([np.full_like(drops, distance), np.zeros_like(drops), drops], -1)
        force = np.asarray(wash(offset))
        assert np.isfinite(force).all()
        assert (force >= 0).all()
        assert force.max() <= 4.6 * GPD.mass * GRAVITY
    narrow = float(wash(np.array([0.03, 0.0, 0.6875]))) / float(wash(np.array([0.0, 0.0, 0.6875])))
    assert narrow == pytest.approx(np.exp(-0.5), rel=1e-5)  # 3 cm wide


def test_only_drones_above_and_within_ten_metres_blow() -> None:
    offsets = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 0.0], [10.1, 0.0, 100.0], [9.9, 0.0, 100.0]])
    force = np.asarray(jitted(air.downwash_of_pairs)(offsets))
    assert (force[:3] == 0).all()
    assert force[3] > 0


def test_the_downwash_of_a_swarm_sums_over_pairs_and_lists_agree() -> None:
    count = 7
    positions = np.random.default_rng(0).uniform(0, (0.5, 0.5, 3.0), (count, 3)).astype(np.float32)
    dense = np.asarray(jax.jit(air.downwash)(positions))
    pairs = np.asarray(jax.jit(air.downwash_of_pairs)(positions[None] - positions[:, None])).sum(1)
    np.testing.assert_allclose(dense, pairs, rtol=1e-5)
    everyone = np.tile(np.arange(count + 2), (count, 1))  # two entries past the end
    listed = jax.jit(air.downwash_from)(positions, everyone, everyone < count)
    np.testing.assert_allclose(listed, dense, rtol=1e-6)
    assert dense.max() > 0.01


def test_gusts_have_the_published_deviation_and_length() -> None:
    wind, height, dt = Wind((6.0, 0.0, 0.0)), np.full(4000, 6.096, np.float32), 0.1  # 20 feet
    slope = 0.177 + 0.000823 * 20
    deviation = 0.1 * 6.0 * np.array([slope**-0.4, slope**-0.4, 1.0])
    length = 6.096 * np.array([slope**-1.2, slope**-1.2, 1.0])
    before = np.asarray(jax.jit(functools.partial(air.gust_start, wind))(KEY, height))
    after = np.asarray(jax.jit(functools.partial(air.gust, wind))(before, jax.random.PRNGKey(1), height, dt))
    np.testing.assert_allclose(np.std(before, axis=0), deviation, rtol=0.05)
    np.testing.assert_allclose(np.std(after, axis=0), deviation, rtol=0.05)
    kept = np.mean(before * after, axis=0) / np.var(before, axis=0)
    np.testing.assert_allclose(kept, np.exp(-dt * 6.0 / length), atol=0.02)


def test_a_gust_does_not_depend_on_the_time_step() -> None:
    step, height = jax.jit(functools.partial(air.gust, Wind((3.0, 0.0, 0.0)))), np.full(20_000, 3.0, np.float32)
    start = np.ones((20_000, 3), np.float32)
    once, many = np.asarray(step(start, KEY, height, 1.0)), start
    for key in jax.random.split(jax.random.PRNGKey(2), 10):
        many = np.asarray(step(many, key, height, 0.1))
    np.testing.assert_allclose(np.mean(once, 0), np.mean(many, 0), atol=0.02)
    np.testing.assert_allclose(np.std(once, 0), np.std(many, 0), rtol=0.03)


def test_without_wind_there_are_no_gusts() -> None:
    wind = Wind((0.0, 0.0, 0.0))
    start = np.asarray(jax.jit(functools.partial(air.gust_start, wind))(KEY, np.ones(3)))
    assert (start == 0).all()
    assert (np.asarray(jax.jit(functools.partial(air.gust, wind))(start, KEY, np.ones(3), 0.02)) == 0).all()


@pytest.mark.parametrize(("grams", "amperes"), [(0.0, 0.24), (10.9, 0.94), (32.8, 2.39), (57.9, 4.44)])
def test_the_battery_draws_the_measured_current(grams: float, amperes: float) -> None:
    current = air.battery_current(Battery(), jnp.asarray(grams * 9.81e-3))
    assert float(current) == pytest.approx(amperes, abs=0.045)


def test_the_battery_sags_with_charge_and_load() -> None:
    battery, hover = Battery(), P250.mass * GRAVITY
    strength_of = jax.jit(functools.partial(air.battery_strength, battery, P250))
    used = np.linspace(0.0, 3.6 * battery.capacity, 50)
    strength = np.asarray(strength_of(used, hover))
    assert strength[0] == pytest.approx(1.0, abs=1e-6)
    assert (np.diff(strength) < 0).all()
    assert 0.7 < strength[25] < 0.9
    assert float(strength_of(0.0, 1.5 * hover)) < 0.95


def test_a_hovering_crazyflie_empties_its_battery_in_about_seven_minutes() -> None:
    battery = Battery()
    used = air.battery_update(battery, jnp.zeros(()), jnp.asarray(P250.mass * GRAVITY), 7 * 60.0)
    assert 0.9 < float(used) / (3.6 * battery.capacity) < 1.2


def test_the_modes_are_those_of_gym_pybullet_drones() -> None:
    assert air.find_mode("PYB_GND_DRAG_DW") == MODES["pyb_gnd_drag_dw"]
    assert air.find_mode("pyb_gnd_drag_dw").effects == {Effect.GROUND, Effect.DRAG, Effect.DOWNWASH}
    assert not air.find_mode("pyb").effects
    assert not air.find_mode("dyn").effects
    assert {mode.preset for mode in MODES.values()} == {Preset.GPD}


def test_an_unknown_mode_names_those_that_exist() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown physics mode 'pyb_wind'.*pyb_gnd_drag_dw"):
        air.find_mode("pyb_wind")
