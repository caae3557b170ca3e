"""Logs as MCAP files: one MCAP channel per channel of the log, JSON messages that Foxglove and others open and plot.

A message holds one row: `{"time": 0.02, "FR_hip": 0.1, ...}`. Its `time` (s) is exact and counts; the record's own
`log_time` is the same, rounded to 1 ns, for other tools. JSON has no NaN and no infinities: they are written as null
and as the strings "Infinity" and "-Infinity". The schema names the fields with their unit; the names in order and the
unit also stand in the channel's metadata. `Log.metadata` is the metadata record `embodied.log`.

Files of others are read where their messages are flat JSON objects of numbers. Source of the container's format:
https://mcap.dev/spec.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from embodied.errors import listing, reason
from embodied.storage.files import write_atomic
from sim2real.logs.log import Log, LogError
from sim2real.logs.mcap_reader import METADATA, TIME, UNFINISHED, package, read

if TYPE_CHECKING:
    from mcap.writer import Writer

__all__ = ["METADATA", "UNFINISHED", "Recorder", "read", "write"]

LATEST = 2.0**63  # ns, largest stamp of a message; its own field has the time as it is
FLUSH_EVERY = 0.5  # s of log time, our choice: what a killed process loses at most


class Recorder:
    """Writes a log while it happens. A process that is killed leaves a file whose flushed part can be read.

    with Recorder("run.mcap", {"robot": "go1"}) as recorder:
        recorder.add("joint_pos", now, measured.joint_pos, names, "rad")
    """

    def __init__(
        self, path: str | Path, metadata: Mapping[str, str] | None = None, flush_every: float = FLUSH_EVERY
    ) -> None:
        """Create the file, or empty the one that is there.

        Args:
            path: The file.
            metadata: What is known of the recording.
            flush_every: s of log time after which rows are handed to the operating system.

        Raises:
            LogError: the file cannot be created.
        """
        try:
            self._file: IO[bytes] = Path(path).open("wb")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise LogError(f"cannot write the log '{path}': {reason(error)}") from None
        self._stream = _Stream(self._file, metadata or {})
        self._flush_every = flush_every
        self._flushed = -math.inf

    def add(self, channel: str, time: float, values: np.ndarray, names: tuple[str, ...], unit: str = "") -> None:
        """Write one row.

        Args:
            channel: Name of the channel; its first row also fixes `names` and `unit`.
            time: s since the log's epoch, not before the channel's last row.
            values: (k,) numbers.
            names: (k) names of the columns.
            unit: Of the numbers.

        Raises:
            LogError: the row does not fit the channel, or the recorder is closed.
        """
        if self._file.closed:
            raise LogError(f"the recorder is closed; it cannot add to '{channel}'")
        self._stream.add(channel, time, values, names, unit)
        if time - self._flushed >= self._flush_every:
            self._stream.writer.flush()
            self._flushed = time

    def note(self, name: str, value: str) -> None:
        """Add to the metadata what is known only now, such as why a deployment ended."""
        self._stream.writer.add_metadata(METADATA, {name: value})

    def close(self) -> None:
        """Write the end record and the index. Does nothing the second time."""
        if not self._file.closed:
            self._stream.writer.finish()
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write(path: str | Path, log: Log) -> None:
    """Write a whole log; the file is replaced at once or not at all."""
    data = io.BytesIO()
    stream = _Stream(data, log.metadata)
    for name, channel in log.channels.items():
        stream.register(name, channel.names, channel.unit)
    rows = [(time, i, row) for i, channel in enumerate(log.channels.values()) for row, time in enumerate(channel.time)]
    names = tuple(log.channels)
    for time, i, row in sorted(rows):
        channel = log.channels[names[i]]
        stream.add(names[i], float(time), channel.values[row], channel.names, channel.unit)
    stream.writer.finish()
    try:
        write_atomic(Path(path), data.getvalue())
    except OSError as error:
        raise LogError(f"cannot write the log '{path}': {reason(error)}") from None


class _Stream:
    """An MCAP writer that knows the channels' columns and their last times."""

    def __init__(self, output: IO[bytes], metadata: Mapping[str, str]) -> None:
        mcap_writer = package("mcap.writer")
        self.writer: Writer = mcap_writer.Writer(output)
        self.writer.start(profile="", library="embodied")
        if metadata:
            self.writer.add_metadata(METADATA, {str(key): str(value) for key, value in metadata.items()})
        self._known: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._last: dict[str, float] = {}

    def register(self, name: str, names: tuple[str, ...], unit: str) -> tuple[int, tuple[str, ...]]:
        if TIME in names or len(set(names)) < len(names):
            given = f"channel '{name}' has columns {listing(names)}"
            raise LogError(f"{given}; expected distinct names other than '{TIME}'")
        fields = {TIME: {"type": "number", "description": "s since the log's epoch"}}
        fields |= {column: {"type": "number", "description": unit} for column in names}
        schema = {"title": name, "type": "object", "properties": fields, "required": [TIME, *names]}
        schema_id = self.writer.register_schema(name, "jsonschema", json.dumps(schema).encode())
        metadata = {"names": json.dumps(names), "unit": unit}
        self._known[name] = self.writer.register_channel(name, "json", schema_id, metadata), tuple(names)
        return self._known[name]

    def add(self, name: str, time: float, values: np.ndarray, names: tuple[str, ...], unit: str) -> None:
        number, columns = self._known.get(name) or self.register(name, tuple(names), unit)
        row = np.asarray(values, float).tolist()
        if columns != tuple(names) or not isinstance(row, list) or len(row) != len(columns):
            raise LogError(
                f"channel '{name}' was given {np.shape(values)} numbers named {listing(names)}; expected "
                f"{len(columns)}, named {listing(columns)}"
            )
        time = float(time)
        if not time >= self._last.get(name, -math.inf) or math.isinf(time):
            raise LogError(f"channel '{name}' was given the time {time} s after {self._last.get(name)} s")
        self._last[name] = time
        # NaN and infinities are rare: one look at the sum finds them, save a sum that overflows, which does no harm.
        if not math.isfinite(sum(row)):
            row = [_coded(value) for value in row]
        data = json.dumps({TIME: time, **dict(zip(columns, row, strict=True))}, separators=(",", ":")).encode()
        stamp = round(min(max(0.0, time * 1e9), LATEST))  # ns; the format has no negative times
        self.writer.add_message(number, stamp, data, stamp)


def _coded(value: float) -> float | str | None:
    """A number as JSON can hold it."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
