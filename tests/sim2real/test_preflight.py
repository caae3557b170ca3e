"""Every fault that is put into a sound log is found, where it is and as what it is; a sound log has none."""

from __future__ import annotations

import dataclasses
import functools
import json
import re

import numpy as np
import pytest

from sim2real.checks import robot
from sim2real.checks.findings import Finding, Severity
from sim2real.contract.limits import limits_of
from sim2real.identification.excitation import Stage
from sim2real.identification.excitation_signals import Order, Waveform, motion
from sim2real.logs import mcap_log
from sim2real.logs.log import WXYZ, XYZ, Channel, Log
from sim2real.logs.servo_delay import Servo, response
from sim2real.preflight import main, preflight
from tests.kit import commands

RATE = 200.0
DELAY = 0.01  # s


limits = functools.cache(limits_of)


@functools.cache
def sound(name: str = "go1") -> Log:
    """What a good recorder would give of an excitation: noise, a delay, times that are not quite even."""
    joints = limits(name)
    stage = Stage(joints, joints.home, RATE)
    time, (size, speed) = np.arange(2200) / RATE, (0.2, 8.0) if name == "go1" else (0.1, 0.8)
    moved = motion(Waveform.CHIRP, time[200:], len(joints.names), (0.1, 10.0), Order.ALL, 1.0)
    played = moved(np.full(len(joints.names), size), np.full(len(joints.names), speed))
    targets = joints.home + np.concatenate([np.zeros((200, len(joints.names))), played])
    trial = stage.play(targets)
    command = Channel(time, targets, joints.names, "rad")
    seen = {
        "joint_pos": Channel(time + 1 / RATE, trial.pos, joints.names, "rad"),
        "joint_vel": Channel(time + 1 / RATE, trial.vel, joints.names, "rad/s"),
        "joint_torque": Channel(time + 1 / RATE, trial.torque, joints.names, "N m"),
    }
    rng = np.random.default_rng(0)
    time = command.time + rng.uniform(-2e-4, 2e-4, len(command)) + 5e-4
    noise = {"joint_pos": 0.002, "joint_vel": 0.03, "joint_torque": 0.1}

    def late(name: str) -> Channel:
        """SimulatedRobot joints, answering `DELAY` late."""
        old = seen[name]
        values = np.stack([np.interp(time - DELAY, old.time, column) for column in old.values.T], 1)
        return Channel(time, values + noise[name] * rng.normal(size=values.shape), old.names, old.unit)

    # The base is shaken by the legs: it turns a little about x.
    angle = 0.05 * np.sin(2 * np.pi * 1.3 * time) * np.clip(np.minimum(time - 1, 11 - time), 0, 1)
    quat = np.stack([np.cos(angle / 2), np.sin(angle / 2), 0 * angle, 0 * angle], 1)
    quat += 2e-4 * rng.normal(size=quat.shape)
    turning = np.stack([np.gradient(angle, time), 0 * angle, 0 * angle], 1)
    up = np.stack([0 * angle, np.sin(angle), np.cos(angle)], 1)
    position = np.stack([0.02 * np.sin(2 * np.pi * time), 0 * time, 0.5 + 0 * time], 1)
    moving = np.stack([0.02 * 2 * np.pi * np.cos(2 * np.pi * time), 0 * time, 0 * time], 1)
    size = (len(time), 3)
    channels = {
        "command": command,
        **{name: late(name) for name in noise},
        "orientation": Channel(time, quat / np.linalg.norm(quat, axis=1, keepdims=True), WXYZ, "1"),
        "gyro": Channel(time, turning + 0.01 * rng.normal(size=size), XYZ, "rad/s"),
        "accelerometer": Channel(time, 9.81 * up + 0.05 * rng.normal(size=size), XYZ, "m/s^2"),
        "position": Channel(time, position + 1e-4 * rng.normal(size=size), XYZ, "m"),
        "linvel": Channel(time, moving + 0.01 * rng.normal(size=size), XYZ, "m/s"),
    }
    return Log(channels, {"robot": name})


