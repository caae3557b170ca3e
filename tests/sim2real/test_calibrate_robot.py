"""A robot's parameters from its model file and a log: what is shared, what is recovered, what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import pytest

from benchmarks import calibration_logs as logs
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from sim2real import calibrate as cal
from sim2real.identification import calibration as cb
from sim2real.identification import parameters as pm
from sim2real.identification.calibration import Calibration, Estimate
from sim2real.identification.parameters import CalibrationError, Kind
from sim2real.logs.read_log import write_log
from sim2real.twins.calibrated import calibrated
from sim2real.twins.joints import JointTwin
from sim2real.twins.named import make_twin
from sim2real.twins.robot import Groups
from tests.kit.robots import arm, quadruped

pytestmark = pytest.mark.timeout(280)

NOISE = {"joint_pos": 1e-3, "joint_vel": 0.05}  # rad, rad/s
ARM = ("j1", "j2", "j3")
HIPS = tuple(f"leg{number}_hip" for number in (1, 5, 9, 13))
EVERY = tuple(joint for hip in HIPS for joint in (hip, hip.replace("hip", "knee")))


def twin_of(file: Path, names: tuple[str, ...], groups: Groups | None = None) -> JointTwin:
    made = make_twin(str(file), logs.empty(("joint_pos", "joint_vel"), names), groups)
    assert isinstance(made, JointTwin)
    return made


@pytest.fixture
def strange_arm(tmp_path: Path) -> Path:
    file = tmp_path / "strange.urdf"
    file.write_text(arm(joints=3))
    return file


@pytest.fixture
def strange_quadruped(tmp_path: Path) -> Path:
    file = tmp_path / "spot.urdf"
    file.write_text(quadruped())
    return file


def test_a_joint_of_a_strangers_robot_is_recovered(
    strange_arm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/journeys/test_log_to_twin.py` has an arm of three, excited as we excite it, of which nothing is fixed."""
    monkeypatch.setattr("sim2real.checks.robot.TIMED", 0)  # a second guess at the delay: half of the time
    twin = twin_of(strange_arm, ARM)
    names = [parameter.name for parameter in twin.parameters]
    truth = np.array([parameter.nominal for parameter in twin.parameters])
    truth[names.index("j1.friction")], truth[names.index("j1.damping")], truth[names.index("delay")] = 0.6, 0.15, 0.01
    time = np.arange(320) / 200
    targets = 0.5 * np.sin(2 * np.pi * (0.3 + 0.8 * time) * time)[:, None] * [1.0, 0.8, 0.6]
    log = logs.played(twin, truth, time, targets, NOISE, np.random.default_rng(0))
    write_log(tmp_path / "run.mcap", log)
    words = [str(tmp_path / "run.mcap"), "--robot", str(strange_arm), "--out", str(tmp_path / "twin")]
    fixed = [name for name in names if name not in ("j1.friction", "j1.damping", "delay")]
    assert cal.main([*words, "--window", "0.5", "--fix", *fixed]) == 0
    assert "open-loop error on held-out data" in capsys.readouterr().out
    result = cb.load(tmp_path / "twin")
    assert result.robot == "strange"
    assert result["delay"].value == pytest.approx(0.01, rel=0.05)
    for estimate, true in zip(result.estimates, truth, strict=True):
        assert abs(estimate.value - true) < 5 * max(estimate.sd, 1e-9), estimate.name
    assert {estimate.name for estimate in result.free if estimate.identified} == {"j1.friction", "j1.damping", "delay"}
    for error in result.errors:
        assert error.after < 0.5 * error.before


def test_joints_of_one_place_and_motor_share_their_parameters(strange_quadruped: Path) -> None:
    twin = twin_of(strange_quadruped, EVERY)
    named = {parameter.name: parameter for parameter in twin.parameters}
    assert named["*_hip.friction"].shared == HIPS
    assert set(named["*_upper.mass"].members) == {hip.replace("hip", "upper") for hip in HIPS}
    assert not named["*_knee.strength"].free
    assert [name for name in named if name.endswith("encoder_bias")] == [f"{joint}.encoder_bias" for joint in EVERY]


