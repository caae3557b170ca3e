"""Findings of a preflight, and the small tools its checks share."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

import numpy as np

from sim2real.logs.delay import finite_rows
from sim2real.logs.log import Channel, Log


class Severity(StrEnum):
    """Severity of a finding, worst first."""

    ERROR = "error"
    """A calibration from this log would be wrong."""
    WARNING = "warning"
    """It would be less certain, or biased."""
    NOTE = "note"
    """Good to know."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is missing, implausible, or worth knowing."""

    severity: Severity
    check: str
    """Kind of finding, one name for each: "gap", "frozen", "joint order"."""
    channel: str
    """Channel or column, "gyro" or "joint_pos.FR_hip"; empty: the log as a whole."""
    seen: str
    expected: str
    hint: str = ""
    """Possible cause, or what to do."""


WIDEST = 2000.0  # rows, standard deviation of a Gaussian, whose work grows with it
COMMANDS = ("command", "action", "observation", "phase", "timing", "safety")
"""Channels that are not measured, the last three of a deployment: they may stand still, jump, sit at their limits."""


def sensors(log: Log) -> list[str]:
    """The measured channels that have rows."""
    return [name for name, channel in log.channels.items() if name not in COMMANDS and len(channel) > 1]


def tidy(log: Log, name: str) -> Channel | None:
    """A channel without its rows of NaN; None where fewer than 20 are left."""
    if name not in log:
        return None
    channel = finite_rows(log[name], log[name].names)
    return channel if len(channel) >= 20 else None


def runs(same: np.ndarray) -> list[tuple[int, int]]:
    """First and last row of every run of rows that are `same` (n - 1,) as the row before."""
    edges = np.diff(np.concatenate([[0], same.astype(int), [0]]))
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))


def smooth(channel: Channel, seconds: float) -> np.ndarray:
    """(n, k) the channel through a Gaussian of that width, which moves nothing in time."""
    from scipy.ndimage import gaussian_filter1d

    span = float(channel.time[-1] - channel.time[0])
    # The mean rate: `Channel.rate` is infinite where rows share their times.
    width = seconds * len(channel) / span if span > 0 else 1.0
    return gaussian_filter1d(channel.values, min(max(width, 0.1), WIDEST), axis=0, mode="nearest")


def slope(channel: Channel, seconds: float = 0.03) -> Channel:
    """The time derivative of a channel, smoothed."""
    # Rows of equal time have no slope; a step of a nanosecond keeps the division defined.
    # From 0 on: of times since 1970, floating point keeps no nanoseconds.
    time = np.maximum.accumulate(channel.time - channel.time[0] + 1e-9 * np.arange(len(channel)))
    return dataclasses.replace(channel, values=np.gradient(smooth(channel, seconds), time, axis=0))


def at_rows_of(source: Channel, times: np.ndarray) -> np.ndarray:
    """(n, k) a channel at these times, by straight lines; held beyond its ends."""
    return np.stack([np.interp(times, source.time, column) for column in source.values.T], 1)


def ratio(measured: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Factor of the measured (n,) over the reference (n,) by regression, and their correlation."""
    measured, reference = measured - measured.mean(), reference - reference.mean()
    power = float(reference @ reference)
    if power == 0 or not measured.any():
        return 0.0, 0.0
    both = float(measured @ reference)
    return both / power, both / np.sqrt(power * float(measured @ measured))
