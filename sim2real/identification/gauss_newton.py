"""Bounded Gauss-Newton over a twin's parameters, with each window's start estimated along: multiple shooting.

`mujoco.sysid` and the minimiser below it have no place for that: with W windows their Jacobian would be dense in all
starts, many times as large, and the intervals of `mujoco.sysid` take all residuals for white and of one variance. So
this is a minimiser of our own, of the same kind.

All finite differences of an iteration, and all candidate steps, are one batch of simulations each. `covariance` is
the fit's uncertainty, with the residual's autocorrelation, `unidentified` what the log does not identify.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated

import numpy as np

from embodied.storage.bounds import Bounded, at_least
from sim2real.identification import simulate as sm
from sim2real.identification.calibration import Direction
from sim2real.identification.parameters import CalibrationError, Kind
from sim2real.identification.shooting import Point, Problem, Slope, eliminated, noise_found
from sim2real.identification.simulate import Twin, Windows

DAMPINGS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of Levenberg and Marquardt, tried at once, relative to the diagonal
SHORTER = 10.0  # factor on all of them after a step of which none was good
DECREMENT = 1e-2  # squared length of a step, in standard deviations, below which the estimate has converged
PARTS = (0.1, 0.25, 0.5)  # s of the parts of a log that are left out in turn
CORRELATION_WINDOW = 5.0  # correlation times over which correlation is summed (Sokal's self-consistent window)
NAMED = 0.05  # share of a direction, from which a parameter is named in it
UNTOLD = 0.02  # of the prior's spread, below which it does not matter that the log leaves something open
MOSTLY = 0.5  # of what is left open of a parameter, above which the rest does not count
ALIKE = 0.2  # by which relative changes may differ that are one factor
ONE = at_least(1)
NOTHING = 1e-10  # squared, below which a log's information is rounding


@dataclasses.dataclass(frozen=True)
class Settings(Bounded):
    """Iterations of Gauss-Newton."""

    iterations: Annotated[int, ONE] = 15
    """At most, for each weighting."""
    weightings: Annotated[int, ONE] = 2
    """Fits; after each, every measured quantity counts by the noise found in it."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """Result of Gauss-Newton, of the free parameters."""

    free: tuple[int, ...]
    """Which of the twin's parameters."""
    values: np.ndarray
    """(p,) in their units."""
    starts: np.ndarray
    """(W, s) estimated states at the beginnings of the windows."""
    residual: np.ndarray
    """(W, M) in units of the noise found."""
    jacobian: np.ndarray
    """(W, M, p) of the residual by parameters over spreads, with the starts eliminated."""
    assumed: tuple[int, ...]
    """Which of the twin's parameters are neither estimated nor known."""
    by_assumed: np.ndarray
    """(W, M, q) of the residual by those over their spreads, with the starts eliminated."""
    noise: np.ndarray
    """(M,) standard deviation found, as a multiple of the output's accuracy."""
    costs: tuple[float, ...]
    """Sum of squares after each iteration; begins anew with each weighting."""
    converged: bool


def fit(
    twin: Twin,
    windows: Windows,
    starts: np.ndarray,
    base: np.ndarray | None = None,
    settings: Settings = Settings(),
    progress: Callable[[str], None] = lambda line: None,
) -> Fit:
    """Estimate the free parameters of `twin` and the starts (W, s) of the windows.

    Raises:
        CalibrationError: nothing is free, or the twin cannot follow the log at all.
    """
    problem, costs, converged = Problem(twin, windows, starts, base), [], False
    point = problem.begin()
    slope = problem.linearised(point)
    # Delay and lost commands lead to each other by a long curve: from far off, the fit would lose its way along it.
    late = np.array([twin.parameters[i].kind is Kind.LOSS for i in problem.free])
    for round_ in range(settings.weightings):
        held = late & (round_ == 0) & (settings.weightings > 1)
        if round_:
            noise = noise_found(problem, slope.residual * problem.noise)
            slope, problem.noise = slope.weighted(problem.noise / noise), noise
            point = dataclasses.replace(point, cost=problem.cost_of(slope.residual, point))
        point, slope, spent, converged = _descend(problem, point, slope, held, settings.iterations, progress)
        costs += spent
    if not np.isfinite(slope.by_value).all() or np.abs(slope.residual * problem.noise).max() >= sm.DIVERGED:
        raise CalibrationError(f"the simulation of '{twin.name}' diverges from the log; shorter windows may help")
    # What two parameters do alike must cancel in the last Jacobian: forward differences leave a remainder that would
    # pass for information.
    whole, at = problem.with_assumed(point)
    slope = whole.linearised(at, central=True)
    _, jacobian, _ = eliminated(slope, point.change, twin.start_spread)
    by_all = dict(zip(whole.free, np.moveaxis(jacobian[:, : slope.residual.shape[1]], -1, 0), strict=True))
    assumed = tuple(i for i in whole.free if i not in problem.free)
    columns = lambda of: np.stack([by_all[i] for i in of], -1) if of else np.zeros((*slope.residual.shape, 0))  # noqa: E731
    return Fit(
        free=problem.free,
        values=problem.nominal + problem.spread * point.scaled,
        starts=twin.moved(starts, point.change),
        residual=slope.residual,
        jacobian=columns(problem.free),
        assumed=assumed,
        by_assumed=columns(assumed),
        noise=problem.noise,
        costs=tuple(costs),
        converged=converged,
    )


