"""Derivative-free search: a scan for the delay, and CMA-ES over all parameters, each population one batch.

A command that changes in steps makes the response to a small change of the delay uninformative about a larger one, and
friction makes joints stick: Gauss-Newton from far away can end where neither the delay nor the friction is right. The
scan costs two batches and is always made. CMA-ES follows PACE (Bjelonic et al., arXiv 2509.06342): parameters scaled
to [-1, 1] by their bounds, first deviation .5, score the mean squared error; windows start as measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated

import numpy as np

from embodied.storage.bounds import NOT_NEGATIVE, Bound, Bounded
from sim2real.identification import simulate as sm
from sim2real.identification.parameters import CalibrationError, Kind
from sim2real.identification.simulate import Twin, Windows

SCANS = ((0.0, 0.05, 51), (-0.001, 0.001, 17))
"""s, s, values: a scan of all delays, then one around the best."""
SIGMA = 0.5  # PACE
POPULATION = Bound("from 2 to 4096", lambda count: 2 <= count <= 4096)
SEED = Bound("from 0 to 4294967295", lambda seed: 0 <= seed < 1 << 32)
AT_ONCE = 64  # vectors simulated at once, which bounds the state


@dataclasses.dataclass(frozen=True)
class Settings(Bounded):
    """CMA-ES."""

    generations: Annotated[int, NOT_NEGATIVE] = 0
    """0: none."""
    population: Annotated[int, POPULATION] = 32
    """Parameter vectors in each."""
    windows: Annotated[int, NOT_NEGATIVE] = 8
    """Of the log that are looked at, spread over it; 0: all."""
    seed: Annotated[int, SEED] = 0


def scores(twin: Twin, values: np.ndarray, starts: np.ndarray, windows: Windows) -> np.ndarray:
    """(N,) mean squared residual of N parameter vectors (N, all)."""
    parts = []
    for first in range(0, len(values), AT_ONCE):
        chunk = values[first : first + AT_ONCE]
        seen = sm.residuals(twin, chunk, np.broadcast_to(starts, (len(chunk), *starts.shape)), windows)
        parts.append(np.mean(seen**2, (1, 2)))
    return np.concatenate(parts)


def scan_delay(twin: Twin, values: np.ndarray, starts: np.ndarray, windows: Windows) -> np.ndarray:
    """(all,) `values` with the delay that fits best, if it is free."""
    index = next((i for i, p in enumerate(twin.parameters) if p.kind is Kind.DELAY and p.free), None)
    if index is None:
        return values
    parameter = twin.parameters[index]
    rows = np.linspace(0, len(windows) - 1, min(len(windows), Settings.windows)).astype(int)
    centre, result = 0.0, values
    for low, high, count in SCANS:
        tried = np.tile(result, (count, 1))
        tried[:, index] = np.clip(centre + np.linspace(low, high, count), parameter.lower, parameter.upper)
        result = tried[np.argmin(scores(twin, tried, starts[rows], windows.part(rows)))]
        centre = result[index]
    return result


def evolve(
    twin: Twin,
    values: np.ndarray,
    starts: np.ndarray,
    windows: Windows,
    settings: Settings,
    progress: Callable[[str], None] = lambda line: None,
) -> np.ndarray:
    """(all,) `values` with the free parameters as CMA-ES (package cmaes) found them."""
    try:
        import cmaes
    except ImportError:
        raise CalibrationError(
            'the search needs the package cmaes: pip install "embodied-sim[sim2real]", or search.generations 0'
        ) from None
    free = [i for i, parameter in enumerate(twin.parameters) if parameter.free]
    lower, upper = (np.array([getattr(twin.parameters[i], name) for i in free]) for name in ("lower", "upper"))
    to_values = lambda scaled: lower + (scaled + 1) / 2 * (upper - lower)  # noqa: E731
    count = min(len(windows), settings.windows or len(windows))
    rows = np.linspace(0, len(windows) - 1, count).astype(int)
    part, begun = windows.part(rows), starts[rows]
    best, least = values, scores(twin, values[None], begun, part)[0]
    optimiser = cmaes.CMA(
        mean=2 * (values[free] - lower) / (upper - lower) - 1,
        sigma=SIGMA,
        bounds=np.tile([-1.0, 1.0], (len(free), 1)),
        population_size=settings.population,
        seed=settings.seed,
    )
    for generation in range(settings.generations):
        asked = np.stack([optimiser.ask() for _ in range(settings.population)])
        tried = np.tile(values, (settings.population, 1))
        tried[:, free] = to_values(asked)
        found = scores(twin, tried, begun, part)
        optimiser.tell([(x, float(score)) for x, score in zip(asked, found, strict=True)])
        if found.min() < least:
            least, best = float(found.min()), tried[np.argmin(found)]
        progress(f"generation {generation + 1}: mean squared error {least:.6g}")
        if optimiser.should_stop():
            break
    return best
