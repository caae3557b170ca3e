"""Messages survive the wire or are refused; a bridge takes the robot from a host that dies, lies or is another's."""

import contextlib
import dataclasses
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.deployment.safety import Safety, SafetyConfig
from sim2real.robots import udp_messages as um
from sim2real.robots.base import Measurement, RobotError
from sim2real.robots.udp import Udp, UdpOptions
from sim2real.robots.udp_bridge import MOST_AT_ONCE, Bridge, BridgeOptions
from tests.kit.fakes import FakeRobot, Sway, leg

# A machine may pause; limits and predictions have tests of their own.
ROOMY = SafetyConfig(max_age=1.0, max_late=1.0, misses=1e3, predictions=False)


class Realtime(FakeRobot):
    """The fake on the computer's clock."""

    def now(self):
        return time.monotonic()

    def sleep_until(self, when):
        if (left := when - time.monotonic()) > 0:
            time.sleep(left)
        self.advance(max(0.0, time.monotonic() - self.time) if self.time else 0.0)
        self.time = time.monotonic()

    def read(self):
        self.time = time.monotonic()
        return super().read()


@contextlib.contextmanager
def serving(key=None):
    """A bridge around a fake robot, served by a thread."""
    robot, end = Realtime(), threading.Event()
    bridge = Bridge(robot, robot.contract, BridgeOptions(port=0, watchdog=0.3, key=key))
    thread = threading.Thread(target=bridge.serve, args=(end.is_set,), daemon=True)
    thread.start()
    try:
        yield bridge, robot
    finally:
        end.set()
        thread.join(5)


@pytest.fixture
def served():
    with serving() as both:
        yield both


def host_of(bridge, contract=None):
    return Udp(contract or leg(), UdpOptions(bridge.address))


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never happened"
        time.sleep(0.005)


COMMAND = um.Command(um.Kind.TARGETS, 7, 3, 123456789, 99, np.array([0.1, -np.pi, 1e-300]))
MEASURED = Measurement(1.5, joint_pos=np.array([1.0, 2.0]), orientation=np.array([1.0, 0, 0, 0]), linvel=np.ones(3))
STATE = um.State(7, 4, 12, 99, um.Status.ACTIVE, 5, 6, MEASURED, 2)


def test_messages_come_back_to_the_last_bit():
    data = um.pack_command(COMMAND)
    assert len(data) == um.COMMAND_SIZE == 296
    again = um.unpack_command(data)
    np.testing.assert_array_equal(again.targets, COMMAND.targets)
    assert dataclasses.replace(again, targets=None) == dataclasses.replace(COMMAND, targets=None)
    data = um.pack_state(STATE)
    assert len(data) == um.STATE_SIZE == 964
    again = um.unpack_state(data)
    assert dataclasses.replace(again, measured=None) == dataclasses.replace(STATE, measured=None)
    assert again.measured.time == 1.5
    assert again.measured.gyro is None
    for part in ("joint_pos", "orientation", "linvel"):
        np.testing.assert_array_equal(getattr(again.measured, part), getattr(MEASURED, part))


def test_offsets_are_those_of_the_documentation():
    data = um.pack_state(STATE)
    assert data[:4] == b"EMBD"
    assert struct.unpack_from("<HH", data, 4) == (1, 16)
    assert struct.unpack_from("<I", data, 32)[0] == um.Status.ACTIVE
    assert struct.unpack_from("<2d", data, 64) == (1.0, 2.0)
    assert struct.unpack_from("<4d", data, 880) == (1.0, 0.0, 0.0, 0.0)
    assert struct.unpack_from("<3d", data, 936) == (1.0, 1.0, 1.0)
    data = um.pack_command(COMMAND)
    assert struct.unpack_from("<I", data, 28)[0] == 3
    assert struct.unpack_from("<3d", data, 36) == tuple(COMMAND.targets)
    assert struct.unpack_from("<I", data, 292)[0] == zlib.crc32(data[:292])


