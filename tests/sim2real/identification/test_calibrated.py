"""A calibrated task is the same task on another robot: its physics is the calibration's, its contract its own."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import embodied  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import mujoco
import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.registry import join_content
from embodied.storage.paths import asset
from embodied.storage.runs import Run
from embodied.train import main as train
from sim2real.contract.contract import Contract
from sim2real.contract.describe import describe
from sim2real.identification import calibration as cb
from sim2real.identification.calibrated import calibrated
from sim2real.identification.calibration import Calibration
from sim2real.identification.model_fields import written
from sim2real.identification.parameters import CalibrationError, Kind, Parameter
from sim2real.twins import crazyflie, go1, panda
from tasks.locomotion.quadrupeds import Go1Joystick
from tasks.swarm.dynamics.quadrotor import QUADROTORS, Preset
from tasks.swarm.hover import Hover, HoverConfig

LEG = ("FR_hip", "FR_thigh", "FR_calf")
WALK = Go1Joystick


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


def leg() -> Calibration:
    """One leg with twice the friction and a fifth more mass."""
    model = go1.spec_of(("FR",)).compile()
    return found("go1", go1.parameters(model, LEG), friction=2.0, mass=1.2, damping=1.5)


def arm() -> Calibration:
    """A Panda whose joints are damped more."""
    model = mujoco.MjModel.from_xml_path(str(asset(panda.MODEL)))
    return found("panda", panda.parameters(model), damping=1.5)


def drone(**changes: float) -> Calibration:
    return found("crazyflie", crazyflie.parameters(QUADROTORS[crazyflie.PRESET]), **changes)


def starts(task: Any, count: int = 512) -> Any:
    return jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.key(0), count))


def test_the_model_has_the_estimates_and_every_episode_a_robot_about_them() -> None:
    calibration = leg()
    task: Any = calibrated(WALK(), calibration, width=2.0)
    nominal: Any = WALK()
    dof = task.model.joint("FR_thigh").dofadr[0]
    assert task.model.dof_frictionloss[dof] == pytest.approx(2 * nominal.model.dof_frictionloss[dof])
    body = task.model.body("FR_thigh").id
    assert task.model.body_mass[body] == pytest.approx(1.2 * nominal.model.body_mass[body])
    begun = starts(task)
    friction = calibration["FR_thigh.friction"]
    drawn = np.asarray(begun.model["dof_frictionloss"])[:, dof]
    assert drawn.mean() == pytest.approx(friction.value, abs=4 * 2 * friction.sd / np.sqrt(len(drawn)))
    assert drawn.std() == pytest.approx(2 * friction.sd, rel=0.15)
    mass, inertia = (np.asarray(begun.model[f"body_{what}"])[:, body] for what in ("mass", "inertia"))
    # A heavier link is one of another density: its moments of inertia grow along.
    expected = mass[:, None] / task.model.body_mass[body] * task.model.body_inertia[body]
    np.testing.assert_allclose(inertia, expected, rtol=1e-5)
    latency = np.asarray(begun.task_state.latency)
    assert latency.mean() == pytest.approx(0.008, rel=0.1)
    assert (latency >= 0).all()
    # A leg that was not in the log varies as the task says.
    other = task.model.joint("RL_thigh").dofadr[0]
    ratio = np.asarray(begun.model["dof_frictionloss"])[:, other] / nominal.model.dof_frictionloss[other]
    assert 0.89 < ratio.min() < 0.92 < 1.08 < ratio.max() < 1.11


def test_a_link_s_mass_and_its_payload_add_up() -> None:
    calibration = leg()
    heavier = [
        dataclasses.replace(e, value=0.08) if e.parameter.kind is Kind.PAYLOAD else e for e in calibration.estimates
    ]
    loaded = dataclasses.replace(calibration, estimates=tuple(heavier))
    spec = go1.spec_of(("FR",))
    loaded.apply(spec)
    model, names = spec.compile(), [e.name for e in heavier]
    values = loaded.values.copy()
    own, carried = loaded["FR_calf.mass"].value, loaded["FR_foot.payload"].value
    assert model.body("FR_calf").mass[0] == pytest.approx(own + carried)
    values[names.index("FR_calf.mass")], values[names.index("FR_foot.payload")] = own + 0.02, carried + 0.01
    mass = written(model, heavier, jax.numpy.asarray(values, jax.numpy.float32), {})["body_mass"]
    assert float(mass[model.body("FR_calf").id]) == pytest.approx(own + carried + 0.03, rel=1e-5)
    assert float(mass[model.body("FR_thigh").id]) == pytest.approx(model.body("FR_thigh").mass[0], rel=1e-5)


def test_without_width_every_episode_has_the_estimate() -> None:
    begun = starts(calibrated(WALK(), leg(), width=0.0), 16)
    task: Any = calibrated(WALK(), leg())
    dofs = [task.model.joint(name).dofadr[0] for name in LEG]
    for field in ("dof_frictionloss", "dof_armature"):
        np.testing.assert_allclose(np.asarray(begun.model[field])[:, dofs], [getattr(task.model, field)[dofs]] * 16)
    assert "dof_damping" not in begun.model
    np.testing.assert_allclose(begun.task_state.latency, 0.008, rtol=1e-6)


def test_the_contract_stays_that_of_the_robot_but_for_what_training_assumed() -> None:
    ours, theirs = describe(calibrated(WALK(), leg()), "walk"), describe(WALK(), "walk")
    assert ours.mass != theirs.mass
    assert meant(ours) == meant(theirs)
    assert meant(describe(calibrated(Hover(), drone(thrust=1.2)), "hover")) == meant(describe(Hover(), "hover"))


def meant(contract: Contract) -> Contract:
    """What actions and observations mean, without what training took the robot for."""
    joints = tuple(dataclasses.replace(joint, armature=0.0, friction=0.0) for joint in contract.joints)
    return dataclasses.replace(contract, joints=joints, mass=0.0)


def test_every_episode_flies_the_drone_that_was_drawn() -> None:
    calibration = drone(thrust=1.1, drag_xy=2.0, speed_up=0.5)
    task: Any = calibrated(Hover(), calibration, width=0.0)
    flown, expected = task.flown(task.reset(jax.random.key(1)).task_state), crazyflie.calibrated(calibration)
    for field in dataclasses.fields(flown):
        np.testing.assert_allclose(getattr(flown, field.name), getattr(expected, field.name), rtol=1e-5)
    begun = starts(calibrated(Hover(), calibration))
    inertia = np.asarray(begun.model["body_inertia"])[:, task.model.body("cf").id, 0]
    assert inertia.std() == pytest.approx(calibration["drone_inertia"].sd * task.drone.inertia[0], rel=0.15)


def test_a_drone_with_more_thrust_rises_where_the_nominal_one_hovers(tmp_path: Path) -> None:
    still = HoverConfig(start_distance=0.0, start_tilt=0.0, start_speed=0.0, start_spin=0.0,
                        thrust_spread=0.0, mass_spread=0.0)  # fmt: skip
    drone(thrust=1.1).save(tmp_path)
    climbs = []
    for calibration in (None, tmp_path):
        env = embodied.make("swarm/hover", 512, "rigid", config=still, calibration=calibration, calibration_width=0.0)
        env.reset()
        for _ in range(4):
            env.step(torch.zeros(512, 4))
        climbs.append(float(env.world()["linvel_w"][:, 2].mean()))
    # A tenth of gravity more for 0.08 s, of which rotors at 0.5 to 1.2 of hover's thrust give most; later they tumble.
    assert 0.7 < (climbs[1] - climbs[0]) / (0.08 * 0.1 * 9.81) < 1.0


def test_every_kind_of_task_steps(tmp_path: Path) -> None:
    for robot, calibration, name in (
        ("go1", leg(), "locomotion/go1-joystick-rough"),
        ("crazyflie", drone(), "swarm/hover"),
        ("panda", arm(), "manipulation/reach"),
    ):
        folder = tmp_path / robot
        calibration.save(folder)
        env = embodied.make(name, 4, calibration=folder)
        env.reset()
        step = env.step(torch.zeros(env.action_shape))
        assert step.obs["policy"].isfinite().all()
        assert "calibration" in env.variations


def test_a_run_keeps_its_calibration(tmp_path: Path) -> None:
    drone().save(tmp_path / "twin")
    flags = ["--num-envs", "16", "--evaluate-episodes", "0", "--ppo.unroll", "4"]
    run = tmp_path / "run"
    assert (
        train(["swarm/hover", "--steps", "128", "--calibration", str(tmp_path / "twin"), "--out", str(run), *flags])
        == 0
    )
    shutil.rmtree(tmp_path / "twin")
    assert "drone_inertia" in Run.open(run).config["variations"]["calibration"]
    assert train(["--resume", str(run), "--steps", "256"]) == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(CalibrationError, match="is of a crazyflie; Go1Joystick has a go1"):
        calibrated(WALK(), drone())
    late = dataclasses.replace(leg())
    estimates = tuple(dataclasses.replace(e, value=0.03) if e.name == "delay" else e for e in late.estimates)
    with pytest.raises(CalibrationError, match=r"0.0300 s late; Go1Joystick can be trained with at most 0.02 s"):
        calibrated(WALK(), dataclasses.replace(late, estimates=estimates))
    with pytest.raises(CalibrationError, match=r"a Ant cannot be given a calibration.*LeggedTask"):
        calibrated(join_content()["locomotion/ant"].load()(), leg())
    with pytest.raises(CalibrationError, match="preset l250: calibrations are of p250"):
        calibrated(Hover(HoverConfig(preset=Preset.L250)), drone())
    with pytest.raises(CalibrationError, match="width -1"):
        calibrated(WALK(), leg(), -1.0)
    with pytest.raises(EmbodiedError, match="cannot read the calibration"):
        embodied.make("swarm/hover", calibration=Path("nowhere"))