def changed(name: str, values=None, time=None, names=None, unit=None, rows=None) -> Log:
    """The sound log with one channel changed; `values` and `time` may be functions of the old ones."""
    log = sound()
    channel = log[name]
    if rows is not None:
        channel = dataclasses.replace(channel, time=channel.time[rows], values=channel.values[rows])
    given = {
        "values": values(channel.values.copy()) if values else None,
        "time": time(channel.time.copy()) if time else None,
        "names": names,
        "unit": unit,
    }
    channel = dataclasses.replace(channel, **{key: value for key, value in given.items() if value is not None})
    return dataclasses.replace(log, channels={**log.channels, name: channel})


def timed(change) -> Log:
    """The sound log with the times of all channels changed."""
    log = sound()
    channels = {key: dataclasses.replace(channel, time=change(channel.time)) for key, channel in log.channels.items()}
    return dataclasses.replace(log, channels=channels)


def without(name: str) -> Log:
    return dataclasses.replace(sound(), channels={key: c for key, c in sound().channels.items() if key != name})


def rows_of(part, value):
    """Sets these rows to `value`, or to what it makes of them."""

    def change(values: np.ndarray) -> np.ndarray:
        values[part] = value(values[part]) if callable(value) else value
        return values

    return change


def found(log: Log) -> list[Finding]:
    return list(preflight(log, limits("go1")))


def test_a_sound_log_has_nothing_but_its_delay_to_tell():
    findings = found(sound())
    assert [(finding.check, finding.severity) for finding in findings] == [("delay", Severity.NOTE)], findings
    assert float(findings[0].seen.split(" ms")[0]) == pytest.approx(1e3 * DELAY, abs=1.0)
    assert preflight(sound()) == ()


def test_a_sound_log_of_an_arm_has_nothing_either():
    log = sound("panda")
    arm = {name: log[name] for name in ("command", "joint_pos", "joint_vel", "joint_torque")}
    findings = preflight(Log(arm), limits("panda"))
    assert {finding.check for finding in findings} <= {"delay"}, findings


