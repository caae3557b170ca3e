"""Dead time of a servo's command, separated from the servo's own lag.

A servo low-passes its command, which a cross-correlation would count as delay. So a second-order servo behind a dead
time is fitted to each joint. Friction, saturation and loads are no part of that model, and shift the delay a little.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError
from sim2real.logs.delay import MAX_DELAY, Delay, common_columns, finite_rows
from sim2real.logs.log import Channel, LogError
from sim2real.logs.resample import unbroken

BLOCK = 0.25  # s; noise and misfits are taken as independent between blocks of this length
FINEST, COARSEST = 1e-4, 5e-4  # s, step on which servos are simulated; at 1 ms the delay errs by another .05 ms
LONGEST = 600.0  # s of a log that a servo is fitted to at most
EARLIEST = -0.25  # of the largest delay: noise may put a delay of 0 below 0
STARTS = (10.0, 30.0, 80.0)  # rad/s, natural frequencies from which the fit begins


@dataclasses.dataclass(frozen=True)
class Servo:
    """Response of one joint to its command: q'' = w^2 (gain u(t - delay) + offset - q) - 2 z w q'."""

    name: str
    delay: Delay
    frequency: float
    """rad/s, natural frequency w."""
    damping: float
    """Damping ratio z."""
    gain: float
    """rad per rad."""
    offset: float
    """rad, where the joint settles at a command of 0."""


def response(command: Channel, measured: Channel, max_delay: float = MAX_DELAY) -> tuple[Servo, ...]:
    """Dead time and servo of every joint that has a command and a measurement: a least-squares fit each.

    The command is a staircase: it holds between its rows. Friction, saturation and loads are no part of the model, and
    take their share of the delay (of a Go1's legs in the air, some tenths of a millisecond).

    Raises:
        LogError: the channels share no columns, too little time, or a joint does not move.
    """
    return tuple(_servo(command, measured, name, max_delay) for name in common_columns(command, measured))


def delay_of(servos: tuple[Servo, ...]) -> Delay:
    """The one delay of joints that share a line: their mean, each counting as much as it is certain."""
    if not servos:
        raise EmbodiedError("no joints to take a delay from")
    weights = np.array([1 / max(servo.delay.stderr, 1e-6) ** 2 for servo in servos])
    seconds = np.array([servo.delay.seconds for servo in servos])
    mean = float(weights @ seconds / weights.sum())
    scatter = float(weights @ (seconds - mean) ** 2 / max(len(servos) - 1, 1))
    return Delay(
        seconds=mean,
        # Joints that disagree by more than their own errors show that the errors are too small (Birge's ratio).
        stderr=float(np.sqrt(max(1.0, scatter) / weights.sum())),
        explained=float(np.average([servo.delay.explained for servo in servos], weights=weights)),
    )


def _servo(command: Channel, measured: Channel, name: str, max_delay: float) -> Servo:
    from scipy.optimize import OptimizeResult, least_squares

    fit = _Fit.of(command, measured, name, max_delay)

    bounds = (EARLIEST * max_delay, np.log(1.0), np.log(0.05)), (max_delay, np.log(1000.0), np.log(20.0))
    options: dict[str, Any] = {"bounds": bounds, "x_scale": (0.01, 0.3, 0.3), "xtol": 1e-10}

    def improved(guess: np.ndarray, evaluations: int) -> OptimizeResult:
        return least_squares(lambda p: fit.residual(p)[0], guess, max_nfev=evaluations, **options)

    guesses = [np.array([0.3 * max_delay, np.log(frequency), 0.0]) for frequency in STARTS]
    begun = min((improved(guess, 8) for guess in guesses), key=lambda result: result.cost)
    best = improved(begun.x, 50)
    residual, (gain, offset) = fit.residual(best.x)
    spread = np.sum((fit.values - fit.values.mean()) ** 2)
    explained = 1 - float(residual @ residual / spread)
    delay, log_frequency, log_damping = best.x
    stderr = _stderr(best.jac, residual, fit.times)
    frequency, damping = float(np.exp(log_frequency)), float(np.exp(log_damping))
    return Servo(name, Delay(delay, stderr, explained), frequency, damping, gain, offset)


