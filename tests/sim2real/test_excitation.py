"""A trajectory for calibration keeps every limit when MuJoCo plays it, and excites every joint over the whole band."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import mujoco
import numpy as np
import pytest

from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage.paths import asset
from sim2real.contract.contract import UNSTATED_SPEED
from sim2real.contract.limits import CLEARANCE, limits_of, robot_names
from sim2real.excitation import main
from sim2real.identification import excitation
from sim2real.identification.excitation import SHARE, ExcitationConfig, excite
from sim2real.identification.excitation_signals import Order, Waveform, fade
from sim2real.logs.read_log import read_log
from tests.kit import commands
from tests.kit.robots import arm

SHORT = {"seconds": 4.0, "ramp": 0.5}


def made(robot="go1", **options: Any):
    given: dict[str, Any] = SHORT | options
    return excite(ExcitationConfig(robot, **given))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The file of an arm of three joints, for what does not depend on the robot."""
    file = tmp_path_factory.mktemp("arm") / "arm.urdf"
    file.write_text(arm(joints=3))
    return str(file)


def played(robot, log):
    """Joint angles, speeds and torques (t, n) on the robot's own MJCF, its base welded to the world; our own loop."""
    text = asset(f"robots/{robot}/{robot}.xml").read_text()
    text = text.replace('<freejoint name="root"/>', "")
    start = text.find("<keyframe>")
    if start >= 0:
        text = text[:start] + text[text.index("</keyframe>") + len("</keyframe>") :]
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.timestep = 0.001
    data = mujoco.MjData(model)
    command = log["command"]
    joints = [model.joint(name) for name in command.names]
    qpos, qvel = ([joint.qposadr[0] for joint in joints], [joint.dofadr[0] for joint in joints])
    acting = [model.actuator(name).id for name in command.names]
    data.qpos[qpos] = command.values[0]
    rows = []
    for target in command.values:
        data.ctrl[acting] = target
        for _ in range(round(1000 / command.rate)):
            mujoco.mj_step(model, data)
            rows.append([data.qpos[qpos], data.qvel[qvel], data.actuator_force[acting]])
    return np.moveaxis(np.array(rows), 1, 0)


@pytest.mark.parametrize(
    ("robot", "options"),
    [
        ("go1", {"amplitude": 1.5, "seconds": 2.0}),
        ("go1", {"waveform": Waveform.MULTISINE, "seconds": 2.0}),
        ("go1", {"order": Order.EACH, "seconds": 0.5, "ramp": 0.1, "low": 2.0}),
        ("panda", {"seconds": 2.0, "low": 0.5}),
    ],
)
def test_no_limit_is_exceeded_in_mujoco(robot, options):
    found, limits = made(robot, **options), limits_of(robot)
    pos, vel, torque = played(robot, found.log)
    assert (pos > limits.lower).all()
    assert (pos < limits.upper).all()
    # Between the rows of the plan's simulation, and with another step, a little more may show.
    assert (np.abs(vel) < 1.03 * SHARE * np.where(np.isfinite(limits.speed), limits.speed, UNSTATED_SPEED)).all()
    assert (np.abs(torque) < 1.03 * SHARE * limits.torque).all()
    assert found.clearance >= CLEARANCE
    moved = np.ptp(pos, axis=0)
    assert (moved > 0.05).all(), moved


def test_a_joint_that_would_hit_another_part_moves_less(monkeypatch):
    wide: dict[str, Any] = {"amplitude": 0.75, "low": 0.5, "high": 1.0, "seconds": 2.0}
    kept = made(**wide)
    nothing_shrinks = lambda self, limits, margin: (np.ones(12), np.ones(12))  # noqa: E731
    monkeypatch.setattr(excitation.Trial, "too_much", nothing_shrinks)
    free = made(**wide)
    assert free.clearance < CLEARANCE
    assert kept.clearance > free.clearance
    assert (np.ptp(kept.log["command"].values, axis=0) < np.ptp(free.log["command"].values, axis=0)).any()


