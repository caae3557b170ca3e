"""A calibrated task is the same task on another robot: its physics is the calibration's, its contract its own."""

import dataclasses
import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import embodied  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import mujoco
import numpy as np
import pytest
import torch

from benchmarks import calibration_logs as logs
from embodied.core.world import World
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.storage.paths import asset
from embodied.storage.runs import Run
from embodied.train import main as train
from policies.training import launch
from policies.training.settings import saved_settings
from sim2real.contract.contract import Contract
from sim2real.graphs.describe import describe
from sim2real.identification import calibration as cb
from sim2real.identification.calibration import Calibration
from sim2real.identification.model_fields import written
from sim2real.identification.parameters import CalibrationError, Kind, Parameter
from sim2real.twins import crazyflie, panda
from sim2real.twins.calibrated import calibrated
from sim2real.twins.flags import Calibration as CalibrationFlags
from sim2real.twins.named import make_twin
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.single.hover import Hover, HoverConfig
from tests.kit.bundles import contract_of
from tests.kit.hooks import partly
from tests.kit.worlds import task_of

LEG = ("FR_hip", "FR_thigh", "FR_calf")
WALK, HOVER = "locomotion/go1-joystick-flat", "swarm/hover"


def found(robot: str, parameters: tuple[Parameter, ...], **changes: float) -> Calibration:
    """A calibration: nominal values times `changes` by kind (delays are set), deviations of a tenth of the spreads."""
    values = np.array([p.nominal * changes.get(p.kind.name.lower(), 1.0) for p in parameters])
    for i, parameter in enumerate(parameters):
        if parameter.kind is Kind.DELAY:
            values[i] = 0.008
    free = [p for p in parameters if p.free]
    covariance = np.diag([(0.1 * p.spread) ** 2 for p in free])
    estimates = cb.estimates(parameters, values, covariance)
    return Calibration(robot, estimates, tuple(map(tuple, covariance.tolist())), (), (), 0.002, 1.0, 1.0, True, "log")


@functools.cache
def twin() -> Any:
    """The twin of a Go1's leg."""
    return make_twin("go1", logs.empty(("joint_pos", "joint_vel"), LEG))


def leg() -> Calibration:
    """One leg with twice the friction and a fifth more mass."""
    return found("go1", twin().parameters, friction=2.0, mass=1.2, damping=1.5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: dataclasses.replace(one, covariance=one.covariance[:-1]), "its covariance is not of"),
        (
            lambda one: dataclasses.replace(one, covariance=(one.covariance[0][1:], *one.covariance[1:])),
            "its covariance",
        ),
        (lambda one: dataclasses.replace(one, estimates=one.estimates[1:]), "its covariance is not of"),
    ],
)
def test_a_calibration_whose_parts_do_not_fit_is_refused(
    change: Callable[[Calibration], Calibration], said: str, tmp_path: Path
) -> None:
    with pytest.raises(CalibrationError, match=said):
        cb.load(change(leg()).save(tmp_path))


def arm() -> Calibration:
    """A Panda whose joints are damped more."""
    model = mujoco.MjModel.from_xml_path(str(asset(panda.MODEL)))
    return found("panda", panda.parameters(model), damping=1.5)


def drone(**changes: float) -> Calibration:
    return found("crazyflie", crazyflie.parameters(CRAZYFLIES[crazyflie.PRESET]), **changes)


def starts(task: Any, part: Callable[[Any], Any], count: int = 512) -> Any:
    """A part of how so many episodes begin."""
    return jax.tree.map(np.asarray, partly(jax.vmap(task.reset), part)(jax.random.split(jax.random.key(0), count)))


def test_the_model_has_the_estimates_and_every_episode_a_robot_about_them() -> None:
    calibration, nominal = leg(), task_of(WALK)
    task = calibrated(nominal, calibration, width=2.0)
    fields = ("dof_frictionloss", "body_mass", "body_inertia")
    model, latency = starts(task, lambda begun: ({key: begun.model[key] for key in fields}, begun.task_state.latency))
    dof = task.model.joint("FR_thigh").dofadr[0]
    assert task.model.dof_frictionloss[dof] == pytest.approx(2 * nominal.model.dof_frictionloss[dof])
    body = task.model.body("FR_thigh").id
    assert task.model.body_mass[body] == pytest.approx(1.2 * nominal.model.body_mass[body])
    friction = calibration["FR_thigh.friction"]
    drawn = model["dof_frictionloss"][:, dof]
    assert drawn.mean() == pytest.approx(friction.value, abs=4 * 2 * friction.sd / np.sqrt(len(drawn)))
    assert drawn.std() == pytest.approx(2 * friction.sd, rel=0.15)
    mass, inertia = model["body_mass"][:, body], model["body_inertia"][:, body]
    # A heavier link is one of another density: its moments of inertia grow along.
    expected = mass[:, None] / task.model.body_mass[body] * task.model.body_inertia[body]
    np.testing.assert_allclose(inertia, expected, rtol=1e-5)
    assert latency.mean() == pytest.approx(0.008, rel=0.1)
    assert (latency >= 0).all()
    # A leg that was not in the log varies as the task says.
    other = task.model.joint("RL_thigh").dofadr[0]
    ratio = model["dof_frictionloss"][:, other] / nominal.model.dof_frictionloss[other]
    assert 0.89 < ratio.min() < 0.92 < 1.08 < ratio.max() < 1.11


