"""The command line of deployment: what it prints, writes, refuses, and what it exits with."""

import dataclasses
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from sim2real import deploy
from sim2real.contract.contract import Command, Number
from sim2real.deployment.operator_stop import OperatorStop
from sim2real.deployment.record import Report, Timing
from sim2real.robots.base import Phase
from sim2real.robots.registry import ROBOTS, options_of
from tests.kit.bundles import shipped_policy
from tests.kit.commands import refused, run
from tests.kit.fakes import FakeRobot, Sway, leg

pytestmark = pytest.mark.usefixtures("collector")
HOVER = "swarm/hover"
FAST = ["--no-realtime", "--soft-start", "0", "--seconds", "0.4"]


@pytest.fixture
def shipped(monkeypatch):
    """The policy shipped for hover is described once a worker."""
    monkeypatch.setattr(deploy, "load", shipped_policy)


@pytest.mark.usefixtures("shipped")
def test_a_run_is_logged_and_reported(tmp_path, capsys, collector):
    from sim2real.logs.mcap_log import read

    log, result = tmp_path / "run.mcap", tmp_path / "run.json"
    words = [HOVER, "--robot", "mujoco", *FAST, "--command", "0", "0", "2", "--log", str(log), "--json", str(result)]
    assert deploy.main([*words, "--latency", "0.004", "--mismatch", "0.5"]) == 0
    assert [call[0] for call in collector.mock_calls] == ["collect", "freeze", "unfreeze"]
    said = capsys.readouterr().out
    for word in ("swarm/hover on mujoco", "whole", "mean position error", "deadlines", "jitter"):
        assert word in said
    document = json.loads(result.read_text())
    assert document["latched"] is False
    assert document["options"]["latency"] == 0.004
    assert document["task"]["seconds"] == pytest.approx(0.4)
    recorded = read(log)
    assert recorded.metadata["task"] == HOVER
    assert recorded.metadata["outcome"] == "whole"
    assert recorded.metadata["option mismatch"] == "0.5"
    assert recorded["command"].names == ("rotor1", "rotor2", "rotor3", "rotor4")
    assert len(recorded["command"]) == len(recorded["action"]) - 3 == 20  # the checks ask, and send nothing
    assert {"gyro", "position", "orientation", "linvel", "observation", "phase", "timing", "safety"} <= set(
        recorded.channels
    )
    assert set(recorded["phase"].values[:, 0]) == {Phase.CHECK, Phase.RUN, Phase.DAMP}


@pytest.mark.usefixtures("shipped")
def test_a_trip_has_its_exit_code_and_says_why(capsys):
    words = [HOVER, "--robot=mujoco", *FAST, "--command", "0", "0", "2", "--motor-strength", "0.01"]
    words[words.index("0.4")] = "3"
    assert deploy.main(words) == deploy.EXIT_TRIPPED == 3
    assert "LATCHED in phase run: z at" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([HOVER, "--command", "1", "2"], r"--command has 2 values; expected 3: target \(3: x, y and z m of the point"),
        ([HOVER, "--command", "9", "0", "1"], r"x is 9\.0 m; the policy was trained within \[-3, 3\]"),
        ([HOVER, "--robot", "mujocco"], "unknown robot 'mujocco'; did you mean 'mujoco'"),
        (["nothing/here"], "neither a bundle's folder nor a task"),
        ([HOVER, "--seconds", "-1"], "--seconds -1.0"),
        ([HOVER, "--seconds", "inf"], r"--seconds inf and --soft-start None: expected .* at most 86400 s"),
        ([HOVER, "--log", "run.csv"], r"--log 'run.csv': expected a file whose name ends in .mcap"),
        ([HOVER, "--seed", "-1"], "seed=-1 must be 0 or more"),
        ([HOVER, "--mass", "1e9"], r"mass=1000000000.0 must be from 0.001 to 1000"),
        ([HOVER, "--readings", "os:getcwd"], "--readings 'os:getcwd' is not called with a measurement: too many"),
        ([HOVER, "--safety.workspace", *["nan"] * 6], r"safety: workspace=.*nan.*expected x, y and z in m"),
        ([HOVER, "--safety.margin", "0.7"], r"safety: margin=0\.7"),
        ([HOVER, "--robot", "udp", "--address", "nowhere"], "expected host:port"),
        ([HOVER, "--robot", "lerobot"], "--device ''; expected module:callable"),
    ],
)
def test_what_cannot_begin_is_one_line_and_code_2(words, message):
    said = refused(deploy.main, *words)
    assert re.search(message, said), said


