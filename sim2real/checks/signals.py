"""Checks of a log that need no robot: breaks, numbers, times, sensors that stick or clip.

Each is a function of a log that yields findings. Thresholds are our choice: wide enough that a sound log of a real
robot passes, as the tests show on simulated ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim2real.checks.findings import Finding, Severity, runs, sensors, tidy
from sim2real.logs.log import UNITS, Log
from sim2real.logs.mcap_reader import UNFINISHED

GAP, STUCK = 0.1, 0.1  # s without a row, and with the same row, that are too long


def whole(log: Log) -> Iterator[Finding]:
    """A recording that was cut off."""
    if UNFINISHED in log.metadata:
        said = log.metadata[UNFINISHED]
        yield Finding(Severity.WARNING, "unfinished", "", said, "a whole file", "its recorder was killed")


def numbers(log: Log) -> Iterator[Finding]:
    """NaN and infinities."""
    for name, channel in log.channels.items():
        bad = ~np.isfinite(channel.values)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            yield Finding(
                Severity.WARNING if bad.mean() < 0.01 else Severity.ERROR, "not a number",
                f"{name}.{channel.names[column]}",
                f"{int(bad.any(1).sum())} rows, the first, {channel.values[row, column]}, at {channel.time[row]:.3f} s",
                "numbers", "such rows are left out",
            )  # fmt: skip


def timing(log: Log) -> Iterator[Finding]:
    """Gaps, lost rows, uneven, doubled and changing rates."""
    for name, channel in log.channels.items():
        if len(channel) < 20:
            continue
        interval = np.diff(channel.time)
        usual = float(np.median(interval))
        if equal := int((interval == 0).sum()):
            yield Finding(
                Severity.WARNING, "equal times", name, f"{equal} rows at the time of the row before", "rising times",
                "rows are stamped when they are read, several at once",
            )  # fmt: skip
        if usual == 0:
            continue
        gap = np.flatnonzero(interval > max(10 * usual, GAP))
        if len(gap):
            worst = gap[np.argmax(interval[gap])]
            yield Finding(
                Severity.ERROR, "gap", name,
                f"{len(gap)}, the longest {interval[worst]:.2f} s at {channel.time[worst]:.2f} s",
                f"{1e3 * usual:.1f} ms between rows", "cut the log there, or record again",
            )  # fmt: skip
        lost = interval > 1.6 * usual
        if lost.mean() > 0.01:
            yield Finding(
                Severity.WARNING, "lost rows", name, f"{lost.mean():.1%} of intervals skip a row or more",
                f"{1 / usual:.0f} rows/s", "packets are lost, or the recorder is too slow",
            )  # fmt: skip
        low, high = np.percentile(interval[~lost], [5, 95])
        if high - low > 0.5 * usual:
            yield Finding(
                Severity.WARNING, "uneven rate", name, f"{1e3 * low:.1f} to {1e3 * high:.1f} ms between rows",
                f"{1e3 * usual:.1f} ms", "stamp rows where they are measured, not where they arrive",
            )  # fmt: skip
        fifth = max(len(interval) // 5, 1)
        first, last = (1 / max(float(np.mean(part)), 1e-9) for part in (interval[:fifth], interval[-fifth:]))
        if not len(gap) and abs(last / first - 1) > 0.15:
            yield Finding(
                Severity.WARNING, "changing rate", name, f"{first:.0f} rows/s at first, {last:.0f} at last", "one rate",
                "the recorder falls behind, or a clock drifts",
            )  # fmt: skip


def frozen(log: Log) -> Iterator[Finding]:
    """Sensors that repeat themselves while something is commanded to move, as a whole or one joint of them."""
    told = tidy(log, "command") or tidy(log, "joint_pos")
    if told is None:
        return
    travel = np.concatenate([np.zeros((1, len(told.names))), np.cumsum(np.abs(np.diff(told.values, axis=0)), axis=0)])
    travel = travel / np.maximum(np.ptp(told.values, axis=0), 1e-9)
    for name in sensors(log):
        channel = log[name]
        passed = np.stack([np.interp(channel.time, told.time, column) for column in travel.T], 1)
        same = channel.values[1:] == channel.values[:-1]
        whole_row = _stuck(name, channel.time, same.all(1), passed)
        if whole_row:
            yield whole_row
            continue
        if name == "position":  # what is bolted down does not move
            continue
        for i, column in enumerate(channel.names):
            own = passed[:, [told.names.index(column)]] if column in told.names else np.zeros((len(channel), 1))
            alone = _stuck(f"{name}.{column}", channel.time, same[:, i], own)
            if alone or not same[:, i].all():
                yield from (alone,) if alone else ()
                continue
            yield Finding(
                Severity.WARNING, "frozen", f"{name}.{column}", "never changes", "new measurements",
                "a broken or an unconnected sensor",
            )  # fmt: skip


def _stuck(name: str, time: np.ndarray, same: np.ndarray, passed: np.ndarray) -> Finding | None:
    """The longest run of rows that are the `same` (n - 1,) while a tenth of a command's range has `passed` (n, k)."""
    found = [
        (first, last)
        for first, last in runs(same)
        if time[last] - time[first] >= STUCK and (passed[last] - passed[first]).max() > 0.1
    ]
    if not found:
        return None
    first, last = max(found, key=lambda run: time[run[1]] - time[run[0]])
    if last - first == len(time) - 1:
        return Finding(
            Severity.WARNING, "frozen", name, "never changes", "new measurements while the robot moves",
            "no such sensor; or a simulation without noise, its base held",
        )  # fmt: skip
    return Finding(
        Severity.ERROR, "frozen", name,
        f"{len(found)} times, the longest {time[last] - time[first]:.2f} s at {time[first]:.2f} s",
        "new measurements while the robot moves", "the sensor or its driver hung; or a joint is stuck",
    )  # fmt: skip


def clipped(log: Log) -> Iterator[Finding]:
    """Sensors at the end of their range: the same extreme again and again."""
    for name in ("gyro", "accelerometer", "joint_torque", "joint_vel"):
        channel = tidy(log, name)
        if channel is None:
            continue
        for column, values in zip(channel.names, channel.values.T, strict=True):
            for extreme in (values.max(), values.min()):
                at = values == extreme
                flat = sum(last - first + 1 for first, last in runs(at[1:] & at[:-1]) if last - first >= 2)
                if np.ptp(values) > 0 and flat >= max(6, 0.002 * len(values)):
                    yield Finding(
                        Severity.WARNING, "clipped", f"{name}.{column}", f"{flat} rows at {extreme:.4g} {UNITS[name]}",
                        "extremes that occur once", "widen the sensor's range, or move less",
                    )  # fmt: skip


TIMELESS = (whole, numbers)
"""Checks that hold in whatever unit times are."""
CHECKS = (*TIMELESS, timing, frozen, clipped)
