"""Check of a log's times: whether they are in s, and those of one recording.

What needs the duration of a log, or a width in s, is not to be looked at where they are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from embodied.errors import listing
from sim2real.checks.findings import Finding, Severity
from sim2real.logs.log import Log

FASTEST, SLOWEST = 5e-5, 0.5  # s between rows; controllers and sensors of robots have from 0.1 ms to 0.2 s
USUAL = (5e-4, 0.1)  # s between rows, by which another unit is told
PAUSE = 3600.0  # s between two rows, beyond which they are not of one recording
UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9, "minutes": 1 / 60, "hours": 1 / 3600}
"""Unit -> how many of it are 1 s."""
LEAST = 3  # rows that show a period


def times(log: Log) -> Iterator[Finding]:
    """Times that are not in s, by the rows of the fastest channel, or that jump."""
    periods: dict[str, float] = {}
    jumps: list[Finding] = []
    for name, channel in log.channels.items():
        with np.errstate(over="ignore"):
            interval = np.diff(channel.time)
        passed = interval[interval > 0]  # rows that a driver stamps several at once share their times
        if len(channel) < LEAST or not len(passed):
            continue
        periods[name] = float(np.median(passed))
        row = int(np.argmax(interval))
        if interval[row] > PAUSE:
            jumps.append(
                Finding(
                    Severity.ERROR, "time", name,
                    f"{interval[row]:.4g} s from row {row} at {channel.time[row]:.6g} s to the next",
                    f"up to {PAUSE:.0f} s", "a clock that was set, or two recordings; cut the log there",
                )
            )  # fmt: skip
    if not periods:
        return
    fastest = min(periods, key=lambda name: periods[name])
    if FASTEST <= (period := periods[fastest]) <= SLOWEST:
        yield from jumps
        return
    likely = [unit for unit, of_second in UNITS.items() if USUAL[0] <= period / of_second <= USUAL[1]]
    # A log that is not in s does not have jumps in s.
    yield Finding(
        Severity.ERROR, "time", "", f"{period:.4g} s between the rows of {fastest}",
        f"from {FASTEST:g} to {SLOWEST:g} s in the fastest channel",
        f"times in {listing(likely)}? write s" if likely else "write times in s",
    )  # fmt: skip


CHECKS = (times,)