N = 1000  # rows in the middle of the excitation begin here
swap = [0, 4, 2, 3, 1, *range(5, 12)]
rng = np.random.default_rng(5)
FAULTS = {
    "no command": (lambda: without("command"), "missing", "command", Severity.ERROR, "no rows"),
    "no joint_pos": (lambda: without("joint_pos"), "missing", "joint_pos", Severity.ERROR, "no rows"),
    "no torque": (lambda: without("joint_torque"), "missing", "joint_torque", Severity.NOTE, "no rows"),
    "slow": (
        lambda: changed("joint_pos", rows=slice(0, None, 5)), "slow", "joint_pos", Severity.WARNING, "40 rows/s"),
    "short": (
        lambda: sound().between(2.0, 5.0), "short", "", Severity.WARNING, "share 3.0 s"),
    "another clock": (
        lambda: changed("joint_pos", time=lambda t: t + 1e6), "short", "", Severity.ERROR, "share 0.0 s"),
    "unfinished": (
        lambda: dataclasses.replace(sound(), metadata={mcap_log.UNFINISHED: "ends"}),
        "unfinished", "", Severity.WARNING, "ends"),
    "a unit": (
        lambda: changed("joint_pos", unit="deg"), "unit", "joint_pos", Severity.ERROR, "deg"),
    "NaN": (
        lambda: changed("gyro", rows_of(slice(N, N + 3), np.nan)),
        "not a number", "gyro.x", Severity.WARNING, "3 rows"),
    "many NaN": (
        lambda: changed("gyro", rows_of(slice(N, N + 900), np.inf)),
        "not a number", "gyro.x", Severity.ERROR, "900 rows"),
    "milliseconds": (lambda: timed(lambda t: 1e3 * t), "time", "", Severity.ERROR, "s between the rows of "),
    "microseconds": (lambda: timed(lambda t: 1e6 * t), "time", "", Severity.ERROR, "s between the rows of "),
    "nanoseconds since 1970": (
        lambda: timed(lambda t: 1.7e18 + 1e9 * t), "time", "", Severity.ERROR, "s between the rows of "),
    "tiny times": (lambda: timed(lambda t: 1e-300 * t), "time", "", Severity.ERROR, "e-303 s between"),
    "tiniest times": (lambda: timed(lambda t: 5e-324 * np.floor(t)), "time", "", Severity.ERROR, "e-324 s between"),
    "huge times": (lambda: timed(lambda t: 1e300 * t), "time", "", Severity.ERROR, "e+297 s between"),
    "opposite times": (lambda: timed(lambda t: 1e307 * (t - 5)), "time", "", Severity.ERROR, "s between"),
    "a last stamp": (
        lambda: changed("gyro", time=lambda t: np.append(t[:-1], 1e18)),
        "time", "gyro", Severity.ERROR, "1e+18 s from row 2198"),
    "a jump": (
        lambda: changed("gyro", time=rows_of(slice(N, None), lambda part: part + 1e9)),
        "time", "gyro", Severity.ERROR, "1e+09 s from row 999"),
    "equal times": (
        lambda: changed("joint_pos", time=lambda t: np.repeat(t[::2], 2)[: len(t)]),
        "equal times", "joint_pos", Severity.WARNING, "rows at the time"),
    "gap": (
        lambda: changed("joint_pos", rows=np.r_[0:N, N + 60 : 2200]), "gap", "joint_pos", Severity.ERROR, "0.30 s at"),
    "lost rows": (
        lambda: changed("gyro", rows=np.flatnonzero(rng.uniform(size=2200) > 0.05)),
        "lost rows", "gyro", Severity.WARNING, "skip a row"),
    "uneven": (
        lambda: changed("gyro", time=lambda t: np.sort(t + rng.uniform(-2e-3, 2e-3, len(t)))),
        "uneven rate", "gyro", Severity.WARNING, "ms between rows"),
    "slowing": (
        lambda: changed("gyro", time=lambda t: t * (1 + 0.03 * t)),
        "changing rate", "gyro", Severity.WARNING, "rows/s at first"),
    "frozen IMU": (
        lambda: changed("accelerometer", rows_of(slice(N, N + 60), lambda part: part[0])),
        "frozen", "accelerometer", Severity.ERROR, "1 times, the longest 0.30 s"),
    "frozen joints": (
        lambda: changed("joint_pos", rows_of(slice(N, N + 60), lambda part: part[0])),
        "frozen", "joint_pos", Severity.ERROR, "the longest 0.30 s"),
    "one frozen joint": (
        lambda: changed("joint_pos", rows_of((slice(N, N + 100), 3), lambda part: part[0])),
        "frozen", "joint_pos.FL_hip", Severity.ERROR, "the longest 0.5"),
    "dead gyro": (
        lambda: changed("gyro", lambda v: 0 * v), "frozen", "gyro", Severity.WARNING, "never changes"),
    "one dead axis": (
        lambda: changed("gyro", lambda v: v * [1, 0, 1]), "frozen", "gyro.y", Severity.WARNING, "never changes"),
    "clipped gyro": (
        lambda: changed("gyro", lambda v: np.clip(v, -0.2, 0.2)), "clipped", "gyro.x", Severity.WARNING, "0.2 rad/s"),
    "clipped torque": (
        lambda: changed("joint_torque", lambda v: np.clip(v, -5, 5)),
        "clipped", "joint_torque.FR_hip", Severity.WARNING, "5 N m"),
    "saturated torque": (
        lambda: changed("joint_torque", lambda v: np.clip(3 * v, -23.7, 23.7) + 0.01 * rng.normal(size=v.shape)),
        "saturated", "joint_torque.FR_hip", Severity.WARNING, "of rows at 23.7 N m"),
    "quaternion lengths": (
        lambda: changed("orientation", lambda v: 1.1 * v), "quaternion", "orientation", Severity.ERROR, "1.1"),
    "Euler angles": (
        lambda: changed("orientation", lambda v: v[:, :3], names=("roll", "pitch", "yaw")),
        "quaternion", "orientation", Severity.ERROR, "columns roll, pitch, yaw"),
    "xyzw, upright": (
        lambda: changed("orientation", lambda v: v[:, [1, 2, 3, 0]]),
        "gyroscope", "gyro", Severity.ERROR, "unlike the turning of orientation"),
    "xyzw, pitched": (
        lambda: pitched(lambda v: v[:, [1, 2, 3, 0]]),
        "gravity", "orientation", Severity.ERROR, "degrees from the accelerometer"),
    "world to body": (
        lambda: pitched(lambda v: v * [1, -1, -1, -1]),
        "gravity", "orientation", Severity.ERROR, "69 degrees from the accelerometer"),
    "upside-down accelerometer": (
        lambda: changed("accelerometer", lambda v: -v), "gravity", "orientation", Severity.ERROR, "180 degrees"),
    "accelerometer in g": (
        lambda: changed("accelerometer", lambda v: v / 9.81), "gravity", "accelerometer", Severity.ERROR, "1.00 m/s^2"),
    "scaled accelerometer": (
        lambda: changed("accelerometer", lambda v: v * 1.05), "gravity", "accelerometer", Severity.WARNING, "10.3"),
    "gravity removed": (
        lambda: changed("accelerometer", lambda v: v - [0, 0, 9.81]),
        "gravity", "accelerometer", Severity.ERROR, "0.0"),
    "no rest": (
        lambda: changed("gyro", lambda v: v + np.array([0, 0, 3])),
        "gravity", "accelerometer", Severity.NOTE, "no rest"),
    "velocity in degrees": (
        lambda: changed("joint_vel", np.degrees), "velocity", "joint_vel.FR_hip", Severity.ERROR, "57"),
    "velocity of the other sign": (
        lambda: changed("joint_vel", lambda v: v * np.where(np.arange(12) == 2, -1, 1)),
        "velocity", "joint_vel.FR_calf", Severity.ERROR, "-0.9"),
    "gyro in degrees": (
        lambda: changed("gyro", np.degrees), "gyroscope", "gyro", Severity.ERROR, "57"),
    "fast gyro in degrees": (
        lambda: changed("gyro", lambda v: np.degrees(v * 20)), "gyroscope", "gyro", Severity.ERROR, "beyond"),
    "position in mm": (
        lambda: changed("position", lambda v: 1000 * v), "metres", "position", Severity.ERROR, "up to 50"),
    "linvel in mm/s": (
        lambda: changed("linvel", lambda v: 1000 * v), "metres", "linvel", Severity.ERROR, "m/s"),
    "joints in degrees": (
        lambda: changed("joint_pos", np.degrees), "degrees", "joint_pos", Severity.ERROR, "from -"),
    "commands in degrees": (
        lambda: changed("command", np.degrees), "degrees", "command", Severity.ERROR, "from -"),
    "an encoder's zero": (
        lambda: changed("joint_pos", lambda v: v + 1.0 * (np.arange(12) == 2)),
        "limits", "joint_pos.FR_calf", Severity.ERROR, "from -"),
    "a target beyond": (
        lambda: changed("command", lambda v: v + 0.9 * (np.arange(12) == 5)),
        "limits", "command.FL_calf", Severity.WARNING, "from -"),
    "joints swapped": (
        lambda: changed("joint_pos", lambda v: v[:, swap]),
        "joint order", "joint_pos.FR_thigh", Severity.ERROR, "follows the command of FL_thigh"),
    "a joint's sign": (
        lambda: changed("joint_pos", lambda v: v * np.where(np.arange(12) == 6, -1, 1)),
        "sign", "joint_pos.RR_hip", Severity.ERROR, "goes against its command"),
    "foreign names": (
        lambda: changed("joint_pos", names=tuple(f"motor{i}" for i in range(12))),
        "joint names", "joint_pos", Severity.ERROR, "motor0"),
    "a joint missing": (
        lambda: changed("joint_pos", lambda v: v[:, 1:], names=sound()["joint_pos"].names[1:]),
        "joint names", "joint_pos", Severity.WARNING, "without FR_hip"),
    "a joint that hardly moves": (
        lambda: changed("joint_pos", lambda v: v * np.where(np.arange(12) == 1, 0.02, 1)),
        "excitation", "joint_pos.FR_thigh", Severity.WARNING, "moves 0.0"),
    "a joint that does not move": (
        lambda: changed("joint_pos", lambda v: np.where(np.arange(12) == 1, 0.9 + 1e-3 * rng.normal(size=v.shape), v)),
        "excitation", "joint_pos.FR_thigh", Severity.ERROR, "moves 0.00"),
    "stamps before their time": (
        lambda: changed("joint_pos", time=lambda t: t - 0.02), "delay", "joint_pos", Severity.WARNING, "-"),
}  # fmt: skip


