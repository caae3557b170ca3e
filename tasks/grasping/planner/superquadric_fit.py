"""Fitting one superquadric to a cloud, which may be partial and may hold outliers.

The problem itself, with its sources, is in `superquadric_problem`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import Points
from tasks.grasping.planner.half_spaces import direction, known
from tasks.grasping.planner.superquadric_problem import FEWEST, FitSettings, Problem, starts
from tasks.grasping.planner.superquadrics import Superquadric, placed

FLAT = 5e-4  # m, root mean square distance to a plane or line below which a cloud counts as planar or collinear
SHORTLIST = 4  # starts that are followed to the end
SKETCH = 12  # steps of every start before that


@dataclasses.dataclass(frozen=True)
class Fit:
    """The outcome of a fit: a superquadric, or the reason why there is none."""

    shape: Superquadric | None
    """In the cloud's frame."""
    reason: str = ""
    """Why there is none, in words; empty where there is one."""
    error: float = np.nan
    """m, root mean square distance of the inliers to the surface."""
    inliers: float = 0.0
    """Share of points that belong to it."""


def fit_superquadric(
    points: Points,
    up: Sequence[float] | np.ndarray | None = None,
    table: float | None = None,
    eye: Sequence[float] | np.ndarray | None = None,
    settings: FitSettings | None = None,
) -> Fit:
    """The superquadric that a cloud lies on.

    Args:
        points: (n, 3) m, in any frame; their order does not matter.
        up: (3,) the vertical in that frame, if known: things stand upright or lie flat, so the fit also starts there.
        table: m, height along `up` below which nothing of the object is, if known.
        eye: (3,) m, the camera that saw the points, if known, and saw all of the object that is on its side: the object
            does not stick out of the cone of rays to the points.
        settings: How hard to try.

    Returns:
        The fit. Without a shape where the cloud is empty or small, or its points are all on a line or a plane. The same
        cloud elsewhere, with all else turned along, has the same fit there, up to rounding.

    Raises:
        EmbodiedError: `points` is not (n, 3) or not finite, `up` no direction, `eye` not before the cloud, or
            there is a table without a vertical.
    """
    settings = settings or FitSettings()
    points = checked_cloud(points)
    vertical = None if up is None else direction("up", up)
    reason = _degenerate(points)
    if reason:
        return Fit(None, reason)
    used = spread(points, settings.points)
    centre = used.mean(0)
    scale = float(np.sqrt(np.mean(np.sum((used - centre) ** 2, -1))))
    confines = known(points, vertical, table, eye).scaled(centre, scale)
    problem = Problem((used - centre) / scale, confines, settings)
    state = problem.run(starts(problem.points, vertical), min(SKETCH, settings.steps))
    best = np.argsort(state.score, kind="stable")[:SHORTLIST]
    state = problem.run(state.at(best), settings.steps - min(SKETCH, settings.steps))
    winner = int(np.argmin(state.score))
    turn, pos = state.turn[winner], state.pos[winner] * scale + centre
    shape = placed(np.exp(state.logs[winner]) * scale, state.exponents[winner], pos, turn)
    return Fit(shape, "", float(np.sqrt(state.variance[winner])) * scale, float(state.inliers[winner]))


def checked_cloud(points: Points) -> Points:
    """A cloud in double precision.

    Raises:
        EmbodiedError: it is not (n, 3), or holds numbers that are not finite.
    """
    cloud = np.asarray(points, float)
    if cloud.ndim != 2 or cloud.shape[1] != 3:
        raise EmbodiedError(f"a cloud of shape {cloud.shape}; expected (n, 3), in m")
    bad = int(np.sum(~np.isfinite(cloud).all(-1)))
    if bad:
        raise EmbodiedError(f"{bad} of {len(cloud)} points of the cloud are not finite; leave out pixels without depth")
    return cloud


def spread(points: Points, count: int) -> Points:
    """At most `count` of the points, each next one the farthest from all before it (Gonzalez, 1985)."""
    if len(points) <= count:
        return points
    chosen = [int(np.argmax(np.sum((points - points.mean(0)) ** 2, -1)))]
    gap = np.full(len(points), np.inf)
    for _ in range(count - 1):
        gap = np.minimum(gap, np.sum((points - points[chosen[-1]]) ** 2, -1))
        chosen.append(int(np.argmax(gap)))
    return points[chosen]


def _degenerate(points: Points) -> str:
    """Why no superquadric is determined by the cloud; empty where one is."""
    if len(points) < FEWEST:
        return f"too few points: {len(points)}, at least {FEWEST} are needed"
    deviations = np.linalg.svd(points - points.mean(0), compute_uv=False) / np.sqrt(len(points))
    if deviations[1] < FLAT:
        return f"the points lie on a line: {1000 * deviations[1]:.2g} mm across"
    if deviations[2] < FLAT:
        return f"the points lie on a plane: {1000 * deviations[2]:.2g} mm across"
    return ""
