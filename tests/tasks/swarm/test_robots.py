"""`swarm/hover` and `swarm/trajectory` with robots by name and by file."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from benchmarks.firefly import description, urdf
from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.robot.rotors import GRAVITY
from embodied.storage.paths import asset
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.aerodynamics import Effect
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, RADIUS, Preset
from tasks.swarm.dynamics.drones import still as still_drones
from tasks.swarm.dynamics.robots import MODEL, drone_robot
from tasks.swarm.single.hover import HEIGHT, Hover, HoverConfig
from tasks.swarm.single.trajectory import Trajectory, TrajectoryConfig
from tests.kit.hooks import blank, partly
from tests.kit.robots import multirotor, quadruped, thrusters
from tests.kit.scripts import flown
from tests.kit.worlds import jitted

pytestmark = pytest.mark.timeout(280)

CALM: dict[str, Any] = {"start_distance": 0.0, "start_tilt": 0.0, "start_speed": 0.0, "start_spin": 0.0, "noise": False}
EVEN: dict[str, Any] = {"thrust_spread": 0.0, "mass_spread": 0.0}


@pytest.fixture(scope="module")
def firefly(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("firefly")
    (folder / "robot.toml").write_text(description())
    (folder / "firefly.urdf").write_text(urdf())
    return str(folder / "firefly.urdf")


@pytest.fixture(scope="module")
def calm(firefly: str) -> Hover:
    """A hexarotor that begins at rest where it shall hover."""
    return Hover(HoverConfig(robot=firefly, **CALM, **EVEN))


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_a_hexarotor_hangs_in_the_air_under_zero_actions(calm: Hover, engine: str) -> None:
    """Rotors that start unevenly tilt it a little before they have reached hover, so it hangs for half a second."""
    assert calm.action_size == 6
    places = flown(calm, engine, np.zeros((25, 6))).worlds["position"]
    np.testing.assert_allclose(places[-1], calm.target, atol=0.15)
    assert (places[:, 2] > calm.floor).all()


def test_open_loop_flight_of_a_hexarotor_agrees_between_engines(calm: Hover) -> None:
    actions = 0.2 * np.random.default_rng(0).normal(size=(25, 6))
    ends = [np.asarray(flown(calm, engine, actions).worlds.qpos[-1]) for engine in ("rigid", "mujoco")]
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-3)
    assert np.abs(ends[0][3:] - [1, 0, 0, 0]).max() > 0.1


def test_each_rotor_idles_hovers_and_gives_all(firefly: str) -> None:
    task = Hover(HoverConfig(robot=firefly))
    action = np.array([-1.0, 0, 1, 0.5, 0, 0], np.float32)
    speed, _ = jitted(task.process_action)(None, blank(task).task_state, action, jax.random.key(0))
    fraction = np.asarray(speed) ** 2
    hover = task.drone.hover_fraction[0]
    np.testing.assert_allclose(fraction, [0, hover, 1, (1 + hover) / 2, hover, hover], atol=1e-5)


def test_what_turns_less_readily_starts_calmer_and_higher(firefly: str, tmp_path: Path) -> None:
    small, large = Hover(HoverConfig()), Hover(HoverConfig(robot=firefly))
    assert (small.agility, small.target[2], small.floor) == (1.0, HEIGHT, 0.05)
    assert 0.3 < large.agility < 0.6
    assert HEIGHT + 0.3 < large.target[2] <= 3.0
    assert large.floor == pytest.approx(0.08, abs=0.01)
    spins = partly(jax.vmap(large.reset), lambda start: start.qvel[:, 3:])(jax.random.split(jax.random.key(0), 256))
    assert 0.9 < float(jnp.abs(spins).max()) / (2 * large.agility) <= 1.0


def test_the_crazyflie_by_name_or_by_file_is_the_default() -> None:
    for robot in ("crazyflie", str(asset(MODEL))):
        near_floor = TrajectoryConfig(robot=robot, effects=(Effect.GROUND,))
        for task in (Hover(HoverConfig(robot=robot)), Trajectory(near_floor)):
            assert task.drone is CRAZYFLIES[Preset.P250]
            assert (task.robot.name, task.robot.radius) == ("crazyflie", RADIUS)
    assert drone_robot("crazyflie", Preset.B500).drone is CRAZYFLIES[Preset.B500]


def test_the_description_of_the_crazyflie_flies_as_its_preset(tmp_path: Path) -> None:
    """As a user's file: its curves are quadratic and its lag one number, so not to the last digit."""
    shutil.copytree(asset(MODEL).parent, tmp_path / "copy")
    own, file = (Hover(HoverConfig(robot=robot)) for robot in ("", str(tmp_path / "copy" / "crazyflie.xml")))
    preset = CRAZYFLIES[Preset.P250]
    assert own.drone is preset
    assert not file.drone.crazyflie
    assert file.agility == pytest.approx(1.0, rel=1e-3)
    assert file.drone.mass == preset.mass
    np.testing.assert_allclose(file.drone.inertia, preset.inertia, rtol=1e-6)
    np.testing.assert_allclose(file.drone.hover_fraction, preset.hover_fraction, rtol=1e-4)

    def wrench_of(task: Hover) -> Callable[[Any], Any]:
        state = blank(task).task_state
        return partly(
            lambda action: task.process_action(None, state, action, jax.random.key(0))[0],  # type: ignore[arg-type]
            lambda speed: jnp.concatenate(task.drone.wrench(speed)),
        )

    wrenches_of = [wrench_of(task) for task in (own, file)]
    for action in ([0.0] * 4, [0.3, 0.3, -0.2, -0.2], [0.2, -0.2, 0.2, -0.2]):
        wrenches = [np.asarray(wrench(np.array(action, np.float32))) for wrench in wrenches_of]
        np.testing.assert_allclose(wrenches[1][:5], wrenches[0][:5], rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(wrenches[1][5], wrenches[0][5], rtol=0.02, atol=1e-6)


def test_the_velocity_level_holds_a_hexarotor_up_and_turns_it_as_it_does_a_crazyflie(firefly: str) -> None:
    """The wrench of a command after a control step, by its weight and inertia."""
    pushed = []
    for robot in ("", firefly):
        task = Trajectory(TrajectoryConfig(level=Level.VELOCITY, robot=robot, effects=(), **EVEN))
        drones = still_drones(jnp.array([[0.0, 0.0, 1.0]]))
        world = dataclasses.replace(World.zeros(task.model), qpos=drones.qpos, qvel=drones.qvel)
        state = dataclasses.replace(
            blank(task).task_state, flight=jax.jit(task.physics.start)(drones, jax.random.key(0))
        )
        process, apply = jax.jit(task.process_action), jax.jit(task.apply_action)
        for action in 0.1 * np.eye(4, dtype=np.float32)[:3, None]:
            command, flying = process(world, state, action, jax.random.key(0))
            wrench = np.zeros(6)
            for _ in range(task.timing.substeps):
                control, flying = apply(world, flying, command)
                wrench = np.asarray(control.wrench[1])
            scale = np.array([*[task.drone.mass * GRAVITY] * 3, *np.asarray(task.drone.inertia)])
            pushed.append(wrench / scale)
    small, large = np.array(pushed).reshape(2, 3, 6)
    assert (large[:, 2] > 0.8).all()
    assert (np.sign(large[0, 4]), np.sign(large[1, 3])) == (np.sign(small[0, 4]), np.sign(small[1, 3]))
    assert large[2, 2] > large[0, 2]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["velocity", "position"])
