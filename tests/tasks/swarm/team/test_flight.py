"""Effects in flight: each, switched on by its name, does to drones on hover thrust what it is known to do."""

from __future__ import annotations

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.robot.rotors import GRAVITY
from tasks.swarm.control.levels import LEVELS, Level
from tasks.swarm.dynamics.aerodynamics import Effect
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.drones import Drones, still
from tasks.swarm.multi.formation import Formation, FormationConfig
from tasks.swarm.team.flight import DENSE, Flight, Physics

P250 = CRAZYFLIES[Preset.P250]
DT = 1 / 240  # s


@cache
def fly(
    effects: tuple[Effect, ...], starts: tuple[tuple[float, float, float], ...], seconds: float = 1.0
) -> np.ndarray:
    """(steps, A, 13) positions, orientations, velocities of drones that begin at rest, rotors at hover thrust."""
    physics = Physics(P250, LEVELS[Level.ROTORS], frozenset(effects), len(starts), DT, 5 * DT)
    drones = still(jnp.asarray(starts))
    flight = physics.start(drones, jax.random.PRNGKey(0))
    rotors = jnp.zeros((len(starts), 4))

    def step(carry: tuple[Drones, Flight], key: jax.Array) -> tuple[tuple[Drones, Flight], jax.Array]:
        drones, flight = carry
        flight = physics.prepare(drones, flight, key)
        wrench, flight = physics.wrench(drones, flight, rotors)
        # No torque acts on drones that hover level, so their motion is that of points.
        vel = drones.vel + DT * (wrench[1:, :3] / P250.mass - jnp.array([0.0, 0.0, GRAVITY]))
        drones = dataclasses.replace(drones, pos=drones.pos + DT * vel, vel=vel)
        return (drones, flight), jnp.concatenate([drones.pos, drones.quat, drones.vel, wrench[1:, 3:]], 1)

    keys = jax.random.split(jax.random.PRNGKey(1), int(seconds / DT))
    return np.asarray(jax.jit(lambda carry: jax.lax.scan(step, carry, keys)[1])((drones, flight)))


HIGH = ((0.0, 0.0, 2.0),)


def test_without_effects_hover_thrust_holds_a_drone() -> None:
    path = fly((), HIGH)
    np.testing.assert_allclose(path[:, 0, :3], [HIGH[0]] * len(path), atol=1e-3)
    np.testing.assert_allclose(path[:, 0, 10:], 0.0, atol=1e-8)


def test_the_floor_lifts() -> None:
    low = ((0.0, 0.0, 0.05),)
    assert fly((Effect.GROUND,), low)[-1, 0, 2] > fly((), low)[-1, 0, 2] + 0.1
    np.testing.assert_allclose(fly((Effect.GROUND,), HIGH)[-1, 0, 2], 2.0, atol=2e-3)


def test_a_drone_above_presses_down_the_one_below_only() -> None:
    stack = ((0.0, 0.0, 1.2), (0.0, 0.0, 2.0))
    path = fly((Effect.DOWNWASH,), stack)
    assert path[-1, 0, 2] < 1.0
    assert path[-1, 1, 2] == pytest.approx(2.0, abs=2e-3)
    aside = fly((Effect.DOWNWASH,), ((0.0, 0.0, 1.2), (1.5, 0.0, 2.0)))
    assert aside[-1, 0, 2] == pytest.approx(1.2, abs=2e-3)


def test_wind_carries_along() -> None:
    path = fly((Effect.DRAG, Effect.WIND), HIGH, 2.0)
    assert path[-1, 0, 7] > 0.3  # m/s, downwind: the drone's time constant is m / D = 2.4 s
    assert fly((Effect.WIND,), HIGH, 2.0)[-1, 0, 7] == pytest.approx(0.0, abs=1e-5)  # wind acts through drag


def test_a_battery_sags() -> None:
    path = fly((Effect.BATTERY,), HIGH, 2.0)
    assert path[-1, 0, 2] < 2.0
    assert (np.diff(path[10:, 0, 9]) < 0).all()  # it falls faster and faster


def test_lists_of_neighbours_find_the_same_wash_as_all_pairs() -> None:
    rng = np.random.default_rng(0)
    pos = jnp.asarray(rng.uniform([-2, -2, 0.5], [2, 2, 4], (DENSE + 16, 3)), jnp.float32)
    physics = Physics(P250, LEVELS[Level.ROTORS], frozenset({Effect.DOWNWASH}), len(pos), DT, 5 * DT)
    assert physics.lists
    drones = still(pos)

    @jax.jit
    def washes() -> tuple[jax.Array, jax.Array]:
        flight = physics.prepare(drones, physics.start(drones, jax.random.PRNGKey(0)), jax.random.PRNGKey(1))
        return physics._wash(drones, flight), dataclasses.replace(physics, agents=DENSE)._wash(drones, flight)

    listed, dense = map(np.asarray, washes())
    # The lists keep the eight that blow hardest.
    assert np.abs(listed - dense).max() < 0.02 * P250.mass * GRAVITY
    assert dense.max() > 0.1 * P250.mass * GRAVITY


def test_modes_of_gym_pybullet_drones_are_its_drone_and_its_effects() -> None:
    task = Formation(FormationConfig(agents=2, mode="PYB_GND_DRAG_DW"))
    assert task.drone == CRAZYFLIES[Preset.GPD]
    assert task.physics.effects == {Effect.GROUND, Effect.DRAG, Effect.DOWNWASH}