@pytest.mark.parametrize("waveform", list(Waveform))
def test_it_begins_and_ends_smoothly_at_rest(small, waveform):
    found = made(small, waveform=waveform, rest=0.25)
    command = found.log["command"]
    np.testing.assert_allclose(command.values[[0, -1]], np.tile(found.centre, (2, 1)), atol=1e-12)
    still = np.concatenate([command.values[:50], command.values[-50:]]) - found.centre
    np.testing.assert_allclose(still, 0, atol=1e-12)
    jumps = np.abs(np.diff(command.values, axis=0)).max(0) * command.rate
    limits, seen = found.limits, found.expected
    assert (jumps < limits.speed).all()
    assert ((limits.lower < seen["joint_pos"].values) & (seen["joint_pos"].values < limits.upper)).all()
    assert (np.abs(seen["joint_torque"].values) < limits.torque).all()
    assert found.clearance >= CLEARANCE
    assert command.rate == pytest.approx(200.0)
    assert command.time[0] == 0.0


@pytest.mark.parametrize("waveform", list(Waveform))
def test_every_joint_is_excited_over_the_band_apart_from_the_others(small, waveform):
    found = made(small, waveform=waveform, seconds=20.0, rest=0.0)
    values = found.log["command"].values - found.centre
    power = 2 * np.abs(np.fft.rfft(values, axis=0) / len(values)) ** 2
    frequency = np.fft.rfftfreq(len(values), 1 / 200)
    for low, high in ((0.1, 1.0), (1.0, 3.0), (3.0, 10.0)):
        rms = np.sqrt(power[(frequency >= low) & (frequency < high)].sum(0))
        assert (rms > 0.02).all(), (low, high, rms)  # rad: ten times an encoder's noise
    assert (np.sqrt(power[frequency > 15].sum(0)) < 0.005).all()
    related = np.corrcoef(values.T) - np.eye(values.shape[1])
    assert np.abs(related).max() < 0.5


def test_one_after_the_other_moves_one_at_a_time(small):
    found = made(small, order=Order.EACH, seconds=1.0, ramp=0.2, low=1.0, rest=0.0)
    command = found.log["command"]
    moving = np.abs(command.values - found.centre) > 1e-9
    assert (moving.sum(1) <= 1).all()
    assert moving.any(0).all()
    assert command.time[-1] == pytest.approx(3.0, abs=0.01)


def test_a_ramp_has_no_corners():
    time = np.linspace(0, 10, 100001)
    window = fade(time, 2.0)
    assert window[0] == window[-1] == 0
    assert (window[(time > 2) & (time < 8)] == 1).all()
    second = np.diff(window, 2) / (time[1] - time[0]) ** 2
    assert np.abs(np.diff(second)).max() < 0.02  # a corner in the first derivative would be 1e4


@pytest.mark.parametrize("suffix", [".mcap", pytest.param(".csv", marks=pytest.mark.slow)])
def test_the_command_line_writes_trajectory_and_picture(small, suffix, tmp_path, capsys):
    out = tmp_path / f"a{suffix}"
    assert main(["--robot", small, "--seconds", "1", "--ramp", "0.25", "--low", "0.5", "--out", str(out)]) == 0
    log = read_log(out)
    assert log["command"].names == ("j1", "j2", "j3")
    assert log["command"].unit == "rad"
    assert log.metadata["robot"] == small
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    assert "j3" in shown.out
    assert "Hold the base" in shown.err