def changed(data, offset, value):
    """Bytes with one replaced, and a checksum that fits."""
    whole = bytearray(data[:-4])
    whole[offset] = value
    return bytes(whole) + struct.pack("<I", zlib.crc32(whole))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[:-1], "295 bytes; expected 296"),
        (lambda data: data + b"x", "297 bytes"),
        (lambda data: changed(data, 0, 0), "begins with"),
        (lambda data: changed(data, 4, 2), "version 2"),
        (lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], "checksum"),
        (lambda data: changed(data, 6, 9), "kind 9"),
        (lambda data: changed(data, 28, 33), "33 targets"),
    ],
)
def test_what_is_no_message_is_refused(spoil, message):
    with pytest.raises(um.MessageError, match=message):
        um.unpack_command(spoil(um.pack_command(COMMAND)))


def test_every_flipped_bit_is_found():
    data = um.pack_state(STATE)
    for bit in range(0, 8 * len(data), 7):
        spoilt = bytearray(data)
        spoilt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(um.MessageError):
            um.unpack_state(bytes(spoilt))


def test_names_order_and_units_are_part_of_the_signature():
    one = leg()
    others = [dataclasses.replace(one, joints=one.joints[::-1], actuators=one.actuators[::-1])]
    for part, change in (("joints", {"name": "k0"}), ("actuators", {"name": "k0"}), ("actuators", {"unit": "deg"})):
        first, *rest = getattr(one, part)
        spoilt = {part: (dataclasses.replace(first, **change), *rest)}
        if part == "joints":
            spoilt["actuators"] = (dataclasses.replace(one.actuators[0], joint="k0"), *one.actuators[1:])
        others.append(dataclasses.replace(one, **spoilt))
    assert um.signature(one) == um.signature(leg())
    assert len({um.signature(other) for other in (one, *others)}) == 5


def test_a_deployment_over_loopback_ends_damped(served):
    bridge, robot = served
    host = host_of(bridge)
    safety = Safety.of(leg(), ROOMY)
    settings = LoopSettings(seconds=0.6, soft_start=0.3, damp=0.2)
    report = Loop(host, Sway(leg()), np.zeros(1), settings, safety=safety).run()
    host.close()
    assert report.whole, report.reason
    until(lambda: bridge.status is um.Status.DAMPED)
    assert robot.target is None
    assert len(robot.sent) >= 20
    assert bridge.refused == 0


def test_clocks_are_compared(served):
    bridge, _ = served
    host = host_of(bridge)
    until(lambda: host.sleep_until(host.now() + 0.02) or len(host._trips) > 5)
    ages = [host.now() - host.read().time for _ in range(20)]
    assert all(-0.05 < age < 0.2 for age in ages)
    host.close()


def test_a_bridge_of_another_robot_is_refused_by_both(served):
    bridge, robot = served
    other = dataclasses.replace(leg(), joints=leg().joints[::-1])
    with pytest.raises(RobotError, match="another robot"):
        host_of(bridge, other)
    assert bridge.status is um.Status.REFUSED
    assert not robot.sent


def test_nobody_there_is_said_in_one_line():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RobotError, match=r"no bridge answers at 127\.0\.0\.1"):
        Udp(leg(), UdpOptions(f"127.0.0.1:{port}", timeout=0.2))


@pytest.mark.parametrize("address", ["nowhere", "host:", ":1", "host:70000", "host:x"])
def test_addresses_are_checked(address):
    with pytest.raises(EmbodiedError, match="expected host:port"):
        Udp(leg(), UdpOptions(address))


def raw(bridge):
    """A socket of somebody who writes messages by hand, in a session of their own."""
    host, _, port = bridge.address.rpartition(":")
    wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wire.connect((host, int(port)))
    code = um.signature(leg())

    def send(kind, sequence, targets=(), session=5, signature=code):
        data = um.pack_command(um.Command(kind, session, sequence, 1, signature, np.array(targets, float)))
        wire.send(data)
        return data

    return wire, send


