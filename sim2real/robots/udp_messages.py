"""The two messages of docs/udp.md as bytes: fixed size, little-endian, float64, with a CRC32, or a key's HMAC.

Nothing here touches a socket. A message of another size, magic, version or checksum is refused; whether its sequence
number is a new one is checked by the receiver, with `SequenceFilter`.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import hmac
import os
import stat
import struct
import zlib
from pathlib import Path

import numpy as np

from embodied.errors import EmbodiedError, reason
from embodied.storage.files import read_file
from sim2real.contract.contract import Contract
from sim2real.robots.base import Measurement, RobotError

MAGIC = b"EMBD"
VERSION = 1
SLOTS = 32  # actuators or joints that fit into a message; the rest of the slots are zero
HEADER = struct.Struct("<4sHHIIQ")  # magic, version, kind, session, sequence, time of sending in ns
COMMAND_BODY = struct.Struct(f"<III{SLOTS}d")  # signature, count, reserved, targets
STATE_BODY = struct.Struct(f"<IIIIQQQ{3 * SLOTS + 16}d")  # signature, count, status, parts, 3 times in ns, numbers
CRC = struct.Struct("<I")
COMMAND_SIZE = HEADER.size + COMMAND_BODY.size + CRC.size
STATE_SIZE = HEADER.size + STATE_BODY.size + CRC.size
CHALLENGE = struct.Struct("<Q")
HMAC_SIZE = hashlib.sha256().digest_size
KEY_SIZE = 16  # bytes of the shortest key: 128 bits
NS = 1e-9  # s per ns


class MessageError(RobotError):
    """Bytes that are no message of ours."""


class Kind(enum.IntEnum):
    """Kind of a message."""

    HELLO = 1
    """Host: a session begins; the robot stays damped."""
    TARGETS = 2
    """Host: hold these targets."""
    DAMP = 3
    """Host: damp, for good; only a new session moves the robot again."""
    STATE = 16
    """Bridge: what was measured."""


class Status(enum.IntEnum):
    """Status of a bridge."""

    IDLE = 0
    """Damped, without a session."""
    READY = 1
    """Damped, in a session, before its first targets."""
    ACTIVE = 2
    """Holds targets."""
    DAMPED = 3
    """Damped by the host, for good."""
    WATCHDOG = 4
    """Damped because no valid targets came in time, for good."""
    REFUSED = 5
    """Damped, for good: the host requested another robot, or something that this one does not do."""


PART_SIZES = {
    "joint_pos": SLOTS,
    "joint_vel": SLOTS,
    "joint_torque": SLOTS,
    "gyro": 3,
    "accelerometer": 3,
    "orientation": 4,
    "position": 3,
    "linvel": 3,
}
"""Parts of a measurement in their order in a STATE; bit i of its `parts` is set where the i-th is there."""


@dataclasses.dataclass(frozen=True)
class Command:
    """Host to bridge."""

    kind: Kind
    session: int
    sequence: int
    sent: int
    """ns, the host's clock."""
    signature: int
    """`signature` of the contract."""
    targets: np.ndarray
    """(A,) in the actuators' units; (0,) but in TARGETS."""
    challenge: int = 0
    """With a key, the number that the bridge drew for this session, 0 before it is known; else not sent."""


@dataclasses.dataclass(frozen=True)
class State:
    """Bridge to host."""

    session: int
    sequence: int
    sent: int
    """ns, the bridge's clock."""
    signature: int
    status: Status
    echo_sent: int
    """ns, the host's clock: `sent` of the newest valid command; 0 before the first."""
    echo_received: int
    """ns, the bridge's clock: when that command came."""
    measured: Measurement
    """Its time is in s on the bridge's clock."""
    count: int
    """Joints."""
    challenge: int = 0
    """With a key, a number drawn for this session: commands without it are of another; else not sent."""


def read_key(path: Path | None) -> bytes | None:
    """The key that host and bridge share; None for no file.

    Raises:
        EmbodiedError: the file cannot be read, is shorter than 16 bytes, or is this user's and open to others.
    """
    if path is None:
        return None
    try:
        key, status = read_file(path), path.stat()
    except OSError as error:
        raise EmbodiedError(f"cannot read the key '{path}': {reason(error)}") from None
    if len(key) < KEY_SIZE:
        raise EmbodiedError(
            f"the key '{path}' has {len(key)} bytes; expected at least {KEY_SIZE}: head -c 32 /dev/urandom > {path}"
        )
    if os.name == "posix" and status.st_uid == os.geteuid() and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(status.st_mode)
        raise EmbodiedError(f"the key '{path}' is open to others (mode {mode:04o}); chmod 600 {path}")
    return key


def wire_size(size: int, key: bytes | None) -> int:
    """Bytes of a message of `size` bytes with a CRC: with a key, challenge and HMAC take the CRC's place."""
    return size if key is None else size - CRC.size + CHALLENGE.size + HMAC_SIZE


