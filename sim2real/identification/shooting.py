"""Multiple shooting: a twin's least squares with the start of each window unknown too, and eliminated.

A window begins in a measured state, and measurements are noisy: taken as they are, their errors would bias every
parameter. So the start of each window is unknown, and its measurement one among the others (Bock, "Recent advances in
parameter identification techniques for ODE", 1983). Starts are many but each belongs to one window only: they are
eliminated window by window (variable projection: Golub and Pereyra 1973; Kaufman 1975), which leaves a problem in the
parameters alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sim2real.identification import simulate as sm
from sim2real.identification.parameters import CalibrationError
from sim2real.identification.simulate import Twin, Windows

DIFFERENCES = (1e-6, 1e-3)  # spreads, least and most that a parameter is changed by for its derivative
TELLING = 0.3  # standard deviations, the change within these limits: a kink further off is none of the derivative's
START_STEPS = 3  # of Gauss-Newton for starts alone, which are all but linear
FLOOR = 0.1  # of an output's accuracy, below which its noise is not believed to lie


@dataclasses.dataclass(frozen=True)
class Point:
    """An iterate: parameters and window starts."""

    scaled: np.ndarray
    """(p,) spreads from the nominal values."""
    change: np.ndarray
    """(W, x) of the starts from the measured ones, in their coordinates."""
    cost: float


@dataclasses.dataclass(frozen=True)
class Slope:
    """The residual linearised at a point, in units of the noise."""

    residual: np.ndarray
    """(W, M)."""
    by_value: np.ndarray
    """(W, M, p) by parameters over spreads."""
    by_start: np.ndarray
    """(W, M, x) by each window's own start."""

    def weighted(self, factor: np.ndarray) -> Slope:
        """The same with every residual times `factor` (M,)."""
        return Slope(self.residual * factor, self.by_value * factor[:, None], self.by_start * factor[:, None])


