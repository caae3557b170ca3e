"""How far two paths are from one another: VIKI's three measures (arXiv:2506.09049, trajectory perception).

Paths are compared as `POINTS` points each, spread evenly along their lengths, so that it does not matter how many
corners an answer gives. Units are those of the paths.
"""

from __future__ import annotations

import numpy as np

POINTS = 64  # along each path, our choice


def resampled(path: np.ndarray, count: int = POINTS) -> np.ndarray:
    """(count, k) points evenly along a path of corners (n, k); all the same where it has no length."""
    path = np.asarray(path, float)
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    wanted = np.linspace(0.0, along[-1], count)
    return np.column_stack([np.interp(wanted, along, column) for column in path.T])


def rmse(first: np.ndarray, second: np.ndarray) -> float:
    """Root of the mean squared distance between points at the same share of the way."""
    off = resampled(first) - resampled(second)
    return float(np.sqrt((off**2).sum(-1).mean()))


def hausdorff(first: np.ndarray, second: np.ndarray) -> float:
    """The farthest that any point of one path is from the other path's nearest."""
    apart = _apart(first, second)
    return float(max(apart.min(0).max(), apart.min(1).max()))


def discrete_frechet(first: np.ndarray, second: np.ndarray) -> float:
    """The shortest leash of two that walk the paths without turning back.

    Source: Eiter and Mannila, "Computing discrete Frechet distance", CD-TR 94/64, TU Vienna, 1994.
    """
    apart = _apart(first, second)
    leash = np.empty_like(apart)
    leash[0] = np.maximum.accumulate(apart[0])
    leash[:, 0] = np.maximum.accumulate(apart[:, 0])
    for i in range(1, len(apart)):
        for j in range(1, len(apart)):
            leash[i, j] = max(min(leash[i - 1, j], leash[i - 1, j - 1], leash[i, j - 1]), apart[i, j])
    return float(leash[-1, -1])


def _apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.linalg.norm(resampled(first)[:, None] - resampled(second)[None], axis=-1)
