"""Drones fly the same on every engine: 2 s from one start under one row of rotor commands, open loop."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from benchmarks.flight_parity import EFFECTS, REFERENCE, Track, fly
from embodied.core.world import Control, ResetState
from embodied.engines import make_engine
from policies.training.loading import load_policy
from tasks.swarm.dynamics.drones import RADIUS, Drones
from tasks.swarm.dynamics.quadrotor import GRAVITY
from tasks.swarm.landing import Landing, LandingConfig

pytest.importorskip("pybullet", exc_type=ImportError)
pytestmark = pytest.mark.timeout(280)

FAR = 0.01  # m
TURNED = np.deg2rad(1.0)  # rad
FLIGHTS = [(agents, effects) for agents in (1, 3) for effects in EFFECTS]
CASES = [(engine, *flight) for engine in ("mujoco", "pybullet") for flight in FLIGHTS]
CASES_MJX = [
    # MJX takes half a minute to compile for each number of drones.
    pytest.param("mjx-jax", agents, effects, marks=[pytest.mark.slow] if agents > 1 else [])
    for agents, effects in FLIGHTS
]


@functools.cache
def reference(agents: int, effects: str) -> Track:
    return fly(REFERENCE, agents, EFFECTS[effects])


@pytest.mark.parametrize(("engine", "agents", "effects"), [*CASES, *CASES_MJX])
def test_two_seconds_of_open_loop_flight_agree(engine: str, agents: int, effects: str) -> None:
    """At every control step, the end included."""
    distance, angle = fly(engine, agents, EFFECTS[effects]).apart(reference(agents, effects))
    assert distance < FAR
    assert angle < TURNED


@pytest.mark.parametrize("agents", [1, 3])
def test_the_flight_shows_differences(agents: int) -> None:
    """Every drone travels, tilts and turns, and each effect moves the end by far more than engines may differ."""
    flights = [reference(agents, effects) for effects in ("none", "drag", "drag+ground")]
    for track in flights:
        assert track.way.min() > 0.5
        assert np.deg2rad(5) < track.tilt.min() <= track.tilt.max() < np.deg2rad(20)
        heading = 2 * np.unwrap(np.arctan2(track.quat[..., 3], track.quat[..., 0]), axis=0)
        assert np.abs(heading[-1] - heading[0]).min() > 1.0
    for more, less in zip(flights[1:], flights, strict=False):
        assert np.linalg.norm(more.pos[-1] - less.pos[-1], axis=-1).min() > 10 * FAR


def tumble(engine: str) -> Track:
    """Four thrown drones of `swarm/hover`, each in its own world, hovering blindly until the first one is lost."""
    env = embodied.make("swarm/hover", 4, engine, seed=1, device="cpu")
    env.reset()
    drones = [Drones.of(env.world())]
    while not env.step(torch.zeros(env.action_shape)).done.any():
        drones.append(Drones.of(env.world()))
    return Track(*(np.stack([getattr(one, name) for one in drones]) for name in ("pos", "quat")))


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_thrown_drones_tumble_as_on_rigid(engine: str) -> None:
    """500 Hz, tilted and spinning at the start, rotors uneven, a mass of one's own, read by sensors."""
    expected = tumble(REFERENCE)
    assert len(expected.pos) > 25  # control steps of 20 ms
    assert expected.tilt.max() > np.deg2rad(90)
    distance, angle = tumble(engine).apart(expected)
    assert distance < FAR
    assert angle < TURNED


def test_drones_of_one_bullet_world_push_each_other() -> None:
    """Two drones that hover meet at 1 m/s: their spheres touch, and come no nearer."""
    task = Landing(LandingConfig(agents=2))
    engine: Any = make_engine("pybullet", task, 1)
    qpos, qvel = task.model.qpos0.reshape(2, 7).copy(), np.zeros((2, 6))
    qpos[:, :3], qvel[:, 0] = [[-0.2, 0, 1], [0.2, 0, 1]], [0.5, -0.5]
    engine.reset(np.arange(1), ResetState(jnp.asarray(qpos.reshape(1, -1)), jnp.asarray(qvel.reshape(1, -1)), None))
    lift = jnp.zeros((1, 3, 6)).at[:, 1:, 2].set(GRAVITY * task.drone.mass)
    gaps = []
    for _ in range(round(0.5 / task.timing.physics_dt)):
        engine.step(Control(wrench=lift), 1)
        joints = engine.world().qpos.reshape(2, 7)
        gaps.append(joints[1, 0] - joints[0, 0])
    assert min(gaps) == pytest.approx(2 * RADIUS, abs=0.005)


def test_navigation_is_the_same_on_pybullet() -> None:
    """Its columns are mocap bodies: the shipped policy flies among them for a second."""
    paths = []
    for engine in ("mujoco", "pybullet"):
        env = embodied.make("swarm/navigation", 2, engine)
        expert, obs = load_policy("shipped", env), env.reset(0)
        for _ in range(round(1.0 / env.control_dt)):
            obs = env.step(expert(obs)).obs
        paths.append(np.asarray(env.world().qpos))
    np.testing.assert_allclose(paths[1], paths[0], atol=0.02)
