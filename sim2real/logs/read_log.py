"""`read_log`: a log from a file of any known kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from embodied.errors import UnknownNameError
from sim2real.logs import mcap_log, tables
from sim2real.logs.log import Log

T = TypeVar("T")

READERS: dict[str, Callable[[Path], Log]] = {
    ".mcap": mcap_log.read,
    ".csv": tables.read_csv,
    ".parquet": tables.read_parquet,
}
"""Suffix of a file -> what reads it."""
WRITERS: dict[str, Callable[[Path, Log], None]] = {".mcap": mcap_log.write, ".csv": tables.write_csv}
"""Suffix of a file -> what writes it."""


def read_log(path: str | Path) -> Log:
    return _of_suffix(READERS, Path(path))(Path(path))


def check_suffix(path: str | Path) -> None:
    """Raise an `UnknownNameError` unless `write_log` knows the suffix."""
    _of_suffix(WRITERS, Path(path))


def write_log(path: str | Path, log: Log) -> None:
    _of_suffix(WRITERS, Path(path))(Path(path), log)


def _of_suffix(table: Mapping[str, T], path: Path) -> T:
    try:
        return table[path.suffix.lower()]
    except KeyError:
        raise UnknownNameError("suffix of a log", path.suffix or path.name, table) from None
