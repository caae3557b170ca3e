"""The robot's side of docs/udp.md: a bridge between datagrams and anything that is a `Robot`.

A bridge for a vendor's SDK can be this one around a small class with `read`, `write` and `damp`; or be written anew in
any language after docs/udp.md. It does not trust the host: it has a watchdog and limits of its own.
"""

from __future__ import annotations

import dataclasses
import secrets
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sim2real.contract.contract import Contract
from sim2real.robots.base import Robot
from sim2real.robots.udp_messages import (
    COMMAND_SIZE,
    Command,
    Kind,
    MessageError,
    SequenceFilter,
    State,
    Status,
    pack_state,
    read_key,
    signature,
    unpack_command,
    wire_size,
)

FINAL = (Status.DAMPED, Status.WATCHDOG, Status.REFUSED)
"""States that only a new session ends."""
SILENCE = 1.0  # s without a message of its host after which a session that does not move the robot may be replaced
MOST_AT_ONCE = 64  # datagrams between two looks at the watchdog, so that a flood of them does not keep it from acting


@dataclasses.dataclass(frozen=True)
class BridgeOptions:
    """Address of a bridge, and when it takes the robot away from its host."""

    bind: str = "127.0.0.1"
    """Address of the interface to listen at."""
    port: int = 9870
    """Port; 0 lets the system choose."""
    watchdog: float = 0.1
    """s without valid targets after which an active robot is damped for good."""
    rate: float = 0.0
    """States per second; 0: four in each control period."""
    key: Path | None = None
    """File of a key of at least 16 bytes that the host has too: messages of others are refused."""


class Bridge:
    """Serves one robot to one host at a time, and for as long as it runs to one computer."""

    def __init__(self, robot: Robot, contract: Contract, options: BridgeOptions | None = None) -> None:
        """Listen; the robot is damped."""
        self.options = options or BridgeOptions()
        self.status, self.refused = Status.IDLE, 0
        self._robot, self._contract = robot, contract
        self._signature = signature(contract)
        self._lower, self._upper = contract.row("lower"), contract.row("upper")
        self._filter: SequenceFilter | None = None
        self._host: tuple[str, int] | None = None
        self._key, self._challenge = read_key(self.options.key), 0
        self._heard = 0  # ns, when the last valid targets came
        self._spoke = 0  # ns, when the host's last valid message came
        self._echo = (0, 0)
        self._sequence = 0
        self._past: set[int] = set()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.options.bind, self.options.port))
        self._socket.setblocking(False)
        robot.damp()

    @property
    def address(self) -> str:
        """host:port that it listens at."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def serve(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Serve until `stop` returns true; damps at the end, however it comes."""
        period = 1 / (self.options.rate or 4 * self._contract.control_hz)
        begin = time.monotonic() - self._robot.now()  # between the computer's clock and the robot's
        due = time.monotonic()
        try:
            while not stop():
                self._robot.sleep_until(due - begin)
                self.poll()
                due = max(due + period, time.monotonic())
        finally:
            self._robot.damp()
            self._socket.close()

    def poll(self) -> None:
        """Take in what has come, watch the clock, send a state."""
        self._receive()
        if self.status is Status.ACTIVE and time.monotonic_ns() - self._heard > 1e9 * self.options.watchdog:
            self._finish(Status.WATCHDOG)
        if self._host is not None and self._filter is not None:
            self._send(self._filter.session, self._host)

    def _receive(self) -> None:
        for _ in range(MOST_AT_ONCE):
            if not select.select([self._socket], [], [], 0)[0]:
                return
            data, host = self._socket.recvfrom(wire_size(COMMAND_SIZE, self._key) + 1)
            try:
                command = unpack_command(data, self._key)
            except MessageError:
                self.refused += 1
                continue
            self._take(command, host)

    def _take(self, command: Command, host: tuple[str, int]) -> None:
        if command.kind is Kind.HELLO and self._may_begin(command, host):
            self._filter, self._host = SequenceFilter(command.session), host
            self._past.add(command.session)
            self._challenge = secrets.randbits(64) if self._key else 0
            self.status = Status.READY if command.signature == self._signature else Status.REFUSED
            self._echo = (0, 0)
        if self._filter is None or host != self._host or not self._filter.admit(command.session, command.sequence):
            self.refused += 1
            return
        if command.kind is not Kind.HELLO and command.challenge != self._challenge:
            self.refused += 1  # recorded in another session of the same number
            return
        self._spoke = time.monotonic_ns()
        self._echo = (command.sent, self._spoke)
        if command.kind is Kind.DAMP and self.status not in FINAL:
            self._finish(Status.DAMPED)
        elif command.kind is Kind.TARGETS and self.status in (Status.READY, Status.ACTIVE):
            self._hold(command)

    def _may_begin(self, command: Command, host: tuple[str, int]) -> bool:
        """Whether a new session may replace the present one.

        Not an earlier session again; not while the robot moves or its host still speaks, even if that only repeats that
        the robot is to damp; and only one of the computer that began the first: another one waits until a person starts
        the bridge anew.
        """
        if command.session in self._past or (self._host is not None and host[0] != self._host[0]):
            return False
        silent = time.monotonic_ns() - self._spoke > 1e9 * SILENCE
        return self.status is Status.IDLE or (self.status is not Status.ACTIVE and silent)

    def _hold(self, command: Command) -> None:
        """Pass targets on, if they are within the limits: the host's own check is not trusted."""
        targets = command.targets
        fits = targets.shape == self._lower.shape and command.signature == self._signature
        if not fits or not ((targets >= self._lower) & (targets <= self._upper)).all():  # NaN compares false
            self._finish(Status.REFUSED)
            return
        self.status, self._heard = Status.ACTIVE, time.monotonic_ns()
        self._robot.write(np.array(targets))

    def _finish(self, status: Status) -> None:
        self.status = status
        self._robot.damp()

    def _send(self, session: int, host: tuple[str, int]) -> None:
        if self.status in FINAL:
            self._robot.damp()  # again and again: one message to a motor may be lost
        age = self._robot.now() - (measured := self._robot.read()).time
        taken = dataclasses.replace(measured, time=max(0.0, time.monotonic() - age))
        state = State(
            session, self._sequence, time.monotonic_ns(), self._signature, self.status, *self._echo, taken,
            len(self._contract.joints), self._challenge,
        )  # fmt: skip
        self._sequence += 1
        try:
            self._socket.sendto(pack_state(state, self._key), host)
        except OSError:
            return  # the host has gone; the watchdog sees to the robot
