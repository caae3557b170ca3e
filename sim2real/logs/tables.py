"""Logs as tables: CSV in and out, Parquet in.

A table has a column `time`, in s, and columns `channel.column`: `command.FR_hip`, `gyro.x`. A channel's name ends at
the first dot. Channels of different rates share a table: where all of a channel's cells in a row are empty (null in
Parquet), the channel has no row at that time. NaN is a measurement that failed, not an empty cell.

Units and metadata stand before the header of a CSV file, in lines that begin with `#`, and in the schema's key-value
metadata of a Parquet file:

    # unit.command: rad
    # robot: go1
    time,command.FR_hip,command.FR_thigh,gyro.x,gyro.y,gyro.z
    0.0,0.1,0.9,,,
    0.001,,,0.01,-0.02,0.0

A channel whose unit is not stated has the one of `sim2real.logs.log.UNITS`, if it is named there.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from embodied.errors import listing, reason
from embodied.storage.files import require_regular, write_atomic
from sim2real.logs.log import UNITS, Channel, Log, LogError

TIME = "time"
UNIT = "unit."
"""Beginning of the keys of metadata that state a channel's unit."""
MAX_FILE = 1 << 30  # bytes
MAX_CELLS = 100_000_000  # 800 MB in memory
MAX_COLUMNS = 4096


def read_csv(path: str | Path) -> Log:
    """Read a CSV file in UTF-8.

    Raises:
        LogError: names what is missing, double, or no number, with row (the header is row 1) and column.
    """
    path = Path(path)
    _check_size(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(f"cannot read the log '{path}': {reason(error)}") from None
    notes: dict[str, str] = {}
    lines = text.splitlines()
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or lines[skipped].startswith("#")):
        key, found, value = lines[skipped].removeprefix("#").partition(":")
        if found:
            notes[key.strip()] = value.strip()
        skipped += 1
    rows = csv.reader(lines[skipped:])
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(path, header)
        return _log(path, header, _cells(path, header, rows), notes)
    except csv.Error as error:
        raise LogError(f"'{path}' is no CSV file: {error}") from None


def read_parquet(path: str | Path) -> Log:
    """Read a Parquet file.

    Raises:
        LogError: as `read_csv`; rows count from 1.
    """
    path = Path(path)
    _check_size(path)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise LogError("Parquet files need the package pyarrow; pip install pyarrow") from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        header = file.schema_arrow.names
        _check_header(path, header)
        if file.metadata.num_rows * len(header) > MAX_CELLS:
            raise LogError(f"'{path}' has {file.metadata.num_rows} rows; up to {MAX_CELLS} cells are read")
        for name, kind in zip(header, file.schema_arrow.types, strict=True):
            if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
                raise LogError(f"'{path}', column '{name}' holds {kind}; expected numbers{_time_hint(name)}")
        table = file.read()
        notes = _parquet_notes(file.schema_arrow.metadata or {})
        columns = [table.column(name) for name in header]
        empty = np.stack([column.is_null().to_numpy() for column in columns], axis=1)
        values = np.stack([column.cast("float64", safe=False).to_numpy() for column in columns], axis=1)
    except (pyarrow.ArrowException, OSError) as error:
        raise LogError(f"'{path}' is no Parquet file that can be read: {' '.join(reason(error).split())}") from None
    return _log(path, header, (values, empty), notes, first_row=1)


def write_csv(path: str | Path, log: Log) -> None:
    """Write a log; every number is written so that reading gives the same bits.

    Raises:
        LogError: a channel's name holds a dot, which ends it; or the file cannot be written.
    """
    if dotted := [name for name in log.channels if "." in name or not name]:
        raise LogError(f"channels {listing(dotted)} cannot be columns of a table: expected names without dots")
    notes = {UNIT + name: channel.unit for name, channel in log.channels.items()} | dict(log.metadata)
    head = "".join(f"# {key}: {' '.join(str(value).split())}\n" for key, value in notes.items())
    columns = [f"{name}.{column}" for name, channel in log.channels.items() for column in channel.names]
    offsets = np.cumsum([0, *(len(channel.names) for channel in log.channels.values())])
    # The same time twice in one channel makes two rows.
    keyed: dict[tuple[float, int], list[str]] = {}
    for offset, channel in zip(offsets, log.channels.values(), strict=False):
        seen: Counter[float] = Counter()
        for time, values in zip(channel.time.tolist(), channel.values.tolist(), strict=True):
            row = keyed.setdefault((time, seen[time]), [""] * len(columns))
            row[offset : offset + len(values)] = map(repr, values)
            seen[time] += 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([TIME, *columns])
    writer.writerows([repr(time), *keyed[time, count]] for time, count in sorted(keyed))
    try:
        write_atomic(Path(path), (head + text.getvalue()).encode())
    except OSError as error:
        raise LogError(f"cannot write the log '{path}': {reason(error)}") from None