def pitched(change) -> Log:
    """The sound log of a base that is pitched by .6 rad, its orientation changed: (n, 4) wxyz -> (n, 4)."""
    log = sound()
    count = len(log["orientation"])
    quat = np.tile([np.cos(0.3), 0, np.sin(0.3), 0], (count, 1)) + 2e-4 * rng.normal(size=(count, 4))
    felt = 9.81 * np.tile([-np.sin(0.6), 0, np.cos(0.6)], (count, 1)) + 0.05 * rng.normal(size=(count, 3))
    new = {"orientation": change(quat), "accelerometer": felt, "gyro": 0.01 * rng.normal(size=(count, 3))}
    channels = {name: dataclasses.replace(log[name], values=values) for name, values in new.items()}
    return dataclasses.replace(log, channels={**log.channels, **channels})


def test_a_pitched_base_is_no_fault():
    assert {finding.check for finding in found(pitched(lambda quat: quat))} == {"delay"}


@functools.cache
def found_of(fault: str) -> list[Finding]:
    with pytest.MonkeyPatch.context() as patch:
        time_one_joint(patch)
        return found(FAULTS[fault][0]())


def time_one_joint(patch: pytest.MonkeyPatch) -> None:
    """Find the delay of one joint, which takes nine tenths of the time, and once of the same rows."""
    patch.setattr(robot, "TIMED", 1)
    patch.setattr(robot, "response", response_once)


