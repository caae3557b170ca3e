"""A robot from a file goes the whole way: its bundle, its file, and the simulated robots that the bundle runs on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

from embodied import list as listed
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from policies.networks.build import make_actor
from policies.networks.mlp import NetworkConfig
from policies.policy import NormalizedActor, Policy
from sim2real import deploy, export
from sim2real.bundles import bundle
from sim2real.bundles.contents import contents
from sim2real.contract import document
from sim2real.contract.limits import limits_of
from sim2real.deployment.controllers import Controller
from sim2real.graphs.describe import Described, describe
from sim2real.graphs.tracing.from_torch import PolicyNodes
from sim2real.robots import registry
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.robot_model import RobotModel
from sim2real.robots.simulation.simulated import SimulatedOptions
from tests.kit.bundles import contract_of, stored_run
from tests.kit.commands import refused
from tests.kit.fakes import given
from tests.kit.robots import arm, biped, quadruped

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.timeout(280), pytest.mark.usefixtures("collector")]

TASK = "locomotion/velocity"
FAST = ["--no-realtime", "--soft-start", "0.1", "--seconds", "0.3", "--safety.max-tilt", "1.5"]


def task_of(file: Path, **options: Any) -> Any:
    kind: Any = join_content()[TASK].load()
    return kind(kind.config_type(robot=str(file), **options))


def quiet_policy(inputs: int, actions: int) -> Policy:
    """An untrained policy of small actions, which leaves a robot standing."""
    config = NetworkConfig((8,), output_gain=0.01)
    actor = make_actor(inputs, actions, config, generator=torch.Generator().manual_seed(0))
    return Policy(NormalizedActor(actor, torch.zeros(inputs), torch.ones(inputs), 5.0), config)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A quadruped's file and its bundle; tests work on copies."""
    folder = tmp_path_factory.mktemp("own")
    file = folder / "spot.urdf"
    file.write_text(quadruped())
    task = task_of(file)
    export.write(folder / "bundle", quiet_policy(*sizes(task)), task, TASK)
    return file, folder / "bundle"


def sizes(task: Any) -> tuple[int, int]:
    """Numbers that a policy of the task observes, and gives."""
    terms = task.observation_terms["policy"].values()
    return sum(math.prod(shape) for shape in terms), task.action_size