def test_replayed_foreign_and_broken_messages_move_nothing(served):
    bridge, robot = served
    wire, send = raw(bridge)
    send(um.Kind.HELLO, 0)
    old = send(um.Kind.TARGETS, 1, [0.1, 0.1, 0.1])
    send(um.Kind.TARGETS, 2, [0.2, 0.2, 0.2])
    until(lambda: len(robot.sent) == 2)
    wire.send(old)
    wire.send(old[:-1])
    wire.send(changed(old, 4, 9))
    send(um.Kind.TARGETS, 9, [0.3, 0.3, 0.3], session=6)
    send(um.Kind.HELLO, 0, session=8)  # nobody takes over a robot that moves
    stranger, strange = raw(bridge)
    strange(um.Kind.TARGETS, 10, [0.4, 0.4, 0.4])
    until(lambda: bridge.refused == 6)
    assert [target[0] for _, target in robot.sent] == [0.1, 0.2]
    wire.close()
    stranger.close()


@pytest.mark.parametrize("targets", [[0.0, 2.0, 0.0], [0.0, np.nan, 0.0], [0.0, -np.inf, 0.0], [0.0, 0.0]])
def test_a_bridge_refuses_targets_outside_the_limits_for_good(served, targets):
    bridge, robot = served
    wire, send = raw(bridge)
    send(um.Kind.HELLO, 0)
    send(um.Kind.TARGETS, 1, [0.1, 0.1, 0.1])
    send(um.Kind.TARGETS, 2, targets)
    until(lambda: bridge.status is um.Status.REFUSED)
    send(um.Kind.TARGETS, 3, [0.1, 0.1, 0.1])
    send(um.Kind.HELLO, 4)
    time.sleep(0.05)
    assert bridge.status is um.Status.REFUSED
    assert len(robot.sent) == 1
    assert robot.target is None
    wire.close()