SERVOS: dict[tuple[object, ...], tuple[Servo, ...]] = {}


def response_once(command: Channel, measured: Channel) -> tuple[Servo, ...]:
    key = (command.names, *(part.tobytes() for one in (command, measured) for part in (one.time, one.values)))
    if key not in SERVOS:
        SERVOS[key] = response(command, measured)
    return SERVOS[key]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_is_no_error_of_another_channel(fault):
    _, check, channel, severity, seen = FAULTS[fault]
    findings = [finding for finding in found_of(fault) if finding.check == check and finding.channel == channel]
    assert findings, found_of(fault)
    assert findings[0].severity is severity, findings
    assert seen in findings[0].seen
    assert findings[0].expected
    blamed = {finding.channel.partition(".")[0] for finding in found_of(fault) if finding.severity is Severity.ERROR}
    # What is compared with the faulty channel may be blamed in its place.
    compared = {"joint_pos": "joint_vel", "position": "linvel", "orientation": "gyro"}
    name = channel.partition(".")[0]
    assert severity is not Severity.ERROR or blamed <= {name, compared.get(name)}


def test_the_hint_names_the_likely_cause():
    hints = {
        fault: " ".join(finding.hint for finding in found_of(fault) if finding.check == case[1])
        for fault, case in FAULTS.items()
    }
    assert "in g?" in hints["accelerometer in g"]
    assert "gravity was removed" in hints["gravity removed"]
    assert "read as xyzw would fit" in hints["xyzw, upright"]
    assert "as xyzw it would fit" in hints["xyzw, pitched"]
    assert "as world to body it would fit" in hints["world to body"]
    assert "opposite sign" in hints["upside-down accelerometer"]
    assert "joint_vel is in degrees/s" in hints["velocity in degrees"]
    assert "wrong sign" in hints["velocity of the other sign"]
    assert "millimetres" in hints["position in mm"]
    assert "degrees" in hints["joints in degrees"]
    assert "times in milliseconds?" in hints["milliseconds"]
    assert "times in microseconds?" in hints["microseconds"]
    assert "times in nanoseconds?" in hints["nanoseconds since 1970"]
    assert hints["huge times"] == "write times in s"


def test_what_depends_on_no_times_is_still_found():
    log = timed(lambda t: 1e6 * t)
    joints = dataclasses.replace(log["joint_pos"], values=np.degrees(log["joint_pos"].values))
    findings = found(dataclasses.replace(log, channels={**log.channels, "joint_pos": joints}))
    assert {finding.check for finding in findings} == {"time", "degrees"}


