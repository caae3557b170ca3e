"""Delay between two channels of the same motion, and offset and drift between two clocks.

What a servo makes of its command is not the same signal: `sim2real.logs.servo_delay` separates its lag from the delay.

An estimate comes with a standard error that holds for coloured noise (by how parts of the log disagree), and with the
share of the response that is the source.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from embodied.errors import listing
from sim2real.logs.log import Channel, LogError
from sim2real.logs.resample import Interpolation, at_times

MAX_DELAY = 0.1  # s, our choice: three times what radio links and vendors' bridges take
MAX_SAMPLES = 50_000_000  # of a grid, several hours
FINEST = 2.5e-4  # s, smallest step of the grid on which signals are compared


@dataclasses.dataclass(frozen=True)
class Delay:
    """Delay of a signal behind its source."""

    seconds: float
    """s, positive where the response is later than its source."""
    stderr: float
    """s, standard error; 95 % lie within 1.96 of it."""
    explained: float
    """Share of the source in the response: for `shift` their coherence, for `response` R^2 of the fit; 1 at best."""
    rival: float = 0.0
    """Height of the next best peak of the correlation over the best; near 1 the delay is ambiguous."""

    def __str__(self) -> str:
        return f"{1e3 * self.seconds:.2f} ms ± {1.96e3 * self.stderr:.2f} ms"


@dataclasses.dataclass(frozen=True)
class Clock:
    """Offset and drift of a channel's clock against another's: theirs = true + offset + drift * true."""

    offset: float
    """s at the log's epoch."""
    drift: float
    """s per s."""
    offset_stderr: float
    """s."""
    drift_stderr: float
    """s per s."""
    windows: int
    """Parts of the log that were compared."""

    def corrected(self, channel: Channel) -> Channel:
        """The channel with the times that the other clock would have given it."""
        return dataclasses.replace(channel, time=(channel.time - self.offset) / (1 + self.drift))


def shift(
    source: Channel, response: Channel, max_delay: float = MAX_DELAY, kind: Interpolation = Interpolation.LINEAR
) -> Delay:
    """Delay of `response` behind `source`: where the cross-correlation of their derivatives peaks.

    Frequencies are weighted by coherence, as in a maximum-likelihood estimate (Knapp and Carter,
    "The generalized correlation method for estimation of time delay", IEEE TASSP 24, 1976); the peak is refined by a
    parabola on a grid four times as fine as the faster channel. All columns that both have are used.

    Args:
        source: The earlier signal.
        response: The later one; another unit or sign does no harm, another unit between columns does.
        max_delay: s; looked for on either side of 0.
        kind: What `source` is between rows; `HOLD` for commands.

    Raises:
        LogError: the channels share no columns, too little time, or no motion.
    """
    before, after, step = _on_one_grid(source, response, kind)
    if len(before) * step < 10 * max_delay:
        raise LogError(
            f"channels share {len(before) * step:.2f} s; expected at least {10 * max_delay:.2f} s to find a delay of "
            f"up to {max_delay} s"
        )
    nyquist = np.pi * min(source.rate, response.rate)
    # The second look has the response where the first found it: windows of both then hold the same motion.
    first = _Cross.of(before, after, step, max_delay, nyquist).peak(max_delay)
    rows = round(first.seconds / step)
    before, after = (before[: len(before) - rows], after[rows:]) if rows >= 0 else (before[-rows:], after[:rows])
    second = _Cross.of(before, after, step, max_delay, nyquist).peak(max_delay)
    return dataclasses.replace(second, seconds=second.seconds + rows * step)