def _descend(
    problem: Problem,
    point: Point,
    slope: Slope,
    held: np.ndarray,
    iterations: int,
    progress: Callable[[str], None],
) -> tuple[Point, Slope, list[float], bool]:
    """Iterate to convergence from a point and its linearisation, but for the parameters that are `held` (p,).

    Returns the last point, its linearisation, the costs on the way and whether it converged.
    """
    costs, factor = [point.cost], 1.0
    for iteration in range(iterations):
        reduced, jacobian, to_start = eliminated(slope, point.change, problem.twin.start_spread)
        hessian = np.einsum("wmp,wmq->pq", jacobian, jacobian) + np.eye(len(point.scaled))
        gradient = np.einsum("wmp,wm->p", jacobian, reduced) + point.scaled
        bounds = tuple(np.where(held, 0.0, bound - point.scaled) for bound in problem.bounds)
        steps = np.stack([_bounded(hessian, gradient, factor * damping, bounds) for damping in DAMPINGS])
        length = float(steps[0] @ hessian @ steps[0])
        progress(f"iteration {iteration + 1}: cost {point.cost:.6g}, step {np.sqrt(length):.2g} standard deviations")
        if length < DECREMENT:
            return point, slope, costs, True
        scaled = point.scaled + steps
        change, found = problem.better_starts(scaled, point.change + np.stack([to_start(step) for step in steps]))
        best = int(np.argmin(found))
        costs.append(min(float(found[best]), point.cost))
        if found[best] < point.cost - (length < 1.0) * DECREMENT:
            point = Point(scaled[best], change[best], float(found[best]))
            factor = max(factor / SHORTER, 1.0)
            slope = problem.linearised(point)
        elif length < 1.0:
            # Where the model's kinks (a joint that sticks or slips, an effort at its limit) leave no better point
            # within one standard deviation, there is nothing to gain.
            return point, slope, costs, True
        else:
            factor *= SHORTER
    return point, slope, costs, False


def _bounded(hessian: np.ndarray, gradient: np.ndarray, damping: float, bounds: tuple[np.ndarray, ...]) -> np.ndarray:
    """(p,) minimum of the damped quadratic model within bounds."""
    from scipy.optimize import lsq_linear

    factor = np.linalg.cholesky(hessian + damping * np.diag(np.diag(hessian)))
    target = -np.linalg.solve(factor, gradient)
    room = 1e-9  # lsq_linear wants lower < upper, and a parameter may sit on its bound
    step = lsq_linear(factor.T, target, (np.minimum(bounds[0], -room), np.maximum(bounds[1], room)), "bvls").x
    return np.clip(step, *bounds)


def covariance(twin: Twin, windows: Windows, fit: Fit) -> np.ndarray:
    """(p, p) of the free parameters, in their units: by the noise, or by what the twin does wrong, whichever is more.

    Noise that has nothing to do with the motion is `_by_noise`. What a twin lacks, and commands that were lost, come
    and go with the motion: that shows where the parts of a log contradict each other, in `_by_parts`. The largest
    standard deviation of each parameter counts; correlations are those of the noise. Also tried:
    autocorrelation alone, which is far too narrow where commands were lost, and the estimate's change at half the
    window, which is too small to matter.

    An error that is the same throughout a log leaves no trace here. So what a twin lacks is modelled first where it has
    a name: the integrator, lost commands, hard friction, propellers, payloads.
    """
    by_noise = _by_noise(twin, windows, fit)
    least = np.diag(by_noise)
    most = np.max([least, *(np.diag(_by_parts(twin, windows, fit, part)) for part in PARTS)], 0)
    growth = np.sqrt(most / least)
    spread = np.array([twin.parameters[i].spread for i in fit.free])
    return by_noise * np.outer(growth * spread, growth * spread)