def test_joints_share_parameters_as_one_says(strange_quadruped: Path) -> None:
    apart = twin_of(strange_quadruped, EVERY, Groups(apart=True))
    assert all(not p.shared for p in apart.parameters if p.kind is not Kind.FRICTION_TIME)
    chosen = twin_of(strange_quadruped, EVERY, Groups(together=("leg1_*", "*")))
    frictions = [parameter for parameter in chosen.parameters if parameter.kind is Kind.FRICTION]
    assert [len(parameter.members) for parameter in frictions] == [2, 6]


def test_another_motor_is_another_group(strange_quadruped: Path) -> None:
    begin, effort, end = quadruped().rpartition('effort="30"')  # the last knee's
    strange_quadruped.write_text(begin + effort.replace("30", "40") + end)
    frictions = [p for p in twin_of(strange_quadruped, EVERY).parameters if p.kind is Kind.FRICTION]
    assert sorted(len(parameter.members) for parameter in frictions) == [1, 3, 4]


def test_a_shared_value_reaches_all_who_share_it(strange_quadruped: Path) -> None:
    twin = twin_of(strange_quadruped, ("leg1_hip", "leg1_knee", "leg5_hip", "leg5_knee"))
    values = np.array([parameter.nominal for parameter in twin.parameters])
    for index, parameter in enumerate(twin.parameters):
        if parameter.kind is Kind.FRICTION:
            values[index] = 0.7
    model = twin.compile(values)
    np.testing.assert_allclose(model.dof_frictionloss, 0.7)
    assert model.nv == 4  # joints that the log lacks stand still


def test_what_the_log_lacks_stands_at_home(strange_quadruped: Path) -> None:
    task_model = make_task(strange_quadruped).model
    whole = twin_of(strange_quadruped, tuple(hip for hip in HIPS)).spec.compile()
    theirs, ours = mujoco.MjData(task_model), mujoco.MjData(whole)
    theirs.qpos[:] = task_model.key("home").qpos
    mujoco.mj_forward(task_model, theirs)
    for hip in HIPS:
        ours.qpos[whole.joint(hip).qposadr[0]] = theirs.qpos[task_model.joint(hip).qposadr[0]]
    mujoco.mj_forward(whole, ours)
    for hip in HIPS:
        foot = hip.replace("hip", "lower")
        found = ours.body(foot).xpos - ours.body("body").xpos
        np.testing.assert_allclose(found, theirs.body(foot).xpos - theirs.body("body").xpos, atol=1e-6)
        np.testing.assert_allclose(ours.body(foot).xmat, theirs.body(foot).xmat, atol=1e-6)


def make_task(file: Path, name: str = "locomotion/velocity") -> Any:
    kind: Any = join_content()[name].load()
    return kind(kind.config_type(robot=str(file), without=("all",)))


def calibration_of(twin: JointTwin, **changes: float) -> Calibration:
    """A calibration as sure as can be, in which some kinds have another value."""
    values = [changes.get(parameter.kind.value, parameter.nominal) for parameter in twin.parameters]
    pairs = zip(twin.parameters, values, strict=True)
    estimates = tuple(Estimate(parameter, value, 1e-6 * parameter.free) for parameter, value in pairs)
    free = sum(parameter.free for parameter in twin.parameters)
    covariance = tuple(map(tuple, 1e-12 * np.eye(free)))
    return Calibration(twin.name, estimates, covariance, (), (), 0.002, 1.0, 1.0, True)


