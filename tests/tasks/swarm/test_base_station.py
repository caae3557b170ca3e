"""Base stations that share one power and one band."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.swarm.dynamics.drones import still
from tasks.swarm.multi.base_station import LEAST, SNR_AT_1M, BaseStation, BaseStationConfig, Radio, shares
from tests.kit.hooks import blank
from tests.kit.worlds import jitted

pytestmark = pytest.mark.timeout(240)
TASK = BaseStation(BaseStationConfig(radio=Radio.SHARED, users=5, seen=5))
USERS = np.array([[1.0, 1.0], [1.2, 0.8], [-1.0, 1.0], [-1.0, -1.0], [2.0, -1.0]])
DRONES = still(jnp.array([[1.0, 1.0, 1.0], [-1.0, 0.8, 1.0], [-1.0, -1.0, 0.7], [1.5, -1.0, 0.9]]))


def rates(wanted: np.ndarray) -> np.ndarray:
    """(U,) bit/s of each person, by the stations' wishes (A, 2)."""
    action = jnp.pad(jnp.asarray(wanted), ((0, 0), (TASK.level.size, 0)))
    return np.asarray(jitted(TASK._received)(DRONES, jnp.asarray(USERS), action).rate)


def test_shares_add_up_to_one_and_none_is_silent():
    wanted = jax.random.uniform(jax.random.PRNGKey(0), (50, 4, 2), minval=-1.0)
    got = np.asarray(jax.jit(jax.vmap(shares))(wanted))
    np.testing.assert_allclose(got.sum(1), 1.0, rtol=1e-5)
    assert got.min() > LEAST / 4
    np.testing.assert_allclose(shares(jnp.full((4, 2), -1.0)), 0.25, rtol=1e-6)


def test_rates_are_shannons_of_what_each_person_gets():
    wanted = np.random.default_rng(0).uniform(-1, 1, (4, 2))
    power, band = np.asarray(shares(jnp.asarray(wanted))).T
    far = np.linalg.norm(np.asarray(DRONES.pos)[:, None] - np.pad(USERS, ((0, 0), (0, 1))), axis=-1)
    station = far.argmin(0)
    assert station.tolist() == [0, 0, 1, 2, 3]
    for person, (own, found) in enumerate(zip(station, rates(wanted), strict=True)):
        hertz = len(USERS) * band[own] / (station == own).sum()
        signal = SNR_AT_1M * power[own] / band[own] / far[own, person] ** 2
        assert found == pytest.approx(hertz * np.log2(1 + signal), rel=1e-4)


@pytest.mark.parametrize("what", [0, 1])
def test_what_one_station_gets_more_of_the_others_get_less(what):
    wanted = np.zeros((4, 2))
    equal = rates(wanted)
    wanted[0, what] = 0.8
    changed = rates(wanted)
    assert (changed[:2] > equal[:2]).all()
    assert (changed[2:] < equal[2:]).all()


def test_stations_command_two_numbers_more_and_see_what_they_saw():
    task, own = BaseStation(BaseStationConfig(radio=Radio.SHARED)), BaseStation()
    assert task.action_size == 6
    assert task.operator is not None
    assert len(task.operator.setpoints) == 6
    assert task.observation_terms == own.observation_terms
    size = sum(shape[-1] for shape in task.observation_terms["policy"].values())
    seen = np.random.default_rng(0).uniform(-1, 1, (task.config.agents, size)).astype(np.float32)
    greedy = np.asarray(jitted(task.expert)({"policy": seen}, blank(task).task_state))
    np.testing.assert_array_equal(greedy[:, 4:], 1.0)


def test_who_wants_by_load_gives_more_to_those_who_get_least():
    load = np.array([2, 1, 1, 1]) / 5
    assert rates(np.tile(2 * load[:, None] - 1, (1, 2))).min() > 1.1 * rates(np.ones((4, 2))).min()
