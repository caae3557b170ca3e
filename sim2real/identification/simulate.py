"""Windows of a log, and how far a twin's open-loop simulation of them is from what was measured.

A window begins at some time of the log and lasts a horizon. The twin is put into the state measured there and follows
the logged commands alone; nothing brings it back. Simulation runs on a grid of physics steps, measurements come when
they come: the simulated outputs are interpolated to the times of the measurements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim2real.identification.parameters import CalibrationError, Parameter
from sim2real.logs.log import Channel, Log

DIVERGED = 1e3
"""Largest residual in standard deviations, also that of a simulation that diverged."""
AROUND = 0.015  # s before and after: a motion of 10 Hz is a cubic that long
ROWS = 4  # at least on either side, where a channel is slower than that


@dataclasses.dataclass(frozen=True)
class Output:
    """A channel of the log that a twin simulates too."""

    channel: str
    names: tuple[str, ...]
    """(k) columns compared; those of a rotation are the four of a quaternion."""
    accuracy: float
    """Standard deviation of the measurement as first assumed, in the channel's unit (rad for a rotation)."""
    rotation: bool = False
    """Whether it is a quaternion, compared by the rotation vector between the two, rad in the body's frame."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the residual's columns."""
        return self.names[1:] if self.rotation else self.names


@dataclasses.dataclass(frozen=True)
class Samples:
    """Measurements of one output in W windows."""

    measured: np.ndarray
    """(W, K, k)."""
    step: np.ndarray
    """(W, K) int, physics step at or before each measurement."""
    fraction: np.ndarray
    """(W, K) in [0, 1), of a physics step after it."""


@dataclasses.dataclass(frozen=True)
class Windows:
    """W parts of a log, all of the same length."""

    begin: np.ndarray
    """(W,) s."""
    steps: int
    """Physics steps of each."""
    timestep: float
    """s."""
    samples: tuple[Samples, ...]
    """Of each output."""
    command: Channel
    """Commands, held until the next row."""

    def __len__(self) -> int:
        return len(self.begin)

    def part(self, rows: Sequence[int] | np.ndarray) -> Windows:
        index = np.asarray(rows, int)
        samples = tuple(Samples(s.measured[index], s.step[index], s.fraction[index]) for s in self.samples)
        return dataclasses.replace(self, begin=self.begin[index], samples=samples)


@dataclasses.dataclass(frozen=True)
class Track:
    """Measured and simulated outputs on windows that were held out of the fit."""

    windows: Windows
    before: tuple[np.ndarray, ...]
    """Of each output, (W, steps + 1, k), with nominal parameters."""
    after: tuple[np.ndarray, ...]
    """With calibrated ones."""