def test_a_link_s_mass_and_its_payload_add_up() -> None:
    calibration = leg()
    heavier = [
        dataclasses.replace(e, value=0.08) if e.parameter.kind is Kind.PAYLOAD else e for e in calibration.estimates
    ]
    loaded = dataclasses.replace(calibration, estimates=tuple(heavier))
    spec = twin().spec.copy()
    loaded.apply(spec)
    model, names = spec.compile(), [e.name for e in heavier]
    values = loaded.values.copy()
    own, carried = loaded["FR_calf.mass"].value, loaded["FR_foot.payload"].value
    assert model.body("FR_calf").mass[0] == pytest.approx(own + carried)
    values[names.index("FR_calf.mass")], values[names.index("FR_foot.payload")] = own + 0.02, carried + 0.01
    mass = jax.jit(lambda given: written(model, heavier, given, {})["body_mass"])(values.astype(np.float32))
    assert float(mass[model.body("FR_calf").id]) == pytest.approx(own + carried + 0.03, rel=1e-5)
    assert float(mass[model.body("FR_thigh").id]) == pytest.approx(model.body("FR_thigh").mass[0], rel=1e-5)


def test_without_width_every_episode_has_the_estimate() -> None:
    task = calibrated(task_of(WALK), leg(), width=0.0)
    dofs = [task.model.joint(name).dofadr[0] for name in LEG]

    def drawn(begun: Any) -> Any:
        assert "dof_damping" not in begun.model
        return {key: begun.model[key] for key in ("dof_frictionloss", "dof_armature")}, begun.task_state.latency

    model, latency = starts(task, drawn, 4)
    for field, values in model.items():
        np.testing.assert_allclose(values[:, dofs], [getattr(task.model, field)[dofs]] * 4)
    np.testing.assert_allclose(latency, 0.008, rtol=1e-6)


def test_the_contract_stays_that_of_the_robot_but_for_what_training_assumed() -> None:
    ours, theirs = describe(calibrated(task_of(WALK), leg()), WALK).contract, contract_of(WALK)
    assert ours.mass != theirs.mass
    assert meant(ours) == meant(theirs)
    flown = describe(calibrated(task_of(HOVER), drone(thrust=1.2)), HOVER).contract
    assert meant(flown) == meant(contract_of(HOVER))


def meant(contract: Contract) -> Contract:
    """What actions and observations mean, without what training took the robot for."""
    joints = tuple(dataclasses.replace(joint, armature=0.0, friction=0.0) for joint in contract.joints)
    return dataclasses.replace(contract, joints=joints, mass=0.0, latency=(0.0, 0.0))


STRONG = {"thrust": 1.1, "drag_xy": 2.0, "speed_up": 0.5}


@pytest.fixture(scope="module")
def flying() -> tuple[Any, Any]:
    """The task of a drone with more thrust, drag and speed, and how an episode begins."""
    task = calibrated(task_of(HOVER), drone(**STRONG), width=0.0)
    return task, jax.jit(task.reset)(jax.random.key(1))


def test_every_episode_flies_the_drone_that_was_drawn(flying: tuple[Any, Any]) -> None:
    task, start = flying
    flown, expected = task.flown(start.task_state), crazyflie.calibrated(drone(**STRONG))
    for field in dataclasses.fields(flown):
        np.testing.assert_allclose(getattr(flown, field.name), getattr(expected, field.name), rtol=1e-5)
    calibration = drone(**STRONG)
    body = task.model.body("cf").id
    inertia = starts(calibrated(task_of(HOVER), calibration), lambda begun: begun.model["body_inertia"][:, body, 0])
    assert inertia.std() == pytest.approx(calibration["drone_inertia"].sd * task.drone.inertia[0], rel=0.15)