class Problem:
    """Least squares of a twin in the windows of a log, in scaled parameters."""

    def __init__(self, twin: Twin, windows: Windows, starts: np.ndarray, base: np.ndarray | None = None) -> None:
        """`base` (all,) are the values that fixed parameters keep and free ones begin with; default: their own."""
        self.twin, self.windows, self.measured = twin, windows, starts
        self.free = tuple(i for i, parameter in enumerate(twin.parameters) if parameter.free)
        if not self.free:
            raise CalibrationError("no parameter is left to estimate")
        chosen = [twin.parameters[i] for i in self.free]
        self.base = np.array([p.start if p.free else p.nominal for p in twin.parameters]) if base is None else base
        self.nominal, self.spread, self.lower, self.upper = (
            np.array([getattr(parameter, name) for parameter in chosen])
            for name in ("nominal", "spread", "lower", "upper")
        )
        self.bounds = (self.lower - self.nominal) / self.spread, (self.upper - self.nominal) / self.spread
        size = sum(count * width for _, count, width in sm.slices(twin, windows))
        self.noise = np.ones(size)
        self._step = np.full(len(self.free), DIFFERENCES[1])

    def with_assumed(self, point: Point) -> tuple[Problem, Point]:
        """The same problem with what is assumed estimated too, and the same point in it."""
        parameters = tuple(dataclasses.replace(p, free=p.free or p.assumed) for p in self.twin.parameters)
        values = self.base.copy()
        values[list(self.free)] = self.nominal + self.spread * point.scaled
        changed: Any = self.twin
        whole = Problem(dataclasses.replace(changed, parameters=parameters), self.windows, self.measured, values)
        whole.noise = self.noise
        whole._step[[whole.free.index(i) for i in self.free]] = self._step
        return whole, dataclasses.replace(point, scaled=(values[list(whole.free)] - whole.nominal) / whole.spread)

    def begin(self) -> Point:
        """First iterate: the base values and the measured starts."""
        scaled = (self.base[list(self.free)] - self.nominal) / self.spread
        change = np.zeros((len(self.windows), len(self.twin.start_step)))
        return Point(scaled, change, self.costs(scaled[None], change[None])[0])

    def residuals(self, scaled: np.ndarray, change: np.ndarray) -> np.ndarray:
        """(N, W, M) in units of the noise, of N points."""
        values = np.tile(self.base, (len(scaled), 1))
        values[:, self.free] = self.nominal + self.spread * scaled
        starts = self.twin.moved(np.broadcast_to(self.measured, (len(scaled), *self.measured.shape)), change)
        return sm.residuals(self.twin, values, starts, self.windows) / self.noise

    def costs(self, scaled: np.ndarray, change: np.ndarray) -> np.ndarray:
        """(N,) sums of squares with both priors, of N points."""
        return self._window_costs(scaled, change).sum(1) + np.sum(scaled**2, -1)

    def better_starts(self, scaled: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Starts (N, W, x) of N points, window by window as given or as measured, whichever is better; costs (N,).

        While parameters are far off, a start can be drawn to where no small step leads back from.
        """
        measured = np.zeros_like(change)
        costs = [self._window_costs(scaled, each) for each in (change, measured)]
        better = costs[0] <= costs[1]
        chosen = np.where(better[..., None], change, measured)
        return chosen, np.minimum(*costs).sum(1) + np.sum(scaled**2, -1)

    def _window_costs(self, scaled: np.ndarray, change: np.ndarray) -> np.ndarray:
        """(N, W) sums of squares of residuals and the starts' prior."""
        residual = self.residuals(scaled, change)
        return np.sum(residual**2, 2) + np.sum((change / self.twin.start_spread) ** 2, 2)

    def cost_of(self, residual: np.ndarray, point: Point) -> float:
        """The same of a point whose residual (W, M) is known."""
        prior = np.sum(point.scaled**2) + np.sum((point.change / self.twin.start_spread) ** 2)
        return float(np.sum(residual**2) + prior)

    def linearised(self, point: Point, *, central: bool = False) -> Slope:
        """Residual and Jacobians at a point, by forward or central differences."""
        p, x = len(self.free), len(self.twin.start_step)
        up, down = (np.clip(point.scaled + way * self._step, *self.bounds) for way in (1.0, -1.0))
        # Forward, but for a parameter on its upper bound, which can only go back.
        first = up if central else np.where(up - point.scaled > 0, up, down)
        second = down if central else point.scaled
        scaled = np.tile(point.scaled, (1 + (1 + central) * (p + x), 1))
        change = np.tile(point.change, (len(scaled), 1, 1))
        for row, ends, way in ((1, first, 1.0), (1 + p + x, second, -1.0))[: 1 + central]:
            scaled[row + np.arange(p), np.arange(p)] = ends
            change[row + p + np.arange(x), :, np.arange(x)] += way * self.twin.start_step[:, None]
        seen = self.residuals(scaled, change)
        behind = seen[1 + p + x :] if central else seen[0]
        rises = np.moveaxis(seen[1 : 1 + p + x] - behind, 0, -1)
        by_start = rises[..., p:] / self.twin.start_step / (1 + central)
        slope = Slope(seen[0], rises[..., :p] / (first - second), by_start)
        # How far a change of one parameter alone would show: a delay, whose effect is made of kinks, by microseconds.
        lengths = np.sqrt(np.einsum("wmp,wmp->p", slope.by_value, slope.by_value))
        self._step = np.clip(TELLING / np.maximum(lengths, 1e-9), *DIFFERENCES)
        return slope


def fit_starts(twin: Twin, windows: Windows, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(W, s) starts with which a twin of values (all,) follows its windows best: a few steps of Gauss-Newton."""
    size = len(twin.start_step)
    change = np.zeros((len(windows), size))
    for _ in range(START_STEPS):
        moves = change + np.concatenate([np.zeros((1, size)), np.diag(twin.start_step)])[:, None]
        many = np.broadcast_to(starts, (len(moves), *starts.shape))
        seen = sm.residuals(twin, np.tile(values, (len(moves), 1)), twin.moved(many, moves), windows)
        by_start = np.moveaxis(seen[1:] - seen[0], 0, -1) / twin.start_step
        none = Slope(seen[0], np.zeros((*seen[0].shape, 0)), by_start)
        change = change + eliminated(none, change, twin.start_spread)[2](np.zeros(0))
    return twin.moved(starts, change)


def eliminated(
    slope: Slope, change: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Residual (W, M + x) and Jacobian (W, M + x, p) without what the starts can explain, and the starts' own step.

    The last x rows are the prior of the starts.
    """
    residual, slopes, by_start = slope.residual, slope.by_value, slope.by_start
    windows, _, size = by_start.shape
    eye = np.broadcast_to(np.diag(1 / spread), (windows, size, size))
    residual = np.concatenate([residual, change / spread], 1)
    slopes = np.concatenate([slopes, np.zeros((windows, size, slopes.shape[2]))], 1)
    basis, triangle = np.linalg.qr(np.concatenate([by_start, eye], 1))
    explained, explained_slopes = (np.swapaxes(basis, 1, 2) @ part for part in (residual[..., None], slopes))
    reduced = residual - (basis @ explained)[..., 0]
    jacobian = slopes - basis @ explained_slopes

    def to_start(step: np.ndarray) -> np.ndarray:
        return -np.linalg.solve(triangle, explained + (explained_slopes @ step)[..., None])[..., 0]

    return reduced, jacobian, to_start


def noise_found(problem: Problem, residual: np.ndarray) -> np.ndarray:
    """(M,) root mean square of each measured quantity's residual (W, M), which is in units of its accuracy."""
    noise = np.empty(residual.shape[1])
    for part, count, width in sm.slices(problem.twin, problem.windows):
        each = residual[:, part].reshape(-1, count, width)
        noise[part] = np.tile(np.sqrt(np.mean(each**2, (0, 1))), count)
    return np.maximum(noise, FLOOR)
