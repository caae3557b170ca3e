"""`udp`: any robot behind a bridge that speaks the messages of docs/udp.md."""

from __future__ import annotations

import collections
import dataclasses
import secrets
import select
import socket
import time
from pathlib import Path

import numpy as np

from embodied.errors import EmbodiedError, reason
from sim2real.contract.contract import Contract
from sim2real.robots.base import Measurement, Robot, RobotError
from sim2real.robots.udp_messages import (
    NS,
    STATE_SIZE,
    Command,
    Kind,
    MessageError,
    SequenceFilter,
    State,
    Status,
    pack_command,
    read_key,
    signature,
    unpack_state,
    wire_size,
)

HELLO_EVERY = 0.05  # s between attempts to begin a session
TRIPS_KEPT = 100  # round trips among which the fastest sets the clocks


@dataclasses.dataclass(frozen=True)
class UdpOptions:
    """Connection to the bridge."""

    address: str = "127.0.0.1:9870"
    """host:port of the bridge."""
    timeout: float = 3.0
    """s to wait for its first answer."""
    key: Path | None = None
    """File of a key of at least 16 bytes that the bridge has too: messages of others are refused."""

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise EmbodiedError(f"--address {self.address!r}; expected host:port, such as 192.168.123.10:9870")
        return host, int(port)


class Udp(Robot):
    """The host's side. Not for several threads."""

    name = "udp"

    def __init__(self, contract: Contract, options: UdpOptions) -> None:
        """Begin a session; a `RobotError` where no bridge answers, or one of another robot."""
        self._contract, self._options = contract, options
        self._signature = signature(contract)
        self._key, self._challenge = read_key(options.key), 0
        self._session, self._sequence = secrets.randbits(32), 0
        self._filter = SequenceFilter(self._session)
        self._trips: collections.deque[tuple[int, int]] = collections.deque(maxlen=TRIPS_KEPT)
        self._state: State | None = None
        self._moved = False
        self.refused = 0
        """Datagrams that were no valid message of this session, or not new."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.connect(options.place)  # from now on, datagrams of others do not reach us
            self._greet()
        except OSError as error:
            self._socket.close()
            raise RobotError(f"cannot reach a bridge at {options.address}: {reason(error)}") from None
        except EmbodiedError:
            self._socket.close()
            raise

    @property
    def status(self) -> Status:
        return Status.IDLE if self._state is None else self._state.status

    def sleep_until(self, when: float) -> None:
        while (left := when - time.monotonic()) > 0:
            if select.select([self._socket], [], [], left)[0]:
                self._receive()

    def read(self) -> Measurement:
        """The newest measurement, on this computer's clock; a `RobotError` once the bridge has damped the robot."""
        self._receive()
        state = self._state
        assert state is not None
        if state.status in (Status.WATCHDOG, Status.REFUSED):
            raise RobotError(f"the bridge has damped the robot: {state.status.name.lower()}")
        return dataclasses.replace(state.measured, time=state.measured.time - self._offset())

    def write(self, target: np.ndarray) -> None:
        self._moved = True
        self._send(Kind.TARGETS, target)

    def damp(self) -> None:
        """Send that the robot is to damp; for good, once it has moved in this session."""
        self._send(Kind.DAMP if self._moved else Kind.HELLO, np.zeros(0))

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._send(Kind.DAMP, np.zeros(0))
            self._socket.close()

    def _greet(self) -> None:
        """Send HELLO until the bridge answers to this session."""
        end = time.monotonic() + self._options.timeout
        while self._state is None:
            if time.monotonic() > end:
                raise RobotError(
                    f"no bridge answers at {self._options.address} within {self._options.timeout:g} s; start it, for "
                    "example python examples/udp_bridge.py, or start it anew if it served another host; see docs/udp.md"
                )
            self._send(Kind.HELLO, np.zeros(0))
            self.sleep_until(time.monotonic() + HELLO_EVERY)
        if self._state.signature != self._signature or self._state.status is Status.REFUSED:
            raise RobotError(
                "the bridge is of another robot: names, order or units of its joints and actuators are not the bundle's"
            )

    def _send(self, kind: Kind, targets: np.ndarray) -> None:
        command = Command(
            kind, self._session, self._sequence, time.monotonic_ns(), self._signature, targets, self._challenge
        )
        self._sequence += 1
        try:
            self._socket.send(pack_command(command, self._key))
        except (ConnectionRefusedError, BlockingIOError):
            # No receiver (yet, or any more), or the queue is full: the same as a lost datagram.
            return

    def _receive(self) -> None:
        while True:
            try:
                data = self._socket.recv(wire_size(STATE_SIZE, self._key) + 1)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                continue  # what an earlier datagram came to
            try:
                state = unpack_state(data, self._key)
            except MessageError:
                self.refused += 1
                continue
            if not self._filter.admit(state.session, state.sequence):
                self.refused += 1
                continue
            self._state, self._challenge = state, state.challenge
            if state.echo_sent:
                self._measure_trip(state)

    def _measure_trip(self, state: State) -> None:
        """Length of a round trip, and the difference of the clocks that it shows, both in ns.

        Source: RFC 5905 (NTP), section 8: offset = ((t2 - t1) + (t3 - t4)) / 2, delay = (t4 - t1) - (t3 - t2).
        """
        back = time.monotonic_ns()
        there, stay = state.echo_received - state.echo_sent, state.sent - state.echo_received
        self._trips.append((back - state.echo_sent - stay, (there + state.sent - back) // 2))

    def _offset(self) -> float:
        """s that the bridge's clock is ahead, by the fastest of the last round trips."""
        return min(self._trips)[1] * NS if self._trips else 0.0
