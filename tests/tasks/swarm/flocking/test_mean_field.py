"""A rule for all drones: what it does to each, that it works for any number of them, that order comes from it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.errors import EmbodiedError
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.flocking.mean_field import MeanFieldFlock, MeanFieldFlockConfig

TASK = "swarm/mean-field-flock"

pytestmark = pytest.mark.timeout(200)


def towards_the_others(task: Any) -> torch.Tensor:
    """The rule by which every drone turns to where the others fly, as far as a rule can turn it."""
    turn = torch.as_tensor(task.angles).div(np.pi / 2).clamp(-1, 1)
    turn[0] = 0.0  # opposite: neither left nor right
    return torch.cat([turn, torch.zeros_like(turn)])


def test_a_rule_is_interpolated_between_its_angles() -> None:
    task = MeanFieldFlock(MeanFieldFlockConfig(agents=20))
    shares = np.asarray(task._kernels(jnp.linspace(-np.pi, np.pi, 101)))
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-5)
    assert shares.min() >= 0
    np.testing.assert_array_equal(np.argmax(task._kernels(jnp.asarray(task.angles)), 1), np.arange(8))
    np.testing.assert_allclose(shares[0], shares[-1], atol=1e-6)  # -pi and pi are one angle


def test_what_a_drone_hears_is_the_angle_to_the_mean_course() -> None:
    task = MeanFieldFlock(MeanFieldFlockConfig(agents=20))
    start = task.reset(jax.random.key(0))
    drones = Drones(*(jnp.asarray(part) for part in parts_of(start.qpos, start.qvel)))
    courses = jnp.where(jnp.arange(20) == 0, 0.0, 0.5 * jnp.pi)
    velocity = 0.5 * jnp.stack([jnp.cos(courses), jnp.sin(courses), jnp.zeros(20)], -1)
    heard = task._hear(Drones(drones.pos, drones.quat, velocity, drones.angvel), jax.random.key(1))
    np.testing.assert_allclose(heard[0], 0.5 * np.pi, atol=1e-5)  # all others fly to the left of it
    assert (np.abs(np.asarray(heard[1:])) < 0.5).all()


def parts_of(qpos, qvel):
    """(A, ...) position, quaternion, velocity and body rates from the joints of a swarm."""
    pose, twist = qpos.reshape(-1, 7), qvel.reshape(-1, 6)
    return pose[:, :3], pose[:, 3:], twist[:, :3], twist[:, 3:]


def test_one_policy_is_for_any_number_of_drones() -> None:
    small, large = (embodied.make(TASK, 2, "rigid", device="cpu", agents=agents) for agents in (12, 40))
    assert small.action_shape == large.action_shape == (2, 16)
    assert small.reset()["policy"].shape == large.reset()["policy"].shape == (2, 11)
    assert small.agents is None


def test_drones_that_turn_to_where_others_fly_come_to_fly_in_one_direction() -> None:
    env = embodied.make(TASK, 2, "rigid", device="cpu", agents=40)
    ordered = {}
    for name, rule in (("straight", torch.zeros(16)), ("aligned", towards_the_others(env.task))):
        obs = env.reset(seed=0)
        for _ in range(240):
            obs = env.step(rule.expand(env.action_shape)).obs
        ordered[name] = obs["policy"][:, 9].min().item()
    assert ordered["aligned"] > 0.95 > 0.6 > ordered["straight"]


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