def signature(contract: Contract) -> int:
    """A number that differs where names, order or units of joints and actuators do."""
    words = [f"{actuator.name} {actuator.unit}" for actuator in contract.actuators]
    words += ["|", *(joint.name for joint in contract.joints)]
    return zlib.crc32("\n".join(words).encode())


def pack_command(command: Command, key: bytes | None = None) -> bytes:
    """The bytes of a command; a `MessageError` where it has more targets than there are slots."""
    head = HEADER.pack(MAGIC, VERSION, command.kind, command.session, command.sequence, command.sent)
    targets = _slots(command.targets)
    body = COMMAND_BODY.pack(command.signature, len(command.targets), 0, *targets)
    return _sealed(head + body, key, command.challenge)


def unpack_command(data: bytes, key: bytes | None = None) -> Command:
    """The command in a datagram; a `MessageError` where it is none of this version."""
    kind, session, sequence, sent, challenge = _opened(data, COMMAND_SIZE, key)
    code, count, _, *targets = COMMAND_BODY.unpack_from(data, HEADER.size)
    if kind not in (Kind.HELLO, Kind.TARGETS, Kind.DAMP) or count > SLOTS:
        raise MessageError(f"not a command: kind {kind}, {count} targets")
    return Command(Kind(kind), session, sequence, sent, code, np.array(targets[:count]), challenge)


def pack_state(state: State, key: bytes | None = None) -> bytes:
    """The bytes of a state; a `MessageError` where it has more joints than there are slots."""
    numbers: list[float] = []
    parts = 0
    for bit, (part, size) in enumerate(PART_SIZES.items()):
        values = getattr(state.measured, part)
        parts |= (values is not None) << bit
        numbers += _slots(values if values is not None else np.zeros(0), size)
    head = HEADER.pack(MAGIC, VERSION, Kind.STATE, state.session, state.sequence, state.sent)
    times = state.echo_sent, state.echo_received, max(0, round(state.measured.time / NS))
    body = STATE_BODY.pack(state.signature, state.count, state.status, parts, *times, *numbers)
    return _sealed(head + body, key, state.challenge)


def unpack_state(data: bytes, key: bytes | None = None) -> State:
    """The state in a datagram; a `MessageError` where it is none of this version."""
    kind, session, sequence, sent, challenge = _opened(data, STATE_SIZE, key)
    code, count, status, parts, echo_sent, echo_received, taken, *numbers = STATE_BODY.unpack_from(data, HEADER.size)
    if kind != Kind.STATE or count > SLOTS or status not in list(Status) or parts >> len(PART_SIZES):
        raise MessageError(f"not a state: kind {kind}, {count} joints, status {status}, parts {parts:#x}")
    values, start = {}, 0
    for bit, (part, size) in enumerate(PART_SIZES.items()):
        if parts >> bit & 1:
            values[part] = np.array(numbers[start : start + (count if size == SLOTS else size)])
        start += size
    measured = Measurement(taken * NS, **values)
    return State(session, sequence, sent, code, Status(status), echo_sent, echo_received, measured, count, challenge)


class SequenceFilter:
    """Admits the new messages of a session: those whose sequence number is larger than all before."""

    def __init__(self, session: int) -> None:
        self.session, self._last = session, -1

    def admit(self, session: int, sequence: int) -> bool:
        """Whether a message is of this session and newer than all before; it counts as come then."""
        if session != self.session or sequence <= self._last:
            return False
        self._last = sequence
        return True


def _slots(values: np.ndarray, slots: int = SLOTS) -> list[float]:
    if len(values) > slots:
        raise MessageError(f"{len(values)} numbers; a message has room for {slots}")
    return [*map(float, values), *[0.0] * (slots - len(values))]


def _sealed(data: bytes, key: bytes | None, challenge: int) -> bytes:
    """A message with its CRC, or with challenge and HMAC."""
    if key is None:
        return data + CRC.pack(zlib.crc32(data))
    data += CHALLENGE.pack(challenge)
    return data + hmac.digest(key, data, "sha256")


def _opened(data: bytes, size: int, key: bytes | None) -> tuple[int, int, int, int, int]:
    """Kind, session, sequence, time of sending and challenge of a message that is whole."""
    if len(data) != wire_size(size, key):
        raise MessageError(f"a datagram of {len(data)} bytes; expected {wire_size(size, key)}")
    magic, version, kind, session, sequence, sent = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise MessageError(f"a datagram that begins with {magic!r}; expected {MAGIC!r}")
    if version != VERSION:
        raise MessageError(f"a message of version {version}; this is version {VERSION}")
    if key is None:
        (crc,) = CRC.unpack_from(data, size - CRC.size)
        if crc != zlib.crc32(data[: -CRC.size]):
            raise MessageError("a message with a wrong checksum")
        return kind, session, sequence, sent, 0
    if not hmac.compare_digest(hmac.digest(key, data[:-HMAC_SIZE], "sha256"), data[-HMAC_SIZE:]):
        raise MessageError("a message by somebody who does not have the key")
    (challenge,) = CHALLENGE.unpack_from(data, len(data) - HMAC_SIZE - CHALLENGE.size)
    return kind, session, sequence, sent, challenge