@dataclasses.dataclass(frozen=True)
class _Cross:
    """Cross spectra of two signals, piece by piece."""

    step: float
    """s between rows."""
    omega: np.ndarray
    """(f,) rad/s."""
    pieces: np.ndarray
    """(p, f) complex, of pieces that overlap by half; each frequency scaled to 1 over all pieces."""
    coherence: np.ndarray
    """(f,) magnitude squared; 0 where it may be chance."""
    weight: np.ndarray
    """(f,) information of each frequency about the delay."""

    @classmethod
    def of(cls, before: np.ndarray, after: np.ndarray, step: float, max_delay: float, nyquist: float) -> _Cross:
        """Of signals (n, k); frequencies from `nyquist`, in rad/s, on count nothing.

        Raises:
            LogError: no frequency is coherent.
        """
        # Twelve pieces or more separate coherence from chance; each is long beside the delay.
        size = round(max(4 * max_delay, min(2.0, len(before) * step / 12)) / step)
        window = np.hanning(size)[:, None]
        pieces, power = [], np.zeros((2, size // 2 + 1))
        for start in range(0, len(before) - size + 1, size // 2):
            x, y = (np.fft.rfft(window * signal[start : start + size], axis=0) for signal in (before, after))
            pieces.append((np.conj(x) * y).sum(1))
            power += np.stack([(np.abs(spectrum) ** 2).sum(1) for spectrum in (x, y)])
        cross = np.sum(pieces, axis=0)
        coherence = np.abs(cross) ** 2 / np.maximum(power[0] * power[1], 1e-300)
        # For noise alone the estimate is about 1 / pieces; what is not clearly more carries no information.
        coherence = np.where(coherence > 4 / len(pieces), np.minimum(coherence, 1 - 1e-6), 0.0)
        omega = 2 * np.pi * np.fft.rfftfreq(size, step)
        # Interpolation leaves images of the signal above half the slower rate, tied to the rows and not to what moved.
        weight = np.where((omega > 0) & (omega < 0.8 * nyquist), coherence / (1 - coherence), 0.0)
        if not weight.any():
            raise LogError("the channels have no motion in common; a delay shows only where the same moves in both")
        return cls(step, omega, np.array(pieces) / np.maximum(np.abs(cross), 1e-300), coherence, weight)

    def peak(self, max_delay: float) -> Delay:
        """Lag of the highest weighted correlation."""
        scores = np.fft.irfft(self.weight * self.pieces.sum(0))
        reach = int(np.ceil(max_delay / self.step)) + 1
        lags = np.arange(-reach, reach + 1)
        # The sign of the response is left open: a mirrored sensor is as late as any.
        heights = np.abs(scores[lags])
        peak = int(np.argmax(heights[1:-1])) + 1
        low, top, high = heights[peak - 1 : peak + 2]
        bend = low - 2 * top + high
        delay = float(self.step * (lags[peak] + (0.5 * (low - high) / bend if bend < 0 else 0.0)))
        peaks = np.flatnonzero((heights[1:-1] > heights[:-2]) & (heights[1:-1] >= heights[2:])) + 1
        rivals = heights[peaks[np.abs(peaks - peak) > 2]]
        turned = self.pieces * self.weight * np.exp(1j * self.omega * delay)
        total = np.real(turned.sum(0))
        # At the peak the pieces' slopes cancel; their scatter, over the curvature, is the error.
        slopes = np.imag(turned) @ self.omega
        return Delay(
            seconds=delay,
            stderr=float(np.sqrt((slopes**2).sum()) / max(abs(total @ self.omega**2), 1e-300)),
            explained=float(abs(total @ np.sqrt(self.coherence)) / self.weight.sum()),
            rival=float(rivals.max() / top) if len(rivals) else 0.0,
        )


def _on_one_grid(source: Channel, response: Channel, kind: Interpolation) -> tuple[np.ndarray, np.ndarray, float]:
    """(n, k) derivatives of the columns in common, and the step of their grid in s."""
    names = common_columns(source, response)
    parts = [finite_rows(channel, names) for channel in (source, response)]
    if min(map(len, parts)) < 2:
        raise LogError(f"channels of {len(parts[0])} and {len(parts[1])} rows; expected at least 2 of each")
    start, end = max(part.time[0] for part in parts), min(part.time[-1] for part in parts)
    step = max(min(float(np.median(np.diff(part.time))) for part in parts) / 4, FINEST)
    if (count := (end - start) / step) > MAX_SAMPLES:
        raise LogError(
            f"channels share {end - start:.6g} s, {count:.3g} steps of {step:.3g} s; up to {MAX_SAMPLES} are compared"
        )
    times = np.arange(start, end, step)
    # Gaps are bridged by a line, whose derivative holds little: at worst they weaken the peak.
    before = at_times(parts[0], times, kind, np.inf).values
    after = at_times(parts[1], times, Interpolation.LINEAR, np.inf).values
    return np.diff(before, axis=0) / step, np.diff(after, axis=0) / step, step


def finite_rows(channel: Channel, names: tuple[str, ...]) -> Channel:
    """These columns of a channel, without the rows in which one of them is NaN or infinite."""
    values = channel.columns(names)
    finite = np.isfinite(values).all(1)
    return dataclasses.replace(channel, time=channel.time[finite], values=values[finite], names=names)


def common_columns(source: Channel, response: Channel) -> tuple[str, ...]:
    """Names that both channels have, in the source's order; a `LogError` where there are none."""
    names = tuple(name for name in source.names if name in response.names)
    if not names:
        raise LogError(f"columns {listing(source.names)} and {listing(response.names)} have no name in common")
    return names


def clock(source: Channel, response: Channel, window: float = 5.0, max_delay: float = MAX_DELAY) -> Clock:
    """Offset and drift of the clock that stamped `response`, where both channels measure the same.

    A line through the shifts of windows, each counting as much as it is certain.

    Args:
        source: Stamped by the clock that counts.
        response: The same quantity stamped by the other clock.
        window: s, length of each part; the drift within it must be small against the signal.
        max_delay: s, largest shift.

    Raises:
        LogError: the channels share less than two windows in which anything moves.
    """
    start, end = max(source.time[0], response.time[0]), min(source.time[-1], response.time[-1])
    middles, shifts, errors = [], [], []
    for first in np.arange(start, end - 0.5 * window, 0.5 * window):
        parts = [channel.between(first, first + window) for channel in (source, response)]
        try:
            found = shift(*parts, max_delay=max_delay)
        except LogError:
            continue
        if found.explained > 0.5:
            middles.append(first + 0.5 * window)
            shifts.append(found.seconds)
            errors.append(max(found.stderr, 1e-6))
    if len(middles) < 3:
        found_in = f"{len(middles)} windows of {window} s"
        raise LogError(f"{found_in} show the same motion in both channels; expected 3 or more")
    basis, weight = np.stack([np.ones(len(middles)), middles], 1), 1 / np.array(errors)
    inverse = np.linalg.inv((basis * weight[:, None] ** 2).T @ basis)
    line = inverse @ (basis * weight[:, None] ** 2).T @ np.array(shifts)
    misfit = float(np.mean(((basis @ line - shifts) * weight) ** 2)) * len(middles) / (len(middles) - 2)
    # Windows overlap by half: two of them hold about as much as one and a half.
    stderr = np.sqrt(np.diag(inverse) * max(misfit, 1.0) * 4 / 3)
    return Clock(float(line[0]), float(line[1]), float(stderr[0]), float(stderr[1]), len(middles))
