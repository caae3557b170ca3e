"""Reading MCAP files: bounded, checked, and up to the last whole chunk of one whose recorder was killed.

The format of the messages stands in `sim2real.logs.mcap_log`.
"""

from __future__ import annotations

import array
import dataclasses
import importlib
import io
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from embodied.errors import listing, reason
from embodied.storage.files import require_regular
from sim2real.logs.log import Channel, Log, LogError

if TYPE_CHECKING:
    from mcap.records import Channel as Topic
    from mcap.records import Chunk

METADATA = "embodied.log"
"""Name of the metadata record that holds `Log.metadata`."""
TIME = "time"
"""Field of a message that holds its time, s since the log's epoch."""
UNFINISHED = "unfinished"
"""Key of `Log.metadata` that notes how a file without an end was read."""

MAX_FILE = 2 << 30  # bytes; an hour of a humanoid's joints at 200 Hz is half of it
MAX_RECORD = 64 << 20  # bytes of a record, or of a chunk once it is unpacked
MAX_MESSAGE = 1 << 20  # bytes: a row of 30,000 numbers
MAX_NUMBERS = 250_000_000  # in all channels, 2 GB in memory
MAX_CHANNELS = 1000


def read(path: str | Path, unfinished: bool = False) -> Log:
    """Read a log.

    Args:
        path: The file.
        unfinished: Also read a file that lacks its end, because its recorder was killed or it was cut: every chunk that
            is whole. `Log.metadata` then notes it under `unfinished`.

    Raises:
        LogError: names what was found in place of a log.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise LogError(f"'{path}' has {size} bytes; logs of up to {MAX_FILE} are read")
        require_regular(path)
        with path.open("rb") as file:
            parts, ended = parts_of(path, file)
    except OSError as error:
        raise LogError(f"cannot read the log '{path}': {reason(error)}") from None
    if not ended:
        found = f"ends without MCAP's end record after {size} bytes, {parts.rows} whole messages"
        if not (unfinished and parts.rows):
            fix = f"; python -m sim2real.preflight {path} --recover FILE saves these" if parts.rows else ""
            raise LogError(f"'{path}' {found}: its recorder was killed, or the file was cut{fix}")
        parts.metadata[UNFINISHED] = found
    return parts.log(path)


@dataclasses.dataclass
class Parts:
    """Channels, rows and metadata read so far."""

    topics: dict[int, Topic] = dataclasses.field(default_factory=dict)
    columns: dict[int, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Channel number -> names of its columns, once known."""
    data: dict[int, array.array[float]] = dataclasses.field(default_factory=dict)
    """Channel number -> time and values of one row after the other."""
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    rows: int = 0
    numbers: int = 0

    def topic(self, topic: Topic) -> None:
        """Register a channel record; files repeat them."""
        if topic.id in self.topics:
            return
        if len(self.topics) == MAX_CHANNELS:
            raise LogError(f"more than {MAX_CHANNELS} channels")
        if topic.message_encoding != "json":
            raise LogError(
                f"channel '{topic.topic}' has {topic.message_encoding or 'unnamed'} messages; expected JSON, a row of "
                f"numbers each, as Recorder writes them"
            )
        if topic.topic in {known.topic for known in self.topics.values()}:
            raise LogError(f"two channels are called '{topic.topic}'")
        self.topics[topic.id] = topic
        self.data[topic.id] = array.array("d")
        if "names" in topic.metadata:
            names = json.loads(topic.metadata["names"])
            if not isinstance(names, list):
                raise LogError(f"channel '{topic.topic}' names its columns {names!r:.40}; expected a list")
            self.columns[topic.id] = tuple(str(name) for name in names)

    def message(self, number: int, stamp: int, data: bytes) -> None:
        """Parse a message: one row of a channel."""
        if number not in self.topics:
            raise LogError(f"message {self.rows} belongs to channel {number}, which the file does not describe")
        name = self.topics[number].topic
        if len(data) > MAX_MESSAGE:
            raise LogError(f"a message of '{name}' has {len(data)} bytes; up to {MAX_MESSAGE} are read")
        row = json.loads(data, parse_int=float)
        if not isinstance(row, dict):
            raise LogError(f"a message of '{name}' is no JSON object: {row!r:.40}")
        given = [key for key in row if key != TIME]
        columns = self.columns.setdefault(number, tuple(given))
        if set(given) != set(columns):
            raise LogError(f"{self._place(number)} has {listing(given) or 'nothing'}; expected {listing(columns)}")
        cells = [row.get(TIME, stamp * 1e-9), *(row[column] for column in columns)]
        self.numbers += len(cells)
        if self.numbers > MAX_NUMBERS:
            raise LogError(f"more than {MAX_NUMBERS} numbers")
        self.data[number].extend([self._number(number, cell) for cell in cells])
        self.rows += 1

    def _place(self, number: int) -> str:
        return f"row {len(self.data[number]) // (1 + len(self.columns[number]))} of '{self.topics[number].topic}'"

    def _number(self, number: int, cell: Any) -> float:
        if type(cell) is float:
            return cell
        if cell is None:
            return math.nan
        if cell in ("Infinity", "-Infinity"):
            return float(cell)
        raise LogError(f"{self._place(number)} holds {cell!r:.40}; expected a number")

    def log(self, path: Path) -> Log:
        channels = {}
        for number, topic in self.topics.items():
            columns = self.columns.get(number, ())
            table = np.array(self.data[number], float).reshape(-1, 1 + len(columns))
            try:
                channels[topic.topic] = Channel(table[:, 0], table[:, 1:], columns, topic.metadata.get("unit", ""))
            except LogError as error:
                raise LogError(f"'{path}', channel '{topic.topic}': {error}") from None
        return Log(channels, self.metadata)