@pytest.fixture
def copied(original: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A file and a bundle of its own, as if it had been trained with."""
    file = Path(shutil.copy(original[0], tmp_path / "spot.urdf"))
    made = described_at(original[0])
    contract = dataclasses.replace(made.contract, model=dataclasses.replace(given(made.contract.model), path=str(file)))
    made = dataclasses.replace(made, contract=contract)
    export.finished(tmp_path / "bundle", *contents(made), contract)
    return file, tmp_path / "bundle"


@functools.cache
def described_at(file: Path) -> Described:
    """The control step of the quadruped under a quiet policy."""
    task = task_of(file)
    return describe(task, TASK, PolicyNodes(quiet_policy(*sizes(task))))


def test_the_contract_says_what_the_file_says(original: tuple[Path, Path]) -> None:
    file, folder = original
    made = bundle.load(folder)
    contract, task = made.contract, task_of(file)
    names = [joint.name for joint in contract.joints]
    assert names == list(task.robot.joint_names) == [actuator.joint for actuator in contract.actuators]
    assert contract.robot == "spot"
    assert given(contract.model).sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert given(contract.model).path == str(file)
    model = task.model
    for joint, actuator in zip(contract.joints, contract.actuators, strict=True):
        servo, part = model.actuator(actuator.name), model.joint(joint.name)
        assert (actuator.stiffness, actuator.damping) == (servo.gainprm[0], -servo.biasprm[2])
        assert actuator.max_effort == 30
        assert joint.max_velocity == 10
        np.testing.assert_allclose((joint.lower, joint.upper), part.range, rtol=1e-6)
        assert joint.lower <= actuator.lower + 1e-6
        assert actuator.upper <= joint.upper + 1e-6
        assert actuator.lower <= actuator.offset <= actuator.upper
    np.testing.assert_allclose(contract.row("offset"), task.layout.stance, atol=1e-6)
    np.testing.assert_allclose(contract.joint_row("default"), task.layout.home, atol=1e-6)
    text = (folder / "README.md").read_text()
    assert given(contract.model).sha256 in text
    assert "--robot-file" in text


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The task of a biped from a file."""
    file = tmp_path_factory.mktemp("walker") / "walker.urdf"
    file.write_text(biped())
    kind: Any = join_content()["locomotion/velocity-biped"].load()
    return kind(kind.config_type(robot=str(file)))


def test_a_bipeds_clock_goes_with_its_height(walker: Any) -> None:
    contract = describe(walker, "locomotion/velocity-biped").contract
    clock = next(term for term in contract.terms if term.name == "phase")
    assert f"{walker.step_rate:g} turns a second" in clock.meaning
    limits = walker.velocities.limits
    assert [(number.lower, number.upper) for number in contract.command] == [(-limit, limit) for limit in limits]


def test_joints_come_in_the_owners_order(original: tuple[Path, Path], tmp_path: Path) -> None:
    usual = [joint.name for joint in bundle.load(original[1]).contract.joints]
    file = Path(shutil.copy(original[0], tmp_path / "spot.urdf"))
    (tmp_path / "robot.toml").write_text(f"joints = {usual[::-1]}\n")
    turned = describe(task_of(file), TASK).contract
    assert [joint.name for joint in turned.joints] == usual[::-1]
    assert given(turned.model).description


def test_a_bundle_of_our_robots_is_written_as_ever() -> None:
    assert json.loads(document.contract_text(contract_of("swarm/hover")))["model"] is None


@pytest.mark.parametrize("engine", ["mujoco", pytest.param("pybullet", marks=pytest.mark.slow)])
def test_a_bundle_runs_on_simulated_robots(original: tuple[Path, Path], engine: str, tmp_path: Path) -> None:
    if engine == "pybullet":
        pytest.importorskip("pybullet")
    result = tmp_path / "run.json"
    assert deploy.main([str(original[1]), "--robot", engine, *FAST, "--json", str(result)]) == 0
    said = json.loads(result.read_text())
    assert said["task"]["seconds"] == pytest.approx(0.3)
    assert not said["task"]["failed"]
    assert math.isfinite(said["task"]["metrics"]["velocity_error"])


def test_a_bundle_moves_the_robot_in_pybullet_too(original: tuple[Path, Path]) -> None:
    pytest.importorskip("pybullet")
    contract = bundle.load(original[1]).contract
    robot = registry.connect("pybullet", contract, SimulatedOptions(realtime=False, noise=0.0))
    positions = []
    for target in (contract.row("offset"), contract.row("offset") + 0.2):
        robot.write(target)
        robot.sleep_until(robot.now() + 0.3)
        positions.append(given(robot.read().joint_pos))
    assert 0.1 < np.mean(positions[1] - positions[0]) < 0.3


def test_the_simulated_robot_observes_as_the_task(original: tuple[Path, Path]) -> None:
    contract = bundle.load(original[1]).contract
    built: Any = registry.connect("mujoco", contract, SimulatedOptions(realtime=False, noise=0.0))
    task, world = built.model.task, built.simulation.world
    state = dataclasses.replace(built.model.start(0).task_state, command=np.array([0.4, 0.1, -0.2], np.float32))
    shown = task.observe(world, state, jax.random.key(0))["policy"].values()
    theirs = np.concatenate([np.ravel(part) for part in shown])
    ours, _, _ = Controller(bundle.load(original[1])).decide(built.read(), np.array([0.4, 0.1, -0.2]))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_file_that_was_moved_is_asked_for_and_found(copied: tuple[Path, Path]) -> None:
    file, folder = copied
    contract = bundle.load(folder).contract
    moved = file.parent / "elsewhere"
    moved.mkdir()
    file.rename(moved / "renamed.urdf")
    assert len(contract.actuators) == 8  # it needs no file to be read
    with pytest.raises(EmbodiedError, match=r"model file .*spot\.urdf is no longer there; .* --robot-file FILE"):
        RobotModel(contract, ModelMismatch())
    with pytest.raises(EmbodiedError, match=r"none\.urdf does not exist"):
        RobotModel(contract, ModelMismatch(), moved / "none.urdf")
    settings = deploy.parse([str(folder), "--no-realtime", "--robot-file", str(moved / "renamed.urdf")])
    assert registry.connect("mujoco", contract, settings.driver).read().joint_pos is not None


def test_a_file_that_was_changed_is_refused(copied: tuple[Path, Path]) -> None:
    file, folder = copied
    contract = bundle.load(folder).contract
    (file.parent / "robot.toml").write_text('kp = { "*" = 50 }\n')
    with pytest.raises(EmbodiedError, match=r"robot\.toml is new since the policy was trained"):
        RobotModel(contract, ModelMismatch())
    (file.parent / "robot.toml").write_text("# nothing\n")
    RobotModel(contract, ModelMismatch())
    file.write_text(quadruped(effort="31"))
    with pytest.raises(EmbodiedError, match=r"not the file that the policy was trained with: its sha256 is"):
        RobotModel(contract, ModelMismatch())


def test_what_does_not_go_together_is_one_line(copied: tuple[Path, Path]) -> None:
    _, folder = copied
    with pytest.raises(EmbodiedError, match=r"--robot-file x\.urdf: the crazyflie of this policy comes with embodied"):
        RobotModel(contract_of("swarm/hover"), ModelMismatch(), Path("x.urdf"))
    broken = json.loads((folder / "contract.json").read_text())
    broken["model"]["path"] = 7
    with pytest.raises(EmbodiedError, match="path is 7; expected text"):
        bundle.read_contract(json.dumps(broken).encode(), folder)
    assert "of which task?" in refused(listed.main, "--robot", "x.urdf")


def test_a_run_is_exported_with_its_file_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spot.urdf"
    file.write_text(quadruped())
    task = task_of(file)
    run = stored_run(tmp_path, TASK, task.config, quiet_policy(*sizes(task)))
    out = tmp_path / "bundle"
    assert export.main([str(run.path), "--out", str(out)]) == 0
    assert "spot, of spot.urdf" in capsys.readouterr().out
    file.rename(tmp_path / "moved.urdf")
    assert "spot.urdf does not exist" in refused(export.main, str(run.path), "--out", str(out))
    _, found, name = export.trained(str(run.path), tmp_path / "moved.urdf")
    assert name == TASK
    assert found.config.robot == str(tmp_path / "moved.urdf")


def test_a_task_is_described_for_its_robot(tmp_path: Path) -> None:
    file = tmp_path / "spot.urdf"
    file.write_text(quadruped())
    row = listed.describe(TASK, file)
    assert row["action_size"] == 8
    assert row["observations"]["policy"]["joint_pos"] == [8]
    assert {"floor_friction", "latency", "encoder_bias"} <= set(row["variations"])
    with pytest.raises(EmbodiedError, match="no field 'robot'"):
        listed.describe("swarm/formation", file)


def test_limits_are_the_files(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(arm(joints=3))
    limits = limits_of(str(file))
    assert limits.names == ("j1", "j2", "j3")
    np.testing.assert_allclose(limits.torque, 30)
    np.testing.assert_allclose(limits.speed, 10)
    np.testing.assert_allclose((limits.lower, limits.upper), [[-1.5] * 3, [1.5] * 3])
    assert not limits.floating
    file.write_text(arm(joints=3).replace('velocity="10"', 'velocity="fast"', 1).replace('velocity="10"', "", 1))
    assert list(limits_of(str(file)).speed) == [math.inf, math.inf, 10]
    with pytest.raises(EmbodiedError, match=r"none\.urdf does not exist"):
        limits_of(str(tmp_path / "none.urdf"))