@pytest.mark.parametrize(
    ("text", "name", "joints", "armature"),
    [(quadruped(), "locomotion/velocity", HIPS, 0.008), (arm(), "manipulation/track-pose", (*ARM, "j4"), 0.1)],
    ids=["quadruped", "arm"],
)
def test_a_task_gets_what_was_calibrated(
    text: str, name: str, joints: tuple[str, ...], armature: float, tmp_path: Path
) -> None:
    file = tmp_path / "strange.urdf"
    file.write_text(text)
    result = calibration_of(twin_of(file, joints), friction=0.6, encoder_bias=0.01, delay=0.009, armature=armature)
    task: Any = calibrated(make_task(file, name), result)
    start = jax.jit(task.reset)(jax.random.key(0))
    dofs = [int(task.model.joint(joint).dofadr[0]) for joint in joints]
    np.testing.assert_allclose(task.model.dof_frictionloss[dofs], 0.6)
    np.testing.assert_allclose(np.asarray(start.model["dof_frictionloss"])[dofs], 0.6, atol=1e-4)
    np.testing.assert_allclose(np.asarray(start.model["dof_armature"])[dofs], armature, atol=1e-4)
    biased = np.isin(np.array(task.joint_names if name.endswith("pose") else task.robot.joint_names), joints)
    np.testing.assert_allclose(np.asarray(start.task_state.encoder_bias), 0.01 * biased, atol=1e-4)
    assert float(start.task_state.latency) == pytest.approx(0.009, abs=1e-4)


def test_a_calibration_of_another_robot_is_refused(strange_arm: Path, strange_quadruped: Path) -> None:
    """Of one that says so `twins/test_calibrated.py` tells."""
    renamed = dataclasses.replace(calibration_of(twin_of(strange_arm, ARM)), robot="spot")
    with pytest.raises(EmbodiedError, match="unknown joint 'j1'"):
        calibrated(make_task(strange_quadruped), renamed)


@pytest.mark.parametrize(
    ("names", "groups", "message"),
    [
        (("elbow",), None, r"no joint of strange\.urdf, which has j1, j2, j3; it has elbow"),
        (("j1", "j3"), None, r"has j3 of strange\.urdf, but not j2, which move it"),
        (ARM, Groups(together=("*_knee",)), r"unknown joint of strange\.urdf '\*_knee'"),
    ],
)
def test_logs_that_do_not_fit_are_one_line(
    strange_arm: Path, names: tuple[str, ...], groups: Groups | None, message: str
) -> None:
    with pytest.raises(EmbodiedError, match=message):
        twin_of(strange_arm, names, groups)


def test_each_joint_of_ours_has_its_own_parameters_and_its_foot_a_payload_unless_asked_otherwise() -> None:
    legs = tuple(f"{leg}_{link}" for leg in ("FR", "RL") for link in ("hip", "thigh", "calf"))
    names = {p.name for p in make_twin("go1", logs.empty(("joint_pos",), legs)).parameters}
    assert {"FR_hip.friction", "RL_hip.mass", "RL_foot.payload"} <= names
    assert "FL_foot.payload" not in names
    together = make_twin("go1", logs.empty(("joint_pos",), legs), Groups(("*_hip",))).parameters
    assert [p.members for p in together if p.name == "*_hip.friction"] == [("FR_hip", "RL_hip")]


def test_groups_are_for_robots_of_joints(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="for robots of joints; the parameters of panda are fixed"):
        make_twin("panda", logs.empty(("joint_pos",), ("joint1",)), Groups(apart=True))
    with pytest.raises(EmbodiedError, match=r"none\.urdf does not exist"):
        make_twin(str(tmp_path / "none.urdf"), logs.empty(("joint_pos",), ("FR_hip",)))


def test_masses_of_shapes_can_be_changed() -> None:
    spec = mujoco.MjSpec.from_string(
        '<mujoco><worldbody><body name="a"><joint/><geom size=".1"/></body></worldbody></mujoco>'
    )
    nominal = spec.compile()
    estimate = Estimate(pm.Parameter(Kind.MASS, "a", 1.0, 0.1, 10.0, 1.0), 2 * float(nominal.body_mass[1]), 0.0)
    Calibration("it", (estimate,), (), (), (), 0.002, 1.0, 1.0, True).apply(spec)
    model = spec.compile()
    np.testing.assert_allclose(model.body_mass[1], 2 * nominal.body_mass[1])
    np.testing.assert_allclose(model.body_inertia[1], 2 * nominal.body_inertia[1])
