"""A rule for all drones: what it does to each, that it works for any number of them, that order comes from it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import embodied
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import SPEED
from tasks.swarm.dynamics.drones import Drones, still
from tasks.swarm.flocking.mean_field import Heard, MeanFieldFlock, MeanFieldFlockConfig
from tests.kit.hooks import blank
from tests.kit.worlds import jitted

TASK = "swarm/mean-field-flock"
FLOCK = MeanFieldFlock(MeanFieldFlockConfig(agents=20))

pytestmark = pytest.mark.timeout(200)


def test_a_rule_is_interpolated_between_its_angles() -> None:
    shares = np.asarray(jitted(FLOCK._kernels)(np.linspace(-np.pi, np.pi, 101, dtype=np.float32)))
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-5)
    assert shares.min() >= 0
    np.testing.assert_array_equal(np.argmax(jax.jit(FLOCK._kernels)(FLOCK.angles), 1), np.arange(8))
    np.testing.assert_allclose(shares[0], shares[-1], atol=1e-6)  # -pi and pi are one angle


def test_what_a_drone_hears_is_the_angle_to_the_mean_course() -> None:
    courses = np.where(np.arange(20) == 0, 0.0, 0.5 * np.pi)
    heard = jitted(FLOCK._hear)(flying(courses), jax.random.key(1))
    np.testing.assert_allclose(heard[0], 0.5 * np.pi, atol=1e-5)  # all others fly to the left of it
    assert (np.abs(np.asarray(heard[1:])) < 0.5).all()


def flying(courses: np.ndarray) -> Drones:
    """Drones in a row that fly these ways (A,) rad."""
    velocity = 0.5 * np.stack([np.cos(courses), np.sin(courses), 0 * courses], -1)
    row = np.stack([np.arange(len(courses)), 0 * courses, 0 * courses + 1.0], -1)
    return dataclasses.replace(still(jnp.asarray(row, jnp.float32)), vel=jnp.asarray(velocity, jnp.float32))


def test_the_rule_turns_drones_that_do_as_they_are_told_into_one_direction() -> None:
    turn = np.clip(np.asarray(FLOCK.angles) / (np.pi / 2), -1, 1)
    turn[0] = 0.0  # opposite: neither left nor right
    rule, straight = np.concatenate([turn, 0 * turn]), np.zeros(16, np.float32)
    state = blank(FLOCK).task_state
    state = dataclasses.replace(state, gap=np.full_like(state.gap, 9.0))  # nobody is in anybody's way

    def step(drones: Drones, rule: jax.Array, key: jax.Array) -> Drones:
        goal = Heard(state.goal.ordered_steps, FLOCK._hear(drones, key))
        now = dataclasses.replace(World.zeros(FLOCK.model), qpos=drones.qpos, qvel=drones.qvel)
        _, after = FLOCK.process_action(now, dataclasses.replace(state, goal=goal), rule, key)
        return dataclasses.replace(drones, vel=after.action[:, :3] * SPEED * jnp.array([1.0, 1.0, 0.0]))

    ordered = []
    for given in (straight, rule):
        drones = flying(np.random.default_rng(0).uniform(-np.pi, np.pi, 20))
        for key in jax.random.split(jax.random.key(0), 30):
            drones = jitted(step)(drones, given, key)
        ordered.append(np.linalg.norm(np.mean(np.asarray(drones.vel), 0)) / np.linalg.norm(drones.vel[0]))
    assert ordered[1] > 0.95 > 0.6 > ordered[0]


def test_one_policy_is_for_any_number_of_drones() -> None:
    small, large = (embodied.make(TASK, 2, "rigid", device="cpu", agents=agents) for agents in (12, 40))
    assert small.action_shape == large.action_shape == (2, 16)
    assert small.observation_spec["policy"].shape == large.observation_spec["policy"].shape == (11,)
    assert small.agents is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"level": "rates"}, r"level=rates; expected velocity"),
        ({"heard": 0}, r"heard=0, agents=200; expected at least 1, and 2 drones to hear each other"),
        ({"agents": 1}, r"heard=6, agents=1"),
        ({"bins": 1}, r"bins=1, concentration=4.0; expected at least 2"),
        ({"concentration": 0.0}, r"concentration=0.0; expected at least 2, and a positive number"),
    ],
)
def test_a_rule_that_is_none_is_refused(given, message) -> None:
    with pytest.raises(EmbodiedError, match=message):
        embodied.make(TASK, 2, **given)