class Twin(Protocol):
    """A robot's simulation with unknown parameters, as calibration sees it."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def outputs(self) -> tuple[Output, ...]: ...
    @property
    def actuators(self) -> tuple[str, ...]:
        """Columns of the channel `command` that drive it."""
        ...

    @property
    def timestep(self) -> float:
        """s per physics step."""
        ...

    @property
    def settle(self) -> float:
        """s after the first command, until which what is not measured (rotor speeds, delayed commands) is not known."""
        ...

    @property
    def window(self) -> float:
        """s that a window of the fit lasts: long enough to see the parameters, short enough to stay near the log."""
        ...

    @property
    def start_step(self) -> np.ndarray:
        """(x,) change of each coordinate of a start for finite differences."""
        ...

    @property
    def start_spread(self) -> np.ndarray:
        """(x,) standard deviation of a start about the one of `starts`."""
        ...

    def stepped(self, timestep: float) -> Twin:
        """The twin integrated as tasks are, at this step (s), and not as exactly as it can be."""
        ...

    def starts(self, log: Log, times: np.ndarray) -> np.ndarray:
        """(W, s) states at `times`, from the measurements around them."""
        ...

    def moved(self, starts: np.ndarray, change: np.ndarray) -> np.ndarray:
        """(..., s) states after a change (..., x) of their coordinates."""
        ...

    def simulate(self, values: np.ndarray, starts: np.ndarray, windows: Windows) -> tuple[np.ndarray, ...]:
        """Each output on the physics grid, (N, W, steps + 1, k), of N parameter vectors (N, p), N sets of starts
        (N, W, s)."""
        ...


def cut(log: Log, twin: Twin, horizon: float, stride: float) -> Windows:
    """Windows of `horizon` s, one begun every `stride` s.

    Raises:
        CalibrationError: the log is shorter than one window, or has fewer rows than windows.
        UnknownNameError: the log lacks a channel or a column.
    """
    command = log["command"]
    command = dataclasses.replace(command, values=command.columns(twin.actuators), names=twin.actuators)
    channels = [log[output.channel] for output in twin.outputs]
    if not all(map(len, (command, *channels))):
        raise CalibrationError("the log has a channel without rows; calibration needs commands and measurements")
    first = max(command.time[0], *(channel.time[0] for channel in channels)) + twin.settle
    last = min(channel.time[-1] for channel in channels)
    main, rows = channels[0].time, min(map(len, channels))
    # A clock that jumps, or that counts in another unit, has room for any number of them.
    if (count := (last - first) / stride) > rows:
        raise CalibrationError(
            f"the log's common part lasts {last - first:.6g} s, {count:.6g} windows of {stride:g} s, and has {rows} "
            f"rows of measurements; expected two rows or more in each window"
        )
    grid = np.arange(first, last - horizon - 2 * twin.timestep, stride)
    begin = main[np.minimum(np.searchsorted(main, grid), len(main) - 1)]
    if not len(begin):
        raise CalibrationError(f"the log's common part lasts {last - first:.2f} s; a window needs {horizon:g} s")
    pairs = zip(channels, twin.outputs, strict=True)
    samples = tuple(_samples(channel, output, begin, horizon, twin.timestep) for channel, output in pairs)
    steps = int(np.ceil(horizon / twin.timestep)) + 1
    return Windows(begin, steps, twin.timestep, samples, command)


def divided(log: Log, twin: Twin, held_out: float, window: float) -> tuple[Log, float, Windows]:
    """The part of a log that can be used, the time (s) from which on it is held out, and the windows of the fit before.

    A deployment also logs the damped robot, without commands: only what was commanded can be simulated.

    Raises:
        CalibrationError: it is too short.
        UnknownNameError: it lacks a channel or a column.
    """
    command = log["command"]
    if len(command) < 2:
        raise CalibrationError(f"the log holds {len(command)} commands; expected at least 2")
    log = log.between(command.time[0], command.time[-1] + 1.0 / command.rate)
    first, last = log.span
    middle = last - held_out * (last - first)
    return log, middle, cut(log.between(first, middle), twin, window, window)


def _samples(channel: Channel, output: Output, begin: np.ndarray, horizon: float, timestep: float) -> Samples:
    """The measurements in each window: as many of each as the window with the fewest has."""
    first = np.searchsorted(channel.time, begin - 1e-9)
    last = np.searchsorted(channel.time, begin + horizon)
    count = int((last - first).min())
    if count < 2:
        raise CalibrationError(f"channel '{output.channel}' has fewer than two rows in a window of {horizon:g} s")
    rows = first[:, None] + np.arange(count)
    # A sample on the grid must not fall to the step before it by rounding.
    position = (channel.time[rows] - begin[:, None]) / timestep + 1e-6
    step = np.maximum(np.floor(position), 0).astype(int)
    fraction = np.clip(position - step - 1e-6, 0, 1)
    return Samples(channel.columns(output.names)[rows], step, fraction)


def commands(windows: Windows, delays: np.ndarray, losses: np.ndarray | None = None) -> np.ndarray:
    """(N, W, steps, A) mean command during each physics step, with commands that act `delays` (N,) s after their time.

    The mean of a held signal over a step is piecewise linear in the delay, and where command times and delay fall on
    the grid it is the signal itself: so the delay is a continuous parameter with a derivative.

    Which commands are lost, at shares `losses` (N,), is unknown: what acts is their expectation, each command with the
    probability that it was the last to arrive.
    """
    pairs = np.stack([delays, np.zeros_like(delays) if losses is None else losses], 1)
    edges = windows.begin[:, None] + windows.timestep * np.arange(windows.steps + 1)
    result = np.empty((len(delays), *edges[:, 1:].shape, windows.command.values.shape[1]))
    time = windows.command.time
    for delay, loss in np.unique(pairs, axis=0):
        values = expected(windows.command.values, loss)
        integral = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(np.diff(time)[:, None] * values[:-1], 0)])
        at = edges - delay
        row = np.clip(np.searchsorted(time, at, side="right") - 1, 0, None)
        area = integral[row] + (at - time[row])[..., None] * values[row]
        result[(pairs == (delay, loss)).all(1)] = np.diff(area, axis=1) / windows.timestep
    return result


def expected(command: np.ndarray, loss: float) -> np.ndarray:
    """(n, A) expectation of what is in force when each of n commands (n, A) is lost with probability `loss`."""
    from scipy.signal import lfilter

    return lfilter([1 - loss], [1.0, -loss], command, axis=0, zi=loss * command[:1])[0] if loss else command


def residuals(twin: Twin, values: np.ndarray, starts: np.ndarray, windows: Windows) -> np.ndarray:
    """(N, W, M) simulated minus measured, in units of each output's `accuracy`; outputs one after another.

    What diverged counts as `DIVERGED`.
    """
    parts, tracks = [], twin.simulate(values, starts, windows)
    for output, track, samples in zip(twin.outputs, tracks, windows.samples, strict=True):
        track = np.where(np.isfinite(track), track, np.nan)
        rows = np.arange(len(windows))[:, None]
        low, high = track[:, rows, samples.step], track[:, rows, samples.step + 1]
        at = low + samples.fraction[..., None] * (high - low)
        difference = rotation_between(samples.measured, at) if output.rotation else at - samples.measured
        parts.append(difference.reshape(*difference.shape[:2], -1) / output.accuracy)
    return np.clip(np.nan_to_num(np.concatenate(parts, -1), nan=DIVERGED), -DIVERGED, DIVERGED)


def rotation_between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """(..., 3) rad, rotation vector in the body's frame that takes quaternion `start` to `end`, wxyz.

    Source: Sola, "Quaternion kinematics for the error-state Kalman filter" (2017), equation 105.
    """
    w0, v0 = start[..., :1], start[..., 1:]
    w1, v1 = end[..., :1], end[..., 1:]
    w = w0 * w1 + np.sum(v0 * v1, -1, keepdims=True)
    v = w0 * v1 - w1 * v0 - np.cross(v0, v1)
    length = np.linalg.norm(v, axis=-1, keepdims=True)
    angle = 2 * np.arctan2(length, np.abs(w))
    return np.sign(np.where(w == 0, 1, w)) * v * np.where(length > 1e-12, angle / np.maximum(length, 1e-12), 2.0)


def slices(twin: Twin, windows: Windows) -> list[tuple[slice, int, int]]:
    """For each output: where it stands among the M residuals, samples and components."""
    result, first = [], 0
    for output, samples in zip(twin.outputs, windows.samples, strict=True):
        count, width = samples.step.shape[1], len(output.components)
        result.append((slice(first, first + count * width), count, width))
        first += count * width
    return result


def value_and_slope(value: Channel, slope: Channel | None, names: tuple[str, ...], time: float) -> np.ndarray:
    """(2, k) value and slope at `time` of the cubic that fits a quantity and its derivative around it best.

    Over the time that the cubic's argument is scaled by, an error of the derivative weighs like one of the value.

    Raises:
        CalibrationError: there are too few measurements.
    """
    width = max(AROUND, ROWS / value.rate) if value.rate else AROUND
    rows, right = [], []
    for channel, basis, scale in ((value, _cubic, 1.0), (slope, _cubic_slope, width)):
        if channel is not None:
            near = channel.between(time - width - 1e-9, time + width + 1e-9)
            rows.append(basis((near.time - time) / width))
            right.append(near.columns(names) * scale)
    basis, measured = np.concatenate(rows), np.concatenate(right)
    if len(basis) < 4:
        raise CalibrationError(f"the log has {len(basis)} measurements within {width:.3g} s of {time:.3f} s; 4 needed")
    solution = np.linalg.lstsq(basis, measured, rcond=None)[0]
    return np.stack([solution[0], solution[1] / width])


def _cubic(t: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(t), t, t**2, t**3], 1)


def _cubic_slope(t: np.ndarray) -> np.ndarray:
    return np.stack([np.zeros_like(t), np.ones_like(t), 2 * t, 3 * t**2], 1)
