"""What several seeds came to: mean and interquartile mean, each with a stratified bootstrap's 95 % interval.

By `scipy.stats`, which JAX needs and which therefore is there: the package `rliable`, written with the article,
computes the same two figures from the same library, and would bring pandas, seaborn and arch with it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 9999
TRIMMED = 0.25  # of the scores, that the interquartile mean leaves out at each end
BLOCK = 500  # resamples computed together
FEW = 5
"""Seeds below which an interval promises too much: resampling n values knows nothing of what lies beyond them."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A figure and its 95 % interval; NaN for ends where there is a single seed."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """One measure of several trainings that differ in their seed."""

    scores: np.ndarray
    """(seeds, tasks)."""
    mean: Interval
    iqm: Interval
    """Interquartile mean: of what is left of all scores without the lowest and the highest quarter (rounded down, so
    that of fewer than four scores all are left). Robust to a seed that failed, which the mean is not."""


def aggregate(scores: Sequence[Sequence[float]] | np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> Aggregate:
    """Aggregate the scores of several seeds (Agarwal et al. 2021, arXiv:2108.13264).

    Args:
        scores: (seeds, tasks). Intervals come from drawing seeds with replacement, for each task by itself, so that a
            task is never drawn twice in place of another: tasks are the strata.
        seed: Of the resampling.
        resamples: How often seeds are drawn.
    """
    found = np.atleast_2d(np.asarray(scores, dtype=float))
    return Aggregate(found, *(_bootstrapped(found, statistic, seed, resamples) for statistic in (_mean, _iqm)))


def _mean(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(np.concatenate(tasks, axis=axis), axis=axis)


def _iqm(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    return stats.trim_mean(np.concatenate(tasks, axis=axis), TRIMMED, axis=axis)


def _bootstrapped(scores: np.ndarray, statistic: Callable[..., np.ndarray], seed: int, resamples: int) -> Interval:
    tasks = tuple(scores.T)
    value = float(statistic(*tasks))
    if len(scores) < 2 or not np.isfinite(scores).all():
        return Interval(value, math.nan, math.nan)
    found = stats.bootstrap(
        tasks, statistic, n_resamples=resamples, batch=BLOCK, vectorized=True, confidence_level=CONFIDENCE,
        method="percentile", rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return Interval(value, float(found.low), float(found.high))