@pytest.mark.parametrize("words", [("--log", "{}/run.mcap"), ("--json", "{}/y.json"), ("--json", "{}/contract.json")])
def test_nothing_is_written_into_a_sealed_bundle(words: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "hover").mkdir()
    assert "lies in the bundle, which is sealed" in refused(
        deploy.main, str(tmp_path / "hover"), words[0], words[1].format(tmp_path / "hover")
    )


@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_has_help_with_its_own_options(name):
    ended = run(deploy.main, "--robot", name, "--help-all")
    assert ended.code == 0
    said = ended.out
    for field in dataclasses.fields(options_of(name)):
        assert f"-{field.name.replace('_', '-')}" in said
    assert "--safety.margin" in said


def test_the_default_command_is_to_stand_or_the_middle_of_the_workspace():
    np.testing.assert_array_equal(deploy.commanded(leg(), ()), [0.0])
    space = zip("xyz", ((-3.0, 3.0), (-1.0, 3.0), (0.0, 4.0)), strict=True)
    numbers = tuple(Number(axis, "m", *ends) for axis, ends in space)
    point = Command("target", 3, "a point", (0.0, 0.0, 1.0), (), numbers)
    flying = dataclasses.replace(leg(), step=dataclasses.replace(leg().step, commands=(point,)))
    np.testing.assert_array_equal(deploy.commanded(flying, ()), [0.0, 1.0, 2.0])
    unbounded = dataclasses.replace(point, numbers=())
    unknown = dataclasses.replace(leg(), step=dataclasses.replace(leg().step, commands=(unbounded,)))
    assert deploy.commanded(unknown, ()).size == 0


def test_exit_codes():
    timing = Timing(np.zeros(0), np.zeros(0), 0, 0)
    for reason, step, code in (("", "", 0), ("why", "stale", 3), ("why", "operator", 4)):
        assert deploy.Result((Report(Phase.RUN, 1.0, reason, step, {}, timing),), None).code == code


def test_the_robot_is_closed_whatever_happens(monkeypatch):
    robot = FakeRobot()
    monkeypatch.setattr("sim2real.robots.registry.connect", lambda *_: robot)
    settings = deploy.parse([HOVER, "--seconds", "0.2"])

    class Interrupted(Sway):
        def step(self, inputs):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deploy.run(settings, Interrupted(leg()))
    assert robot.closed
    assert not robot.sent


# --- the operator ---------------------------------------------------------------------------------------------------


def test_a_line_through_a_pipe_stops_and_its_end_does_not():
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream:
        stop = OperatorStop(stream)
        assert stop() == ""
        os.write(writing, b"\n")
        assert "line on standard input" in stop()
        assert "line on standard input" in stop()
        other = OperatorStop(stream)
        os.close(writing)
        assert other() == other() == ""


def test_a_file_is_not_watched(tmp_path):
    (tmp_path / "file").write_text("stop\n")
    with (tmp_path / "file").open() as stream:
        assert OperatorStop(stream)() == ""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_stop_and_are_given_back(name):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with OperatorStop(sys.__stdin__) as stop:
        os.kill(os.getpid(), number)
        assert name in stop()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("how", ["SIGTERM", "line"])
def test_a_run_is_stopped_by_its_operator(how, monkeypatch, capsys):
    """From within the policy's 20th step."""
    reading, writing = os.pipe()

    def stopped(time, action, target):
        if policy.steps == 20:
            os.kill(os.getpid(), signal.SIGTERM) if how == "SIGTERM" else os.write(writing, b"stop\n")
        return action, target

    robot, policy = FakeRobot(), Sway(leg(), stopped)
    monkeypatch.setattr("sim2real.robots.registry.connect", lambda *_: robot)
    monkeypatch.setattr(deploy, "load", lambda _: policy)
    with os.fdopen(reading) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert deploy.main([HOVER, "--seconds", "600", "--soft-start", "0"]) == deploy.EXIT_STOPPED
    os.close(writing)
    assert "stopped by the operator" in capsys.readouterr().out
    assert policy.steps < 25
    assert robot.closed
