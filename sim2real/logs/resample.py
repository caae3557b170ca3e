"""Bringing the channels of a log to a common rate.

Rows of the result lie at whole multiples of 1/rate since the log's epoch, whatever the log's span: resampling a part of
a log gives the part of the resampled log. Nothing is invented: not before a channel's first row, not after its last,
and not inside a gap. There is no low-pass filter; a signal above half the new rate aliases.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from enum import StrEnum

import numpy as np

from embodied.errors import EmbodiedError, listing
from sim2real.logs.log import WXYZ, Channel, Log, LogError

MAX_GAP = 0.1  # s, our choice: five periods of a 50 Hz controller
MAX_ROWS = 50_000_000  # of a channel, several hours at 1 kHz
SAME = 1e-9  # s; times closer than this are one time that was rounded twice, as .1 + .2 and .3


class Interpolation(StrEnum):
    """Value of a channel between two of its rows."""

    LINEAR = "linear"
    """On the straight line between them: measurements."""
    HOLD = "hold"
    """The earlier one: commands, which an actuator keeps until the next."""
    SLERP = "slerp"
    """On the shortest turn between them: orientations, wxyz."""


HELD = dict.fromkeys(("command", "action", "observation"), Interpolation.HOLD)
KINDS = {**HELD, "orientation": Interpolation.SLERP}
"""Name of a channel -> its interpolation; all others are linear."""


def resample(log: Log, rate: float, max_gap: float = MAX_GAP, kinds: Mapping[str, Interpolation] | None = None) -> Log:
    """The log with all its channels on one grid of times.

    Args:
        log: Channels of any rates; its metadata is kept.
        rate: Rows per second of the result.
        max_gap: s; where two rows lie further apart, the result has no rows between them.
        kinds: Name of a channel -> interpolation, where it is not that of `KINDS`.

    Raises:
        LogError: an orientation is not a quaternion w, x, y, z.
        EmbodiedError: the rate is not positive.
    """
    if not (np.isfinite(rate) and rate > 0 and max_gap > 0):
        raise EmbodiedError(f"resampling at {rate} Hz over gaps up to {max_gap} s; expected positive numbers")
    kinds = KINDS | dict(kinds or {})
    channels = {}
    for name, channel in log.channels.items():
        kind = kinds.get(name, Interpolation.LINEAR)
        if kind is Interpolation.SLERP and set(channel.names) != set(WXYZ):
            raise LogError(f"'{name}' has columns {listing(channel.names)}; expected a quaternion w, x, y, z")
        channels[name] = at_times(channel, grid(channel, rate), kind, max_gap)
    return dataclasses.replace(log, channels=channels)


def grid(channel: Channel, rate: float) -> np.ndarray:
    """(n,) s, the whole multiples of 1/rate within a channel's span."""
    if not len(channel):
        return np.zeros(0)
    if (count := (channel.time[-1] - channel.time[0]) * rate) > MAX_ROWS:
        raise LogError(
            f"a channel lasts {channel.time[-1] - channel.time[0]:.6g} s, {count:.3g} rows at {rate:g} rows/s; up to "
            f"{MAX_ROWS} are made"
        )
    first, last = np.ceil((channel.time[0] - SAME) * rate), np.floor((channel.time[-1] + SAME) * rate)
    return np.arange(first, last + 1) / rate


def at_times(channel: Channel, times: np.ndarray, kind: Interpolation, max_gap: float = MAX_GAP) -> Channel:
    """A channel at other times; those outside its span or within a gap are left out.

    Args:
        channel: What was measured.
        times: (n,) s, not decreasing.
        kind: How to interpolate.
        max_gap: s between two rows beyond which nothing is known between them.
    """
    if not len(channel):
        return channel
    before = np.searchsorted(channel.time, times + SAME, side="right") - 1
    inside = (before >= 0) & (times <= channel.time[-1] + SAME)
    times, before = times[inside], before[inside]
    after = np.minimum(before + 1, len(channel) - 1)
    interval = channel.time[after] - channel.time[before]
    exact = times <= channel.time[before] + SAME
    near = exact | (interval <= max_gap)
    times, before, after, interval, exact = (rows[near] for rows in (times, before, after, interval, exact))
    share = np.where(exact, 0.0, (times - channel.time[before]) / np.where(interval > 0, interval, 1.0))
    values = _BETWEEN[kind](channel, before, after, share[:, None])
    return dataclasses.replace(channel, time=times, values=values)


def unbroken(time: np.ndarray, max_gap: float = MAX_GAP) -> list[slice]:
    """The runs of rows between which no interval exceeds `max_gap`, in s."""
    breaks = [0, *(np.flatnonzero(np.diff(time) > max_gap) + 1).tolist(), len(time)]
    return [slice(start, end) for start, end in itertools.pairwise(breaks) if end > start]


def _linear(channel: Channel, before: np.ndarray, after: np.ndarray, share: np.ndarray) -> np.ndarray:
    low, high = channel.values[before], channel.values[after]
    # Where nothing of the later row counts, its NaN must not either.
    return np.where(share == 0.0, low, low + share * (high - low))


def _hold(channel: Channel, before: np.ndarray, after: np.ndarray, share: np.ndarray) -> np.ndarray:
    del after, share
    return channel.values[before]


def _slerp(channel: Channel, before: np.ndarray, after: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Unit quaternions on the shortest turn. Source: Shoemake, "Animating rotation with quaternion curves", 1985."""
    order = [channel.names.index(name) for name in WXYZ]
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = channel.values[:, order] / np.linalg.norm(channel.values, axis=1, keepdims=True)
        low, high = unit[before], unit[after]
        high = np.where((low * high).sum(1, keepdims=True) < 0, -high, high)
        # The half angle from the chords, which stays exact where the arc cosine does not.
        apart, along = (np.linalg.norm(chord, axis=1, keepdims=True) for chord in (high - low, high + low))
        angle = 2 * np.arctan2(apart, along)
        small = angle < 1e-6
        sine = np.where(small, 1.0, np.sin(angle))
        weight_low = np.where(small, 1 - share, np.sin((1 - share) * angle) / sine)
        weight_high = np.where(small, share, np.sin(share * angle) / sine)
        turned = np.where(share == 0.0, low, weight_low * low + weight_high * high)
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    result = np.empty_like(turned)
    result[:, order] = turned
    return result


_BETWEEN: dict[Interpolation, Callable[[Channel, np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    Interpolation.LINEAR: _linear,
    Interpolation.HOLD: _hold,
    Interpolation.SLERP: _slerp,
}
