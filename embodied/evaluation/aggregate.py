"""Results of several seeds, with a stratified bootstrap's 95 % intervals (Agarwal et al. 2021, arXiv:2108.13264).

Mean, interquartile mean, probability of improvement over other seeds, performance profile. By `scipy.stats`, which JAX
requires anyway: the package `rliable`, written with the article, computes the same figures with the same library, and
would add pandas, seaborn, statsmodels and arch.
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
"""Seeds below which an interval is too narrow: resampled values do not reach beyond the given ones."""


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
    """Interquartile mean: of all scores without the lowest and the highest quarter (rounded down, so that of fewer than
    four scores all are used). Unlike the mean, robust to a seed that failed."""


def aggregate(scores: Sequence[Sequence[float]] | np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> Aggregate:
    """Aggregate the scores of several seeds (Agarwal et al. 2021, arXiv:2108.13264).

    Args:
        scores: (seeds, tasks). Intervals come from drawing seeds with replacement, for each task by itself, so that a
            task is never drawn twice in place of another: tasks are the strata.
        seed: Of the resampling.
        resamples: Number of resamples.
    """
    found = np.atleast_2d(np.asarray(scores, dtype=float))
    return Aggregate(found, *(_bootstrapped(found, statistic, seed, resamples) for statistic in (_mean, _iqm)))


def probability_of_improvement(
    scores: np.ndarray, others: np.ndarray, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Probability that a seed of one learner beats one of another, mean over tasks; ties count half.

    The statistic of Mann and Whitney's test over the number of pairs, as in Agarwal et al., section 4.3.

    Args:
        scores: (seeds, tasks) of the one.
        others: (seeds of the other, tasks).
        seed: Of the resampling.
        resamples: Number of resamples of both.
    """
    tasks = scores.shape[1]

    def probability(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        pairs = zip(drawn[:tasks], drawn[tasks:], strict=True)
        return np.mean([_beaten(one, other, axis) for one, other in pairs], axis=0)

    if min(len(scores), len(others)) < 2:
        return Interval(float(probability(*scores.T, *others.T)), math.nan, math.nan)
    return _interval((*scores.T, *others.T), probability, seed, resamples)


def performance_profile(scores: np.ndarray, thresholds: Sequence[float], seed: int = 0) -> list[Interval]:
    """Share of all runs, seeds and tasks, that scores at least each threshold: (seeds, tasks) to one for each."""
    return [
        _bootstrapped(
            scores,
            lambda *drawn, axis=-1, least=threshold: (np.concatenate(drawn, axis=axis) >= least).mean(axis),
            seed,
            RESAMPLES,
        )
        for threshold in thresholds
    ]


def _beaten(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
    """Share of the pairs of values in which the first is larger; ties count half."""
    found = stats.mannwhitneyu(one, other, axis=axis, method="asymptotic")
    return np.asarray(found.statistic) / (one.shape[axis] * other.shape[axis])


def _mean(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(np.concatenate(tasks, axis=axis), axis=axis)


def _iqm(*tasks: np.ndarray, axis: int = -1) -> np.ndarray:
    return stats.trim_mean(np.concatenate(tasks, axis=axis), TRIMMED, axis=axis)


def _bootstrapped(scores: np.ndarray, statistic: Callable[..., np.ndarray], seed: int, resamples: int) -> Interval:
    tasks = tuple(scores.T)
    if len(scores) < 2 or not np.isfinite(scores).all():
        return Interval(float(statistic(*tasks)), math.nan, math.nan)
    return _interval(tasks, statistic, seed, resamples)


def _interval(
    samples: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], seed: int, resamples: int
) -> Interval:
    """A statistic of several samples, each of which is resampled by itself."""
    found = stats.bootstrap(
        samples, statistic, n_resamples=resamples, batch=BLOCK, vectorized=True, confidence_level=CONFIDENCE,
        method="percentile", rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return Interval(float(statistic(*samples)), float(found.low), float(found.high))
