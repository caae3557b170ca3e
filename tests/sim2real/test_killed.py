"""Host and bridge in processes of their own, one killed in mid-flight: what the other does, and what the log keeps."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sim2real import deploy, preflight
from sim2real.bundles.bundle import load
from sim2real.logs.mcap_log import FLUSH_EVERY, read
from sim2real.robots.base import Phase
from sim2real.robots.udp_bridge import SILENCE, BridgeOptions
from tests.kit.bundles import shipped_bundle

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow  # tenths of a second are measured, which two busy cores do not grant

TASK = "locomotion/go1-joystick-flat"
SLACK = 0.15  # s that a busy machine may take to wake a process
WATCHDOG = BridgeOptions().watchdog

BRIDGE = """
import sys, time
from sim2real.bundles.policies import load
from sim2real.robots import registry
from sim2real.robots.simulation.simulated import SimulatedOptions
from sim2real.robots.udp_bridge import Bridge, BridgeOptions

contract = load(sys.argv[1]).contract
robot = registry.connect("mujoco", contract, SimulatedOptions())
write, damp = robot.write, robot.damp

def say(*words):
    print(*words, repr(time.monotonic()), flush=True)

def written(target):
    write(target)
    say("write", repr(float(target[0])))

def damped():
    damp()
    say("damp", 0)

robot.write, robot.damp = written, damped
bridge = Bridge(robot, contract, BridgeOptions(port=int(sys.argv[2])))
bridge.serve()
"""
"""A bridge of a simulated robot that says when, on the computer's monotonic clock, the robot is told what."""


@dataclasses.dataclass
class Flight:
    """A deployment over UDP to a simulated robot."""

    folder: Path
    command: list[str]
    """Of the host."""
    bridge: subprocess.Popen[bytes]
    host: subprocess.Popen[str]

    @property
    def log(self) -> Path:
        return self.folder / "run.mcap"

    @property
    def written(self) -> list[tuple[float, float]]:
        """s and first target of what the robot was told."""
        return [(float(when), float(what)) for kind, what, when in said(self.folder) if kind == "write"]

    @property
    def damped(self) -> list[float]:
        """s of when it was damped."""
        return [float(when) for kind, _, when in said(self.folder) if kind == "damp"]


def said(folder: Path) -> list[list[str]]:
    """Whole lines that the bridge has written so far."""
    text = (folder / "bridge.txt").read_text()
    return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never happened"
        time.sleep(0.01)


@pytest.fixture
def bundle() -> Path:
    return shipped_bundle(TASK)


@pytest.fixture
def fly(bundle: Path, tmp_path: Path) -> Iterator[Callable[[float], Flight]]:
    """Starts a flight of which the robot has been told for so many s."""
    processes: list[subprocess.Popen] = []

    def started(seconds: float) -> Flight:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        with (tmp_path / "bridge.txt").open("w") as out:
            serve = [sys.executable, "-c", BRIDGE, str(bundle), port]
            processes.append(subprocess.Popen(serve, stdout=out, cwd=os.getcwd()))
        # Both start at once; the host waits for the bridge.
        words = ["--robot", "udp", "--address", f"127.0.0.1:{port}", "--timeout", "60"]
        words += ["--soft-start", "0.3", "--seconds", "600"]
        # Only what is tested here may latch: a busy machine misses deadlines.
        words += ["--safety.max-late", "5", "--safety.misses", "1e6", "--log", str(tmp_path / "run.mcap")]
        command = [sys.executable, "-m", "sim2real.deploy", str(bundle), *words]
        processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
        flight = Flight(tmp_path, command, *processes)
        until(lambda: flight.written or flight.host.poll() is not None)
        until(lambda: time.monotonic() > flight.written[0][0] + seconds)
        assert flight.host.poll() is None
        return flight

    yield started
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("seconds", [0.7, 1.03, 1.59, 2.21, 3.5])
def test_a_killed_host_leaves_a_damped_robot_and_a_readable_log(fly: Callable[[float], Flight], seconds: float) -> None:
    """The watchdog damps the robot in its time; the log is recovered up to the last half second."""
    flight = fly(seconds)
    flight.host.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    flight.host.wait()
    until(lambda: flight.damped and flight.damped[-1] > flight.written[-1][0])
    time.sleep(3 * WATCHDOG)
    written, last = flight.written, flight.written[-1][0]
    assert last <= killed + SLACK
    limp = next(when for when in flight.damped if when > last)
    assert limp - last > WATCHDOG - 1e-3
    assert limp - last < WATCHDOG + SLACK
    assert flight.bridge.poll() is None  # it goes on damping
    whole = flight.folder / "whole.mcap"
    assert preflight.main([str(flight.log), "--recover", str(whole)]) in (0, 1)  # findings are no failure
    recovered = read(whole)
    commands = recovered["command"]
    assert killed - commands.time[-1] < FLUSH_EVERY + SLACK
    assert {"joint_pos", "gyro", "orientation", "observation", "action", "phase", "safety"} <= set(recovered.channels)
    # Nothing is missing before that: what was logged is what the robot was told, in order.
    np.testing.assert_array_equal(commands.values[:, 0], [target for _, target in written[: len(commands)]])


@pytest.mark.parametrize("seconds", [0.6, 1.01, 2.3])
def test_a_host_whose_bridge_is_killed_latches_and_ends_its_log(
    fly: Callable[[float], Flight], bundle: Path, seconds: float
) -> None:
    """The host latches when the newest measurement is five control periods old, says so, and ends its log."""
    flight = fly(seconds)
    flight.bridge.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    words, _ = flight.host.communicate(timeout=60)
    assert flight.host.returncode == deploy.EXIT_TRIPPED == 3
    assert "LATCHED in phase run: the newest measurement is" in " ".join(words.split())
    log = read(flight.log)  # whole: nothing is asked of `unfinished`
    assert "the newest measurement is" in log.metadata["outcome"]
    phases, period = log["phase"], load(bundle).contract.period
    latched = phases.time[phases.values[:, 0] == Phase.LATCHED]
    assert latched[0] - killed < 5 * period + period + SLACK
    assert latched[0] - log["joint_pos"].time[-1] > 5 * period
    assert latched[-1] - latched[0] > 0.9  # it goes on damping for a second
    assert log["command"].time[-1] < latched[0]


def test_a_waiting_host_takes_the_robot_a_second_after_the_first_ones_last_word(fly: Callable[[float], Flight]) -> None:
    """The first host is stopped by its operator while another waits for the robot."""
    flight = fly(0.7)
    other = [word.replace("run.mcap", "other.mcap") for word in flight.command]
    waiting = subprocess.Popen(other, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        time.sleep(10.0)  # until it asks for the robot
        stopped = time.monotonic()
        flight.host.send_signal(signal.SIGINT)
        until(lambda: any(when > stopped for when in flight.damped))
        damped = next(when for when in flight.damped if when > stopped)
        until(lambda: flight.written[-1][0] > damped)
        begun = next(when for when, _ in flight.written if when > damped)
        assert begun - damped > 1.0 + SILENCE - SLACK  # the first host says DAMP for a second, and then nothing
    finally:
        waiting.kill()
        waiting.wait()