def parts_of(path: Path, file: IO[bytes]) -> tuple[Parts, bool]:
    """Everything up to the end of a file, or to where it breaks off; and whether it has an end."""
    exceptions, reader = package("mcap.exceptions"), package("mcap.stream_reader")
    records = package("mcap.records")
    parts = Parts()
    start = file.read(8)
    if start != b"\x89MCAP0\r\n":
        raise LogError(f"'{path}' is no MCAP file: it begins with {start!r}")
    file.seek(0)
    try:
        for record in unpacked(reader.StreamReader(file, emit_chunks=True, record_size_limit=MAX_RECORD).records):
            if isinstance(record, records.Channel):
                parts.topic(record)
            elif isinstance(record, records.Message):
                parts.message(record.channel_id, record.log_time, record.data)
            elif isinstance(record, records.Metadata) and record.name == METADATA:
                parts.metadata |= record.metadata
    except LogError as error:
        raise LogError(f"'{path}': {error}") from None
    except (exceptions.McapError, ValueError, struct.error, RecursionError, OverflowError, MemoryError) as error:
        # A record that is cut reads as too short, wherever the cut is; anything before the file's end is damage.
        if file.read(1) or isinstance(error, exceptions.RecordLengthLimitExceeded):
            raise LogError(f"'{path}' is damaged after {parts.rows} messages: {reason(error)}") from None
        return parts, False
    return parts, True


def unpacked(records: Iterator[Any]) -> Iterator[Any]:
    """The records, chunks replaced by what they hold, once their checksums are found right."""
    chunk_type, reader = package("mcap.records").Chunk, package("mcap.stream_reader")
    for record in records:
        if not isinstance(record, chunk_type):
            yield record
            continue
        plain = dataclasses.replace(record, compression="", data=decompressed(record))
        yield from reader.breakup_chunk(plain, validate_crc=True)


def decompressed(chunk: Chunk) -> bytes:
    """A chunk's records; never more than the limit, whatever the chunk declares.

    Raises:
        LogError: it is longer, or cannot be unpacked.
    """
    data: bytes = chunk.data
    if chunk.compression == "zstd":
        zstandard = package("zstandard")
        try:
            data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(chunk.data)).read(MAX_RECORD + 1)
        except zstandard.ZstdError as error:
            raise ValueError(f"a chunk cannot be unpacked: {error}") from None
    elif chunk.compression == "lz4":
        try:
            data = package("lz4.frame").LZ4FrameDecompressor().decompress(chunk.data, max_length=MAX_RECORD + 1)
        except RuntimeError as error:
            raise ValueError(f"a chunk cannot be unpacked: {error}") from None
    elif chunk.compression:
        raise LogError(f"a chunk is packed with {chunk.compression!r}; known: zstd, lz4")
    if len(data) > MAX_RECORD:
        raise LogError(f"a chunk unpacks to more than {MAX_RECORD} bytes")
    if len(data) != chunk.uncompressed_size:
        raise ValueError(f"a chunk unpacks to {len(data)} bytes; it says {chunk.uncompressed_size}")
    return data


def package(name: str) -> Any:
    """An optional module; a `LogError` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        needed = name.partition(".")[0]
        raise LogError(f'MCAP files need the package {needed}; pip install "embodied-sim[sim2real]"') from None