HOST = """
import sys, time
import numpy as np
from sim2real.robots.udp import Udp, UdpOptions
from tests.kit.fakes import leg
robot = Udp(leg(), UdpOptions(sys.argv[1]))
while True:
    robot.write(np.full(3, 0.3))
    robot.read()
    robot.sleep_until(robot.now() + 0.02)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_frozen_host_leaves_a_damped_robot(served, how):
    bridge, robot = served
    host = subprocess.Popen([sys.executable, "-c", HOST, bridge.address], cwd=os.getcwd())
    try:
        until(lambda: len(robot.sent) > 10, 60)
        host.send_signal(how)
        until(lambda: bridge.status is um.Status.WATCHDOG)
        sent = len(robot.sent)
        assert robot.target is None
        assert all((np.abs(target) <= 1).all() for _, target in robot.sent)
        # The frozen one wakes up and goes on writing: too late.
        if how == signal.SIGSTOP:
            host.send_signal(signal.SIGCONT)
            time.sleep(0.3)
        assert bridge.status is um.Status.WATCHDOG
        assert len(robot.sent) == sent
        assert robot.target is None
    finally:
        host.kill()
        host.wait()


def test_a_host_whose_bridge_has_taken_the_robot_away_latches(served):
    bridge, robot = served
    host = host_of(bridge)
    begin = time.monotonic()

    def silent(target):
        if time.monotonic() < begin + 1.0:
            Udp.write(host, target)

    host.write = silent
    settings = LoopSettings(seconds=30.0, soft_start=0.2, damp=0.1)
    report = Loop(host, Sway(leg()), np.zeros(1), settings, safety=Safety.of(leg(), ROOMY)).run()
    host.close()
    assert report.step == "error"
    assert "bridge has damped the robot: watchdog" in report.reason
    assert robot.target is None


KEY = bytes(range(32))


def hello(session, key=None):
    signature = um.signature(leg())
    return um.pack_command(um.Command(um.Kind.HELLO, session, 0, 1, signature, np.zeros(0)), key)


def bridge_alone(tmp_path, key=None):
    """A bridge that is not served: `_take` is called by the test."""
    if key:
        (tmp_path / "key").write_bytes(key)
        (tmp_path / "key").chmod(0o600)
    robot = FakeRobot()
    return Bridge(robot, robot.contract, BridgeOptions(port=0, key=tmp_path / "key" if key else None)), robot


@pytest.mark.parametrize("status", [um.Status.READY, *sorted({3, 4, 5})])
def test_neither_a_stranger_nor_a_second_host_begins_a_session(tmp_path, status):
    """Neither before the first targets nor after the watchdog, from another computer."""
    bridge, _ = bridge_alone(tmp_path)
    bridge._take(um.unpack_command(hello(1)), ("10.0.0.1", 5000))
    assert bridge.status is um.Status.READY
    bridge._take(um.unpack_command(hello(4)), ("10.0.0.1", 5001))  # its host still speaks
    assert bridge._host == ("10.0.0.1", 5000)
    bridge.status = um.Status(status)
    bridge._take(um.unpack_command(hello(5)), ("10.0.0.1", 5001))  # it has spoken within the last second
    assert bridge._host == ("10.0.0.1", 5000)
    bridge._spoke = 0
    bridge._take(um.unpack_command(hello(2)), ("10.0.0.66", 5000))
    assert bridge._host == ("10.0.0.1", 5000)
    assert bridge.status is um.Status(status)
    bridge._take(um.unpack_command(hello(3)), ("10.0.0.1", 5001))  # its own person starts the host again
    assert bridge._host == ("10.0.0.1", 5001)
    assert bridge.status is um.Status.READY


def test_a_flood_does_not_keep_the_watchdog_from_its_turn(tmp_path):
    bridge, _ = bridge_alone(tmp_path)
    address, count = bridge._socket.getsockname(), 2 * MOST_AT_ONCE
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        for _ in range(count):
            attacker.sendto(b"x", address)
        bridge.poll()
        assert bridge.refused == MOST_AT_ONCE
        bridge.poll()
        assert bridge.refused == count


def test_messages_with_a_key_come_back_and_others_are_refused():
    command = dataclasses.replace(COMMAND, challenge=2**63 + 5)
    data = um.pack_command(command, KEY)
    assert len(data) == um.wire_size(um.COMMAND_SIZE, KEY) == 332
    assert um.unpack_command(data, KEY).challenge == command.challenge
    for spoilt in (um.pack_command(command), um.pack_command(command, KEY[::-1]), data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(um.MessageError):
            um.unpack_command(spoilt, KEY)
    with pytest.raises(um.MessageError):
        um.unpack_command(data)


def test_what_was_recorded_with_the_key_moves_nothing_later(tmp_path):
    """The same session number, the same computer, the right key, a bridge started anew: another challenge."""
    bridge, robot = bridge_alone(tmp_path, KEY)
    host = ("10.0.0.1", 5000)
    bridge._take(um.unpack_command(hello(1, KEY), KEY), host)
    targets = (bridge._lower + bridge._upper) / 2
    command = um.Command(um.Kind.TARGETS, 1, 1, 2, um.signature(robot.contract), targets, bridge._challenge)
    bridge._take(command, host)
    assert bridge.status is um.Status.ACTIVE
    again, _ = bridge_alone(tmp_path, KEY)
    again._take(um.unpack_command(hello(1, KEY), KEY), host)
    again._take(command, host)
    assert again.status is um.Status.READY
    assert again.refused == 1


def test_a_deployment_with_a_key_which_is_not_short_and_nobody_else_reads(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"secret")
    with pytest.raises(EmbodiedError, match="at least 16"):
        um.read_key(key)
    key.write_bytes(KEY)
    for mode in (0o644, 0o640, 0o602):
        key.chmod(mode)
        with pytest.raises(EmbodiedError, match=rf"is open to others \(mode {mode:04o}\); chmod 600 "):
            um.read_key(key)
    key.chmod(0o600)
    with serving(key) as (bridge, _):
        with pytest.raises(RobotError, match="no bridge answers"):
            Udp(leg(), UdpOptions(bridge.address, timeout=0.3))
        host = Udp(leg(), UdpOptions(bridge.address, key=key))
        host.write((bridge._lower + bridge._upper) / 2)
        until(lambda: bridge.status is um.Status.ACTIVE)
        host.close()
        until(lambda: bridge.status is um.Status.DAMPED)
