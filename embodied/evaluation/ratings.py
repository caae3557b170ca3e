"""Ratings of policies that play the two sides of a game, by Bradley and Terry's model, in Elo points.

Policy i on the first side beats policy j on the second one with probability

    P = 1 / (1 + 10^(-(a + r_i - s_j) / 400))

(Bradley & Terry 1952, Biometrika 39; the scale is Elo's: 400 points are odds of 10 to 1). Sides need not be alike, as
where three chase one: their offset `a` is a parameter of its own, and the ratings of each side have the mean 0, so that
they compare policies of that side with each other only.

The maximum of the likelihood is made finite by one virtual draw for each pairing, half a win for either side: a side
without a win in n episodes of a pairing has 0.5 wins of n + 1.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from embodied.evaluation.aggregate import CONFIDENCE, Interval

ELO = 400 / math.log(10)  # points for each unit of log odds
DRAWS = 1.0  # virtual ones for each pairing
RESAMPLES = 2000
ITERATIONS = 200  # of Newton's method at most; ten or so suffice
PRECISION = 1e-8  # log odds that the last step may change


@dataclasses.dataclass(frozen=True)
class Ratings:
    """Ratings of a tournament's policies, with 95 % intervals, in Elo points."""

    first: tuple[Interval, ...]
    """Of each policy on the first side; their mean is 0."""
    second: tuple[Interval, ...]
    """Of each policy on the second side; their mean is 0."""
    advantage: Interval
    """Of the first side: by how much its average policy is rated above that of the second side."""

    def expected(self, first: int, second: int) -> float:
        """Win rate of the first side in a pairing, by the ratings: far from the measured one, one number is too few."""
        points = self.advantage.value + self.first[first].value - self.second[second].value
        return 1 / (1 + math.exp(-points / ELO))


def rate(wins: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> Ratings:
    """Ratings by maximum likelihood, with intervals of a bootstrap over episodes.

    Starts are drawn with replacement, the same for all pairings, which played from the same ones. Resamples show only
    what episodes showed: for a policy that always or never won, the virtual draws set the rating and the interval is
    too narrow.

    Args:
        wins: (episodes, policies of the first side, policies of the second side) bool, whether the first side won.
        seed: Of the resampling.
        resamples: Number of resamples.
    """
    episodes, first, second = wins.shape
    drawn = np.random.default_rng(seed).multinomial(episodes, np.full(episodes, 1 / episodes), resamples)
    times = np.concatenate([np.ones((1, episodes), int), drawn])  # the tournament itself comes first
    counted = (times @ wins.reshape(episodes, -1).astype(int)).reshape(-1, first, second)
    strength = ELO * maximum_likelihood(counted, episodes)
    sides = strength[:, :first], strength[:, first:]
    means = [side.mean(1, keepdims=True) for side in sides]
    own, other = (
        tuple(_interval(column) for column in (side - mean).T) for side, mean in zip(sides, means, strict=True)
    )
    return Ratings(own, other, _interval((means[0] - means[1])[:, 0]))


def maximum_likelihood(wins: np.ndarray, episodes: int) -> np.ndarray:
    """The strengths that make tournaments likeliest, by Newton's method.

    Args:
        wins: (tournaments, first, second) episodes that the first side won.
        episodes: Of each pairing.

    Returns:
        (tournaments, first + second) in log odds, whose mean is 0.
    """
    _, first, second = wins.shape
    won, count = wins + DRAWS / 2, episodes + DRAWS
    strength = np.zeros((len(wins), first + second))
    for _ in range(ITERATIONS):
        chance = 1 / (1 + np.exp(strength[:, None, first:] - strength[:, :first, None]))
        more, spread = won - count * chance, count * chance * (1 - chance)
        gradient = np.concatenate([more.sum(2), -more.sum(1)], 1)
        # Only differences of strengths count: a constant added to all entries holds their mean where it is.
        curvature = np.full((len(wins), first + second, first + second), 1 / (first + second))
        curvature[:, :first, first:] -= spread
        curvature[:, first:, :first] -= spread.transpose(0, 2, 1)
        places = np.arange(first + second)
        curvature[:, places, places] += np.concatenate([spread.sum(2), spread.sum(1)], 1)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        # A step that moves all log odds by at most d changes curvatures by a factor of e^d at most; so much of Newton's
        # step always climbs (Sun & Tran-Dinh 2019, Mathematical Programming 178, generalised self-concordance).
        change = np.abs(step[:, :first, None] - step[:, None, first:]).max((1, 2))[:, None]
        strength += step * np.log1p(change) / np.maximum(change, np.finfo(float).tiny)
        if change.max() < PRECISION:
            break
    return strength


def _interval(values: np.ndarray) -> Interval:
    """Of the tournament, which comes first, and its resamples."""
    low, high = np.quantile(values[1:], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(values[0]), float(low), float(high))