def _check_size(path: Path) -> None:
    try:
        require_regular(path)
        size = path.stat().st_size
    except OSError as error:
        raise LogError(f"cannot read the log '{path}': {reason(error)}") from None
    if size > MAX_FILE:
        raise LogError(f"'{path}' has {size} bytes; tables of up to {MAX_FILE} are read; MCAP holds more")


def _check_header(path: Path, header: Sequence[str]) -> None:
    """Raise a `LogError` unless these are the columns of a log."""
    if len(header) > MAX_COLUMNS:
        raise LogError(f"'{path}' has {len(header)} columns; up to {MAX_COLUMNS} are read")
    if TIME not in header:
        raise LogError(f"'{path}' has no column 'time' (s); it has {listing(header) or 'none at all'}")
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        raise LogError(f"'{path}' has two columns {listing(map(repr, twice))}")
    if bad := [name for name in header if name != TIME and not all(name.partition(".")[::2])]:
        given = f"'{path}' has columns {listing(map(repr, bad))}"
        raise LogError(f"{given}; expected 'channel.column', as 'joint_pos.FR_hip'")


def _cells(path: Path, header: Sequence[str], rows: Iterable[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """(n, columns) numbers, NaN where a cell is empty, and whether it is."""
    numbers: list[list[float]] = []
    empty: list[list[bool]] = []
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise LogError(f"'{path}', row {number} has {len(row)} cells; the header has {len(header)}")
        if (1 + len(numbers)) * len(header) > MAX_CELLS:
            raise LogError(f"'{path}' has more than {MAX_CELLS} cells")
        try:
            if not _is_plain("".join(row)):
                raise ValueError
            numbers.append([float(cell) if cell else math.nan for cell in row])
            empty.append([not cell for cell in row])
        except ValueError:
            name, cell = next((name, cell) for name, cell in zip(header, row, strict=True) if not _is_number(cell))
            place = f"'{path}', row {number}, column '{name}'"
            raise LogError(f"{place} holds {cell!r:.40}; expected a number{_time_hint(name)}") from None
    shape = (-1, len(header))
    return np.array(numbers, float).reshape(shape), np.array(empty, bool).reshape(shape)


def _is_plain(text: str) -> bool:
    """Whether a text has nothing of what only Python reads as parts of numbers: `1_0`, digits of other scripts."""
    return text.isascii() and "_" not in text


def _is_number(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return _is_plain(cell)


def _time_hint(name: str) -> str:
    return ", s since some start" if name == TIME else ""


def _parquet_notes(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    """A schema's metadata without what Arrow and pandas keep there for themselves."""
    texts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
    return {key: text for key, text in texts.items() if key not in ("ARROW:schema", "pandas")}


def _log(
    path: Path, header: Sequence[str], cells: tuple[np.ndarray, np.ndarray], notes: Mapping[str, str],
    first_row: int = 2,
) -> Log:  # fmt: skip
    values, empty = cells
    time = values[:, header.index(TIME)]
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(header):
        if name != TIME:
            groups.setdefault(name.partition(".")[0], []).append(i)
    channels = {}
    for name, places in groups.items():
        missing = empty[:, places]
        if (partly := missing.any(1) & ~missing.all(1)).any():
            row = int(np.argmax(partly))
            column = header[places[int(np.argmax(missing[row]))]]
            raise LogError(
                f"'{path}', row {row + first_row}, column '{column}' is empty while other columns of '{name}' are not; "
                "write nan where a measurement failed"
            )
        there = ~missing.all(1)
        unit = notes.get(UNIT + name, UNITS.get(name, ""))
        names = tuple(header[i].partition(".")[2] for i in places)
        try:
            channels[name] = Channel(time[there], values[there][:, places], names, unit)
        except LogError as error:
            raise LogError(f"'{path}', channel '{name}': {error}") from None
    return Log(channels, {key: value for key, value in notes.items() if not key.startswith(UNIT)})