def test_times_since_1970_and_slow_sensors_are_no_fault():
    log = timed(lambda t: 1.7e9 + t)
    log = dataclasses.replace(
        log, channels={**log.channels, "battery": Channel(np.arange(5.0), np.arange(5.0)[:, None], ("V",))}
    )
    assert preflight(log) == ()


def test_no_check_makes_samples_of_what_has_no_rows(monkeypatch):
    """Of a log that pauses, as of one of any length, only a stretch of rows is compared."""
    time_one_joint(monkeypatch)
    made, arange = [], np.arange
    monkeypatch.setattr(np, "arange", lambda *given: made.append(len(arange(*given))) or arange(*given))
    findings = found(timed(lambda t: t + 3000.0 * np.floor(t / 4)))
    assert {finding.check for finding in findings} >= {"gap"}
    assert "joint order" not in {finding.check for finding in findings}
    assert max(made) < 50_000


def test_the_command_line_shows_writes_and_exits(tmp_path, capsys, monkeypatch):
    time_one_joint(monkeypatch)
    path = tmp_path / "a.mcap"
    mcap_log.write(path, sound().between(0.0, 6.0))
    assert main([str(path), "--robot", "go1", "--json", str(tmp_path / "a.json")]) == 0
    assert "delay" in capsys.readouterr().out
    assert [f["check"] for f in json.loads((tmp_path / "a.json").read_text())["findings"]] == ["delay"]
    assert main([str(path)]) == 0
    assert "nothing to complain about" in capsys.readouterr().out
    mcap_log.write(path, FAULTS["joints in degrees"][0]().between(2.0, 4.0))
    assert main([str(path), "--robot", "go1"]) == 1
    shown = capsys.readouterr().out
    assert "degrees?" in shown
    assert "error" in shown


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("time,gyro.x\n" + "".join(f"{0.01 * i},{i}\n" for i in range(30)))
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--robot", ""), "unknown robot ''; known: allegro"),
        (("--json", "{}"), "log.csv' is (the same file as|a file that)"),
        (("--json", "{}/../link"), "(link|log.csv)' is (the same file as|a file that)"),
        (("--json", "{}/.."), "is a folder; expected a file"),
        (("--json", "{}/a"), "(not a directory|is a file; expected a folder|is no folder)"),
        (("--json", "x" * 300), "name too long"),
        (("--recover", "{}/../link"), "(link|log.csv)' is (the same file as|a file that)"),
        (("--recover", "{}/../a.txt"), "unknown suffix of a log '.txt'"),
        (("--recover", "{}/../a.mcap", "--json", "{}/../a.mcap"), "a.mcap' is the same file as"),
    ],
)
def test_what_is_asked_wrongly_is_one_line_and_leaves_the_recording(table, words, said):
    (table.parent / "link").symlink_to(table)
    text, files = table.read_text(), sorted(table.parent.iterdir())
    words = [word.format(table).replace(f"{table}/..", str(table.parent)) for word in words]
    line = commands.refused(main, str(table), *words)
    assert re.search(said, line, re.IGNORECASE), line
    assert table.read_text() == text
    assert sorted(table.parent.iterdir()) == files


def test_a_killed_log_is_checked_and_recovered(tmp_path, capsys):
    path, whole = tmp_path / "a.mcap", tmp_path / "b.mcap"
    with mcap_log.Recorder(path, {"robot": "go1"}) as recorder:
        gyro = sound()["gyro"]
        for time, row in zip(gyro.time, gyro.values, strict=True):
            recorder.add("gyro", time, row, gyro.names, gyro.unit)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert main([str(path), "--recover", str(whole)]) == 0
    assert "unfinished" in capsys.readouterr().out
    log = mcap_log.read(whole)
    assert dict(log.metadata) == {"robot": "go1"}
    np.testing.assert_array_equal(log["gyro"].values, gyro.values[: len(log["gyro"])])
    assert len(log["gyro"]) > 500


def test_an_empty_log_and_a_drone_do_no_harm():
    assert {finding.channel for finding in preflight(Log({}), limits("go1"))} >= {"command", "joint_pos"}
    drone = preflight(Log({"gyro": sound()["gyro"]}), limits("crazyflie"))
    assert {finding.channel for finding in drone if finding.severity is Severity.ERROR} == {
        "command", "orientation", "position"
    }  # fmt: skip