def test_the_crazyflies_controllers_fly_a_hexarotor(firefly: str, level: str) -> None:
    """As near to a figure of eight as they keep a Crazyflie, for three seconds."""
    errors = []
    for robot in ("", firefly):
        options: dict[str, Any] = {"level": level, "path": "eight", "robot": robot, **EVEN}
        env = embodied.make("swarm/trajectory", 16, "rigid", seed=1, device="cpu", **options)
        step, observation = None, env.reset()
        expert = jax.jit(jax.vmap(env.task.expert))
        for _ in range(144):
            state = env.task_state
            action = expert({"policy": jnp.asarray(observation["policy"].numpy())}, state)
            step = env.step(torch.from_numpy(np.array(action)))
            observation = step.obs
            assert not step.terminated.any()
        point = np.asarray(env.task_state.goal.point)[:, 0]
        errors.append(np.linalg.norm(np.asarray(env.world().qpos)[:, :3] - point, axis=1).mean())
    assert errors[1] < 1.3 * errors[0] + 0.05


def test_a_rotor_that_leans_alone_is_refused(tmp_path: Path) -> None:
    """By 30 degrees: the other three cannot make up for its sideways thrust."""
    file = tmp_path / "t.xml"
    file.write_text(thrusters())
    with pytest.raises(EmbodiedError, match="its 4 rotors cannot hold it level in the air without"):
        embodied.make("swarm/hover", 1, "rigid", robot=str(file))


def test_other_robots_and_other_air_are_refused(tmp_path: Path, firefly: str) -> None:
    file = tmp_path / "q.urdf"
    file.write_text(quadruped())
    for task in ("hover", "trajectory"):
        with pytest.raises(EmbodiedError, match=r"understood as a legged robot; expected a multirotor"):
            embodied.make(f"swarm/{task}", 1, "rigid", robot=str(file))
    (tmp_path / "odd").mkdir()
    odd = tmp_path / "odd" / "odd.urdf"
    odd.write_text(multirotor(3))
    (odd.parent / "robot.toml").write_text("spin = [1, -1, 1]")
    with pytest.raises(EmbodiedError, match=r"odd.urdf: its 3 rotors cannot hold it level"):
        embodied.make("swarm/hover", 1, "rigid", robot=str(odd))
    with pytest.raises(EmbodiedError, match=r"effects=ground with robot .*firefly.urdf; expected effects of drag and"):
        embodied.make("swarm/trajectory", 1, "rigid", robot=firefly, effects=("drag", "ground"))
    with pytest.raises(EmbodiedError, match=r"mode=pyb_gnd with robot .*firefly.urdf"):
        embodied.make("swarm/trajectory", 1, "rigid", robot=firefly, mode="pyb_gnd")


def test_the_file_is_found_wherever_a_run_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for config in (HoverConfig(robot="m.urdf"), TrajectoryConfig(robot="m.urdf")):
        assert config.robot == str(tmp_path / "m.urdf")


def test_several_large_drones_keep_apart_by_their_size(firefly: str) -> None:
    task = Trajectory(TrajectoryConfig(agents=2, robot=firefly))
    assert task.radius == pytest.approx(1.5 * 0.218, abs=0.005)
    assert task.model.nbody == 3
    np.testing.assert_allclose(task.model.body_mass[1:], 1.53, rtol=1e-6)
