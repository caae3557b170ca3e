"""Drones fly the same on every engine: 2 s from one start under one row of rotor commands, open loop."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import embodied
from benchmarks.flight_parity import EFFECTS, REFERENCE, Track, fly
from embodied.core.world import Control, ResetState
from embodied.engines import make_engine
from embodied.robot.rotors import GRAVITY
from policies.training.loading import load_policy
from tasks.swarm.dynamics.crazyflie import RADIUS
from tasks.swarm.single.landing import Landing, LandingConfig
from tests.kit.budget import sharing
from tests.kit.scripts import flown
from tests.kit.worlds import task_of

pytest.importorskip("pybullet", exc_type=ImportError)
pytestmark = pytest.mark.timeout(280)

FAR = 0.01  # m
TURNED = np.deg2rad(1.0)  # rad
ALL = (3, "drag+ground")
CASES = [
    # Engines know nothing of effects. MJX takes half a minute to compile for each number of drones; that it takes
    # forces, a ball shows in a second.
    pytest.param(
        engine, agents, effects, marks=[] if engine != "mjx-jax" and (agents, effects) == ALL else pytest.mark.slow
    )
    for engine in ("mujoco", "pybullet", "mjx-jax")
    for agents in (1, 3)
    for effects in EFFECTS
]


@functools.cache
def reference(agents: int, effects: str) -> Track:
    with sharing(f"flight of {agents} on {REFERENCE}, {effects}"):
        return fly(REFERENCE, agents, EFFECTS[effects])


@pytest.mark.parametrize(("engine", "agents", "effects"), CASES)
def test_two_seconds_of_open_loop_flight_agree(engine: str, agents: int, effects: str) -> None:
    """At every control step, the end included."""
    distance, angle = fly(engine, agents, EFFECTS[effects]).apart(reference(agents, effects))
    assert distance < FAR
    assert angle < TURNED


@pytest.mark.slow
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
    """A thrown drone of `swarm/hover`, hovering blindly until it is lost."""
    places = np.asarray(flown(task_of("swarm/hover"), engine, np.zeros((40, 4)), seed=1).worlds.qpos)[:, None]
    lost = np.argmin(places[:, 0, 2] > 0.1) or len(places)
    return Track(places[:lost, :, :3], places[:lost, :, 3:])


@pytest.fixture(scope="module")
def expected() -> Track:
    return tumble(REFERENCE)


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_thrown_drones_tumble_as_on_rigid(engine: str, expected: Track) -> None:
    """500 Hz, tilted and spinning at the start, rotors uneven, a mass of one's own, read by sensors."""
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


@pytest.mark.slow
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