def _stderr(jacobian: np.ndarray, residual: np.ndarray, times: np.ndarray) -> float:
    """Standard error of the first parameter. Source: White, Econometrica 48 (1980), with blocks for rows."""
    inverse = np.linalg.pinv(jacobian.T @ jacobian)
    block = np.floor((times - times[0]) / BLOCK).astype(int)
    scores = np.zeros((block[-1] + 1, jacobian.shape[1]))
    np.add.at(scores, block, jacobian * residual[:, None])
    return float(np.sqrt(max((inverse @ scores.T @ scores @ inverse)[0, 0], 0.0)))


@dataclasses.dataclass(frozen=True)
class _Fit:
    """One joint's command and measurement, prepared for many tries."""

    times: np.ndarray
    """(n,) s, of the measurement."""
    values: np.ndarray
    """(n,) rad."""
    edges: np.ndarray
    """(m + 1,) s, ends of the fine steps on which the servo is simulated."""
    knots: np.ndarray
    """(c,) s, times of the command."""
    area: np.ndarray
    """(c,) rad s, integral of the staircase up to each knot."""

    @classmethod
    def of(cls, command: Channel, measured: Channel, name: str, max_delay: float) -> _Fit:
        """Cut both to the longest stretch that they share without a gap, and for which every delay has a command."""
        u, q = (finite_rows(channel, (name,)) for channel in (command, measured))
        if len(u) < 2:
            raise LogError(f"'{name}': {len(u)} commands; expected at least 2")
        first, last = u.time[0] + max_delay, u.time[-1] + 2 * EARLIEST * max_delay
        q = q.between(first, last)
        parts = unbroken(q.time, 0.25)
        rows = max(parts, key=lambda part: part.stop - part.start, default=slice(0, 0))
        times, values = q.time[rows], q.values[rows, 0]
        count = int(np.searchsorted(times - times[:1], LONGEST))
        times, values = times[:count], values[:count]
        if len(times) < 100 or np.ptp(values) == 0 or np.ptp(u.values) == 0:
            moved = np.ptp(values) if len(values) else 0.0
            raise LogError(f"'{name}': {len(times)} rows in common, moved by {moved:.3g}; too little to fit a servo to")
        step = float(np.clip(np.median(np.diff(times)) / 4, FINEST, COARSEST))
        edges = np.arange(times[0], times[-1] + step, step)
        area = np.concatenate([[0.0], np.cumsum(u.values[:-1, 0] * np.diff(u.time))])
        return cls(times, values, edges, u.time, area)

    def residual(self, parameters: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        """(n,) rad, and the gain and offset that make it least."""
        from scipy.signal import lfilter

        delay, w, z = parameters[0], np.exp(parameters[1]), np.exp(parameters[2])
        step = self.edges[1] - self.edges[0]
        # The mean of the delayed staircase over each fine step: smooth in the delay, however it falls between rows.
        driven = np.diff(np.interp(self.edges - delay, self.knots, self.area)) / step
        level = driven[0]
        numerator, denominator = _discrete(w, z, step)
        served = level + np.concatenate([[0.0], lfilter(numerator, denominator, driven - level)])
        model = np.interp(self.times, self.edges, served[: len(self.edges)])
        basis = np.stack([model, np.ones_like(model)], 1)
        # The servo's own state at the start is unknown: its first moments are not counted.
        weight = (self.times > self.times[0] + min(0.5, 0.1 * np.ptp(self.times))).astype(float)
        gain, offset = np.linalg.lstsq(basis * weight[:, None], self.values * weight, rcond=None)[0]
        return (gain * model + offset - self.values) * weight, (float(gain), float(offset))


def _discrete(w: float, z: float, step: float) -> tuple[np.ndarray, np.ndarray]:
    """w^2 / (s^2 + 2 z w s + w^2) for inputs that hold over a step, exactly (Franklin et al., "Digital control")."""
    from scipy.linalg import expm

    block = np.zeros((3, 3))
    block[:2] = [[0, 1, 0], [-w * w, -2 * z * w, w * w]]
    whole = expm(block * step)
    turn, push = whole[:2, :2], whole[:2, 2]
    denominator = np.array([1.0, -np.trace(turn), np.linalg.det(turn)])
    # The output's own next value: C (A B) and C B of the pair, by Cayley and Hamilton.
    numerator = np.array([push[0], (turn @ push)[0] - np.trace(turn) * push[0]])
    return numerator, denominator
