"""How sure a fit is: covariance with the residual's autocorrelation, and what the log cannot tell."""

from __future__ import annotations

import numpy as np

from sim2real.identification import simulate as sm
from sim2real.identification.calibration import Direction
from sim2real.identification.gauss_newton import Fit
from sim2real.identification.simulate import Twin, Windows

WINDOW = 5.0  # correlation times over which correlation is summed (Sokal's self-consistent window)
NAMED = 0.3  # share of a direction, from which a parameter is named in it
NOTHING = 1e-10  # squared, below which what a log says is rounding


def covariance(twin: Twin, windows: Windows, fit: Fit) -> np.ndarray:
    """(p, p) of the free parameters, in their units.

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
    spread = np.array([twin.parameters[i].spread for i in fit.free])
    return inverse @ (middle + np.eye(size)) @ inverse * np.outer(spread, spread)


def _autocovariance(residual: np.ndarray) -> np.ndarray:
    """(lags,) of a quantity in W windows (W, K), tapered, up to where Sokal's window ends."""
    count = residual.shape[1]
    size = 1 << (2 * count - 1).bit_length()
    power = np.abs(np.fft.rfft(residual, size)) ** 2
    correlation = np.fft.irfft(power, size)[:, :count].sum(0) / residual.size
    time = 0.5 + np.cumsum(correlation[1:]) / correlation[0]
    enough = np.flatnonzero(np.arange(1, count) >= WINDOW * np.maximum(time, 0.5))
    last = int(enough[0]) + 1 if len(enough) else count - 1
    return correlation[: last + 1] * (1 - np.arange(last + 1) / (last + 1))


def unidentified(twin: Twin, fit: Fit) -> tuple[Direction, ...]:
    """Directions in which the log says less than the prior, least first: singular vectors of the scaled Jacobian."""
    names = [twin.parameters[i].name for i in fit.free]
    _, singular, vectors = np.linalg.svd(np.einsum("wmp,wmq->pq", fit.jacobian, fit.jacobian))
    result = []
    for value, vector in zip(singular[::-1], vectors[::-1], strict=True):
        if value >= 1.0:
            break
        order = np.argsort(-np.abs(vector))
        chosen = [i for rank, i in enumerate(order) if rank == 0 or abs(vector[i]) >= NAMED]
        shares = tuple(float(np.sign(vector[chosen[0]]) * vector[i]) for i in chosen)
        left = float(1 / np.sqrt(value)) if value > NOTHING else float("inf")
        result.append(Direction(tuple(names[i] for i in chosen), shares, left))
    return tuple(result)