def _by_noise(twin: Twin, windows: Windows, fit: Fit) -> np.ndarray:
    """(p, p) in spreads, for noise that does not depend on the motion.

    (H + 1)^-1 (C + 1) (H + 1)^-1, where H = J'J and C = sum_ij J_i' R(i - j) J_j with R the autocovariance of each
    measured quantity's residual; 1 is the prior. White residuals give C = H. Source: Morelli and Klein, "Accuracy of
    aerodynamic model parameters estimated from flight test data", J. Guidance 20 (1997), equation 20; correlations are
    tapered (Bartlett), which keeps C positive.
    """
    jacobian, residual = fit.jacobian, fit.residual
    size = jacobian.shape[2]
    hessian, middle = np.zeros((size, size)), np.zeros((size, size))
    starts = len(twin.start_step) * len(windows)
    # Residuals are smaller than the noise by what the unknowns have taken of it.
    freedom = residual.size / max(residual.size - size - starts, 1)
    for part, count, width in sm.slices(twin, windows):
        for component in range(width):
            rows = np.arange(part.start, part.stop).reshape(count, width)[:, component]
            slopes, seen = jacobian[:, rows], residual[:, rows]
            hessian += np.einsum("wmp,wmq->pq", slopes, slopes)
            for lag, weight in enumerate(_autocovariance(seen) * freedom):
                product = np.einsum("wmp,wmq->pq", slopes[:, : count - lag], slopes[:, lag:])
                middle += weight * (product if lag == 0 else product + product.T)
    inverse = np.linalg.inv(hessian + np.eye(size))
    return inverse @ (middle + np.eye(size)) @ inverse