def test_robots_without_servos_and_unknown_ones_are_named():
    with pytest.raises(
        EmbodiedError, match=r"'crazyflie' has no joints .* to excite; these .*: allegro, g1, go1, go2, l"
    ):
        made("crazyflie")
    with pytest.raises(UnknownNameError, match="unknown robot 'go3'; known: allegro, ant, crazyflie, g1, go1, go2"):
        made("go3")
    with pytest.raises(EmbodiedError, match="--low 5 and --high 1 Hz at --rate 200"):
        ExcitationConfig("go1", low=5, high=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"amplitude": -1}, "amplitude=-1 must be from 0.005"),
        ({"amplitude": 1e-300}, "amplitude=1e-300 must be from 0.005"),
        ({"seconds": math.inf}, "seconds=inf must be finite"),
        ({"seconds": 1e6}, "seconds=1000000.0 must be from 0.1 to 3600"),
        ({"seconds": 0.0, "ramp": 0.0}, "seconds=0.0 must be from 0.1"),
        ({"seconds": 3600.0, "rate": 2000.0}, "are 7200000 targets; expected 8 of each joint or more, and up to 10"),
        ({"seconds": 3600.0, "order": Order.EACH}, "targets; expected 8"),
        ({"seconds": 0.1, "ramp": 0.0, "rate": 40.0}, "are 4 targets; expected 8"),
        ({"rest": math.inf}, "rest=inf must be finite"),
        ({"rest": 1e9}, "rest=1000000000.0 must be from 0 to 60"),
        ({"rate": 1e9}, "rate=1000000000.0 must be from 10 to 2000"),
        ({"low": 1e-300}, "low=1e-300 must be 0.001 or more"),
        ({"ramp": -1.0}, r"--ramp -1.0 s and --seconds 4.0"),
        ({"ramp": math.nan}, "ramp=nan must be finite"),
        ({"seconds": 0.1, "ramp": 0.0, "waveform": Waveform.MULTISINE}, "2 frequencies from 0.1 to 10 Hz"),
    ],
)
def test_movements_that_cannot_be_made_are_refused(small, options, said):
    with pytest.raises(EmbodiedError, match=said) as caught:
        made(small, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "none/a.mcap"), "there is no folder '.*none' to write a.mcap to"),
        (("--out", "a.parquet"), "unknown suffix of a log '.parquet'"),
        (("--out", "."), "is a folder; expected a file"),
        (("--out", "x" * 300 + ".csv"), "name too long"),
        (("--out", "a.csv", "--picture", ""), "is a folder; expected a file"),
        (("--out", "a.csv", "--picture", "."), "is a folder; expected a file"),
        (("--out", "a.csv", "--picture", "a"), "unknown suffix of a picture 'a'"),
        (("--out", "a.csv", "--picture", "a.txt"), "unknown suffix of a picture '.txt'"),
        (("--out", "link.csv"), "link.csv' is"),
        (("--out", "a.csv", "--picture", "link.png"), "link.png' is"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_work(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sim2real.excitation.excite", lambda settings: pytest.fail("began"))
    (tmp_path / "arm.urdf").write_text("own")
    for name in ("link.csv", "link.png"):
        (tmp_path / name).symlink_to(tmp_path / "arm.urdf")
    line = commands.refused(main, "--robot", "arm.urdf", *words)
    assert re.search(said, line, re.IGNORECASE), line
    assert (tmp_path / "arm.urdf").read_text() == "own"


def test_a_robot_that_cannot_move_is_said(tmp_path, monkeypatch):
    limits = limits_of("go1")
    weak = dataclasses.replace(limits, torque=np.where(np.arange(12) == 4, 0.01, limits.torque))
    monkeypatch.setattr(excitation, "limits_of", lambda robot: weak)
    with pytest.raises(EmbodiedError, match=r"'FL_thigh' of go1 cannot move by 5 mrad about 0\.90 rad within 80% of"):
        made(seconds=2.0, low=1.0)


def test_limits_are_those_of_the_models():
    limits = limits_of("go1")
    assert limits.names[:3] == ("FR_hip", "FR_thigh", "FR_calf")
    np.testing.assert_allclose(limits.lower[:3], [-0.863, -0.686, -2.818])
    np.testing.assert_allclose(limits.home[3:6], [0.1, 0.9, -1.8])
    np.testing.assert_allclose(limits.torque[:3], [23.7, 23.7, 35.55])
    np.testing.assert_allclose(limits.speed[:3], [30.1, 30.1, 20.06])
    assert limits.floating
    panda = limits_of("panda")
    np.testing.assert_allclose(panda.speed, [2.175] * 4 + [2.61] * 3)
    assert not panda.floating
    for robot in robot_names():
        every = limits_of(robot)
        assert (every.lower < every.home).all()
        assert (every.home < every.upper).all()
        assert not np.isnan(every.torque).any()
        assert all(math.isfinite(value) for value in every.stiffness)