def test_a_drone_with_more_thrust_is_pushed_up_by_more(flying: tuple[Any, Any]) -> None:
    """By the same rotors at the same speed, at rest, where there is no drag."""
    task, start = flying
    world = World.posed(task.model, start.qpos, 0 * np.asarray(start.qvel))
    strong = dataclasses.replace(start.task_state, last_command=start.task_state.rotor_speed)
    constants = jax.tree.map(jax.numpy.float32, crazyflie.constants(task.drone, {}))
    push = jax.jit(task.apply_action)
    forces = [
        np.asarray(push(world, state, state.rotor_speed)[0].wrench)[1, :3]
        for state in (dataclasses.replace(strong, constants=constants), strong)
    ]
    np.testing.assert_allclose(forces[1], 1.1 * forces[0], rtol=1e-4)
    assert np.linalg.norm(forces[0]) > 0.05


@pytest.fixture(
    scope="module",
    params=[
        (drone, HOVER),
        pytest.param((leg, "locomotion/go1-joystick-rough"), marks=pytest.mark.slow),
        pytest.param((arm, "manipulation/reach"), marks=pytest.mark.slow),
    ],
    ids=["drone", "leg", "arm"],
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Env:
    """Environments from a calibration's folder."""
    calibration, name = request.param
    folder = tmp_path_factory.mktemp("twin")
    calibration().save(folder)
    env = embodied.make(name, 4, calibration=folder)
    env.reset()
    env.step(torch.zeros(env.action_shape))
    return env


def test_every_kind_of_task_steps(made: Env) -> None:
    step = made.step(torch.zeros(made.action_shape))
    assert step.obs["policy"].isfinite().all()
    assert "calibration" in made.variations


def test_an_arm_at_its_table_begins_as_calibrated() -> None:
    task: Any = calibrated(task_of("manipulation/reach"), arm())
    begun = jax.jit(task.reset)(jax.random.key(0))
    joint = task.model.joint("joint2").dofadr[0]
    nominal = task_of("manipulation/reach").model.dof_damping[joint]
    assert task.model.dof_damping[joint] == pytest.approx(1.5 * nominal)
    damping = arm()["joint2.damping"]
    assert abs(float(begun.model["dof_damping"][joint]) - damping.value) < 5 * damping.sd


class Trained(Exception):
    """What training is stopped by before it begins."""


def test_a_run_keeps_its_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        learned = True  # else the run is discarded

        def train(self, **_: object) -> None:
            raise Trained

    monkeypatch.setattr(launch, "_session", lambda *_: Session())
    drone().save(tmp_path / "twin")
    with pytest.raises(Trained):
        train([HOVER, "--num-envs", "2", "--calibration", str(tmp_path / "twin"), "--out", str(tmp_path / "run")])
    shutil.rmtree(tmp_path / "twin")
    run = Run.open(tmp_path / "run")
    assert "drone_inertia" in run.config["variations"]["calibration"]
    (kept,) = saved_settings(run).wrappers
    assert isinstance(kept, CalibrationFlags)
    assert kept.calibration is not None
    assert cb.load(kept.calibration) == drone()


@pytest.mark.slow
def test_a_run_goes_on_with_its_calibration(tmp_path: Path) -> None:
    drone().save(tmp_path / "twin")
    flags = ["--num-envs", "16", "--evaluate-episodes", "0", "--ppo.unroll", "4", "--out", str(tmp_path / "run")]
    assert train([HOVER, "--steps", "128", "--calibration", str(tmp_path / "twin"), *flags]) == 0
    shutil.rmtree(tmp_path / "twin")
    assert train(["--resume", str(tmp_path / "run"), "--steps", "256"]) == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(CalibrationError, match="is of a crazyflie; Joystick has a go1"):
        calibrated(task_of(WALK), drone())
    late = dataclasses.replace(leg())
    estimates = tuple(dataclasses.replace(e, value=0.03) if e.name == "delay" else e for e in late.estimates)
    with pytest.raises(CalibrationError, match=r"0.0300 s late; Joystick can be trained with at most 0.02 s"):
        calibrated(task_of(WALK), dataclasses.replace(late, estimates=estimates))
    with pytest.raises(CalibrationError, match=r"a Ant cannot be given a calibration.*LeggedTask"):
        calibrated(task_of("locomotion/ant"), leg())
    with pytest.raises(CalibrationError, match="preset l250: calibrations are of p250"):
        calibrated(Hover(HoverConfig(preset=Preset.L250)), drone())
    with pytest.raises(CalibrationError, match="width -1"):
        calibrated(task_of(WALK), leg(), -1.0)
    with pytest.raises(EmbodiedError, match="cannot read the calibration 'nowhere"):
        embodied.make("swarm/hover", calibration=Path("nowhere"))