def _by_parts(twin: Twin, windows: Windows, fit: Fit, seconds: float) -> np.ndarray:
    """(p, p) in spreads, from how the estimate moves when a part of the log, `seconds` long, is left out.

    The jackknife over blocks, linearised: with A = (H + 1)^-1, the estimate moves by A (1 - H_b A)^-1 J_b' r_b without
    block b, and the squares of all such moves add up. Nothing is supposed of the residual but that blocks are
    independent of each other. Source: Kuensch, "The jackknife and the bootstrap for general stationary observations",
    Annals of Statistics 17 (1989); Bell and McCaffrey, "Bias reduction in standard errors for linear regression with
    multi-stage samples", Survey Methodology 28 (2002), whose CR3 this is.
    """
    size, width = fit.jacobian.shape[2], len(windows)
    count = max(int(np.ceil(windows.steps * windows.timestep / seconds - 0.5)), 1)
    scores, shares = np.zeros((width, count, size)), np.zeros((width, count, size, size))
    for (part, rows, components), samples in zip(sm.slices(twin, windows), windows.samples, strict=True):
        slopes = fit.jacobian[:, part].reshape(width, rows, components, size)
        residual = fit.residual[:, part].reshape(width, rows, components)
        block = np.minimum(samples.step * windows.timestep // seconds, count - 1).astype(int)
        which = np.arange(width)[:, None], block
        np.add.at(scores, which, np.einsum("wkcp,wkc->wkp", slopes, residual))
        np.add.at(shares, which, np.einsum("wkcp,wkcq->wkpq", slopes, slopes))
    inverse = np.linalg.inv(shares.sum((0, 1)) + np.eye(size))
    without = np.eye(size) - shares.reshape(-1, size, size) @ inverse
    moves = np.linalg.solve(without, scores.reshape(-1, size, 1))[..., 0] @ inverse
    return moves.T @ moves + inverse @ inverse


def _autocovariance(residual: np.ndarray) -> np.ndarray:
    """(lags,) of a quantity in W windows (W, K), tapered, up to where Sokal's window ends."""
    count = residual.shape[1]
    size = 1 << (2 * count - 1).bit_length()
    power = np.abs(np.fft.rfft(residual, size)) ** 2
    correlation = np.fft.irfft(power, size)[:, :count].sum(0) / residual.size
    time = 0.5 + np.cumsum(correlation[1:]) / correlation[0]
    enough = np.flatnonzero(np.arange(1, count) >= CORRELATION_WINDOW * np.maximum(time, 0.5))
    last = int(enough[0]) + 1 if len(enough) else count - 1
    return correlation[: last + 1] * (1 - np.arange(last + 1) / (last + 1))


def with_assumed(twin: Twin, fit: Fit, covariance: np.ndarray) -> np.ndarray:
    """(p, p) `covariance` of the free parameters, and what the assumed ones add by not being as assumed.

    The estimate is linear in what was assumed, with the factor S = -(H + 1)^-1 H_fa. How far that may be off is what
    one step of Gauss-Newton over all parameters would change it by, d, and the covariance V that it then has: the
    prior where the log leaves it open. So S (V + d d') S' is added. Source: "consider" covariance analysis: Tapley,
    Schutz and Born, "Statistical Orbit Determination" (2004), section 6.2, with V from the log.
    """
    free = len(fit.free)
    jacobian = np.concatenate([fit.jacobian, fit.by_assumed], -1)
    hessian = np.einsum("wmp,wmq->pq", jacobian, jacobian) + np.eye(jacobian.shape[-1])
    left = np.linalg.inv(hessian)
    # The free ones are where their gradient, with the prior's, vanishes; the prior of the others does where they are.
    gradient = np.concatenate([np.zeros(free), np.einsum("wmp,wm->p", fit.by_assumed, fit.residual)])
    off = -(left @ gradient)[free:]
    led = np.linalg.solve(hessian[:free, :free], hessian[:free, free:])
    led *= np.array([twin.parameters[i].spread for i in fit.free])[:, None]
    return covariance + led @ (left[free:, free:] + np.outer(off, off)) @ led.T


def _open(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """(d,) information and (d, p + q) directions of free and assumed parameters, first those on which the log has less
    information than the prior, in rising order; then the others."""
    jacobian = np.concatenate([fit.jacobian, fit.by_assumed], -1)
    _, singular, vectors = np.linalg.svd(np.einsum("wmp,wmq->pq", jacobian, jacobian))
    return singular[::-1], vectors[::-1]


def told(fit: Fit) -> list[bool]:
    """For each free parameter, whether the log identifies it by itself.

    It does not where most of what is left open of it lies along directions with less information than the prior:
    then many values fit the log, each together with other values of other parameters.
    """
    information, directions = _open(fit)
    parts = directions[:, : len(fit.free)] ** 2 / (1 + information[:, None])
    untold = parts[information < 1].sum(0)
    return [bool(u < UNTOLD**2 or u < MOSTLY * whole) for u, whole in zip(untold, parts.sum(0), strict=True)]


def unidentified(twin: Twin, fit: Fit) -> tuple[Direction, ...]:
    """Directions in which the log informs less than the prior, least first: singular vectors of the scaled Jacobian.

    What is assumed is among the names: a scale of masses, inertias and forces is no less open for not being estimated.
    """
    chosen = [twin.parameters[i] for i in (*fit.free, *fit.assumed)]
    values = np.array([*fit.values, *(twin.parameters[i].nominal for i in fit.assumed)])
    spread = np.array([parameter.spread for parameter in chosen])
    result = []
    for value, vector in zip(*_open(fit), strict=True):
        if value >= 1.0:
            break
        order = np.argsort(-np.abs(vector))
        named = [i for rank, i in enumerate(order) if rank == 0 or abs(vector[i]) >= NAMED]
        sign = np.sign(vector[named[0]])
        relative = np.divide(vector * spread, values, out=np.zeros_like(values), where=values != 0)
        shares = tuple(float(sign * vector[i]) for i in named)
        left = float(1 / np.sqrt(value)) if value > NOTHING else float("inf")
        result.append(Direction(tuple(chosen[i].name for i in named), shares, left, _scale(vector, relative)))
    return tuple(result)


def _scale(direction: np.ndarray, relative: np.ndarray) -> bool:
    """Whether a direction (n,) changes all that it changes much by one factor; `relative` (n,) are relative changes."""
    most = relative[np.argmax(np.abs(relative))]
    alike = np.abs(relative / most - 1) < ALIKE if most else np.zeros(len(relative), bool)
    return bool(alike.sum() > 1 and np.sum(direction[alike] ** 2) > 1 - ALIKE)
