"""The record of a run's metrics: one JSON object per line, and the same for TensorBoard and other loggers."""

import errno
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeGuard

from embodied.errors import RunError, listing, reason
from embodied.storage.files import read_file, write_atomic

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

METRICS = "metrics.jsonl"
RESERVED = ("step", "time")


class Logger(Protocol):
    """A further place for a run's metrics, beside `metrics.jsonl`, which alone is read back."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Note the metrics of one step; what is not finite comes as NaN or infinity."""
        ...

    def end_at(self, step: int) -> None:
        """Hide what was noted of later steps, which the run goes on to take again."""
        ...

    def summarize(self, result: Mapping[str, Any]) -> None:
        """Note the result of a training that came to its end."""
        ...

    def sync(self) -> None:
        """Wait until everything noted so far is out of this process."""
        ...

    def close(self) -> None:
        """End the record; logging again goes on with it."""
        ...


class TensorBoard:
    """TensorBoard events in a run's folder. The file is opened by the first `log`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events: SummaryWriter | None = None
        self._purge_step: int | None = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self._events is None:
            from torch.utils.tensorboard import SummaryWriter  # Slow to import, and only training needs it.

            self._events = SummaryWriter(str(self._folder), purge_step=self._purge_step)
        for name, value in values.items():
            self._events.add_scalar(name, value, step)

    def end_at(self, step: int) -> None:
        self._purge_step = step + 1

    def summarize(self, result: Mapping[str, Any]) -> None:
        """Note nothing: TensorBoard has no place for it."""

    def sync(self) -> None:
        if self._events is not None:
            self._events.flush()

    def close(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.close()


class Metrics:
    """Appends to `metrics.jsonl` in one folder, and notifies loggers. The file is opened by the first `log`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS
        self.loggers: list[Logger] = [TensorBoard(folder)]
        self._file: BinaryIO | None = None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one line, which is in the file when this returns. What is not finite becomes null."""
        values = {name: _number(name, value) for name, value in metrics.items()}
        record: dict[str, float | None] = {"step": int(step), "time": round(time.time(), 3)}
        record |= {name: value if math.isfinite(value) else None for name, value in values.items()}
        try:
            self._append((json.dumps(record, sort_keys=True) + "\n").encode())
            for logger in self.loggers:
                logger.log(step, values)
        except OSError as error:
            raise self._unwritable(error) from error

    def records(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Complete lines, as written and parsed; what a killed process left incomplete is passed over."""
        try:
            lines = read_file(self.path).split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunError(f"cannot read '{self.path}': {reason(error)}") from error
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and isinstance(step := record.get("step"), int) and is_number(step):
                yield line, {name: value for name, value in record.items() if value is None or is_number(value)}

    def end_at(self, step: int) -> None:
        """Drop the lines later than `step`, atomically, and hide what loggers have of later ones."""
        self.close()
        for logger in self.loggers:
            logger.end_at(step)
        if self.path.exists():
            kept = [line + b"\n" for line, record in self.records() if record["step"] <= step]
            try:
                write_atomic(self.path, b"".join(kept))
            except OSError as error:
                raise RunError(f"cannot shorten '{self.path}': {reason(error)}; it is unchanged") from error

    def sync(self) -> None:
        """Wait until the disk holds everything logged so far."""
        try:
            if self._file is not None:
                os.fsync(self._file.fileno())
            for logger in self.loggers:
                logger.sync()
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file and the loggers; logging again reopens them."""
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
            for logger in self.loggers:
                logger.close()
        except OSError as error:
            raise self._unwritable(error) from error

    def _append(self, line: bytes) -> None:
        if self._file is None:
            _end_line(self.path)
            self._file = self.path.open("ab", buffering=0)
        if self._file.write(line) != len(line):
            self._file.close()
            self._file = None  # The next call starts a new line.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _unwritable(self, error: OSError) -> RunError:
        return RunError(f"cannot log to '{self.path}': {reason(error)}")


def _number(name: str, value: object) -> float:
    if name in RESERVED:
        raise RunError(f"a metric cannot be called {name!r}; the names {listing(RESERVED)} are taken")
    try:
        return float(value)  # pyright: ignore[reportArgumentType] - whatever float() refuses is the caller's error
    except (TypeError, ValueError) as error:
        raise RunError(f"metric {name!r} is {value!r}, expected one number") from error


def _end_line(path: Path) -> None:
    """End a line that a killed process left without its end, so that the next one does not run into it."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


LARGEST = 10**300  # of whole numbers: larger ones are no floats


def is_number(value: object) -> TypeGuard[float]:
    """Whether a JSON value is one that `Metrics.log` may have written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < LARGEST
