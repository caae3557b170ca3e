"""Fitting one superquadric to a cloud, which may be partial and may hold outliers.

Levenberg-Marquardt from several starts at once, over 11 parameters: centre (3), turn (3), log half-axes (3) and
exponents (2). A point p of the superquadric's frame with gauge N has the residual |p| (1 - 1 / N) (Jaklic, Leonardis
and Solina, 2000, chapter 2) over the length of its gradient (Taubin, PAMI 13, 1991). As in Liu, Wu, Ruan and
Chirikjian, "Robust and accurate superquadric recovery: a probabilistic approach" (CVPR 2022), distances of inliers are
normal with a deviation that is estimated along, outliers uniform, and expectation maximisation weighs each point by how
likely it is an inlier. Half-axes carry a weak penalty, so that what nobody saw is as small as what was seen allows.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import Points
from tasks.grasping.planner.half_spaces import HalfSpaces, direction, known, support
from tasks.grasping.planner.superquadrics import EXPONENTS, TINY, Superquadric, placed

FEWEST = 30  # points: fewer hardly determine 11 parameters
AXES = (0.01, 1.5)  # of the cloud's diameter: bounds of a half-axis
FITTED = (EXPONENTS[0], 1.3)  # exponents: beyond, a diamond's, which is as well a box turned by 45 degrees
STARTS = (0.3, 1.0)  # exponents of the starts: boxlike, round
FINEST = 0.01  # of the diameter, least s: or a whole face of a clean cloud counts as outliers of the others
STEADY = 1e-5  # of the cost: a step that gains less has converged


@dataclasses.dataclass(frozen=True)
class FitSettings:
    """Settings of a fit."""

    points: int = 300
    """Points used: the ones farthest from each other, so that density does not matter."""
    steps: int = 60
    """Most steps of a start; each costs the same, so that a fit cannot hang."""
    outliers: float = 0.05
    """u, share of points expected not to belong to the object."""
    smallness: float = 0.005
    """Weight of the half-axes beside distances, no unit."""
    confinement: float = 0.3
    """Weight of how far it sticks out of what it is known to lie in, beside distances, no unit."""

    def __post_init__(self) -> None:
        if self.points < FEWEST or self.steps < 1 or not 0 <= self.outliers < 1 or self.smallness < 0:
            raise EmbodiedError(
                f"{self}; expected at least {FEWEST} points, at least 1 step, outliers in [0, 1) and smallness >= 0"
            )


@dataclasses.dataclass(frozen=True)
class State:
    """S candidates, in units of the cloud's size."""

    pos: np.ndarray
    """(S, 3)."""
    turn: np.ndarray
    """(S, 3, 3), its frame -> the cloud's."""
    logs: np.ndarray
    """(S, 3), of the half-axes."""
    exponents: np.ndarray
    """(S, 2)."""
    variance: np.ndarray
    """(S,) s^2."""
    inliers: np.ndarray
    """(S,) share."""
    score: np.ndarray
    """(S,) mean negative log likelihood of the points; lower is better."""

    def at(self, chosen: np.ndarray) -> State:
        return State(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))

    def moved(self, step: np.ndarray) -> State:
        """A step (S, 11) on: centre and turn in the candidate's own frame, log half-axes, exponents."""
        turn = self.turn @ _rotations(step[:, 3:6])
        pos = self.pos + np.einsum("sij,sj->si", self.turn, step[:, :3])
        exponents = np.clip(self.exponents + step[:, 9:], *FITTED)
        return dataclasses.replace(self, pos=pos, turn=turn, logs=self.logs + step[:, 6:9], exponents=exponents)


class Problem:
    """One cloud, centred and of unit size."""

    def __init__(self, points: Points, confines: HalfSpaces, settings: FitSettings) -> None:
        self.points, self.confines, self.settings = points, confines, settings
        self.diameter = 2 * float(np.linalg.norm(points, axis=-1).max())
        self.bounds = np.log(np.multiply(AXES, self.diameter))
        self.finest = (FINEST * self.diameter) ** 2

    def run(self, state: State, steps: int) -> State:
        """Follow every candidate for at most so many steps."""
        damping = np.full(len(state.score), 1e-2)
        done = np.zeros(len(state.score), bool)
        for _ in range(steps):
            residual, jacobian = self.linearised(state)
            weight, state = self.expected(state, residual)
            curvature, slope = self._normal(state, residual, jacobian, weight)
            damped = curvature + damping[:, None, None] * (curvature * np.eye(11) + 1e-9 * np.eye(11))
            step = np.clip(-np.linalg.solve(damped, slope[..., None])[..., 0], -0.5, 0.5)
            trial = self._bounded(state.moved(step))
            # Weights and gradients' lengths are those of the step's beginning, for both.
            length = np.linalg.norm(jacobian[..., :3], axis=-1)
            before = self._cost(state, residual, length, weight)
            after = self._cost(trial, self.residual(trial), length, weight)
            better = (after < before) & ~done
            done |= better & (before - after < STEADY * before)
            done |= damping > 1e6
            damping = np.where(better, damping / 3, damping * 4)
            state = chosen(better, trial, state)
            if done.all():
                break
        residual, jacobian = self.linearised(state)
        return self.expected(state, residual / np.linalg.norm(jacobian[..., :3], axis=-1), measured=True)[1]

    def residual(self, state: State) -> np.ndarray:
        """(S, n) radial distance."""
        local, _, _, whole = self._logs(state)
        return np.linalg.norm(local, axis=-1) * -np.expm1(-whole)

    def linearised(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(S, n) radial distance and its derivatives (S, n, 11), by `State.moved`."""
        local, logs, section, whole = self._logs(state)
        e1, e2 = state.exponents[:, 0, None], state.exponents[:, 1, None]
        length = np.linalg.norm(local, axis=-1)
        inverse = np.exp(-whole)
        # Shares of the three axes in the gauge: they sum to 1.
        section_share = np.exp(2 / e1 * (section - whole))
        x_share, y_share = (section_share * np.exp(2 / e2 * (logs[..., i] - section)) for i in (0, 1))
        z_share = np.exp(2 / e1 * (logs[..., 2] - whole))
        shares = np.stack([x_share, y_share, z_share], -1)
        lever = (length * inverse)[..., None]
        nonzero = np.where(np.abs(local) < TINY, TINY, local)
        gradient = local / length[..., None] * (1 - inverse)[..., None] + lever * shares / nonzero
        first = (whole - section_share * section - z_share * logs[..., 2]) / e1
        mixed = x_share * logs[..., 0] + y_share * logs[..., 1]
        second = (section_share * section - mixed) / e2
        by_exponents = lever * np.stack([first, second], -1)
        jacobian = np.concatenate([-gradient, np.cross(gradient, local), -lever * shares, by_exponents], -1)
        return length * (1 - inverse), jacobian

    def expected(self, state: State, residual: np.ndarray, measured: bool = False) -> tuple[np.ndarray, State]:
        """Probability that each point is an inlier (S, n), and the state with the deviation, inliers and score then."""
        share = self.settings.outliers
        variance = state.variance[:, None]
        normal = weight = np.ones_like(residual)
        for _ in range(3 if measured else 1):
            normal = np.exp(-(residual**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance) * (1 - share)
            weight = normal / (normal + share / self.diameter)
            total = np.maximum(weight.sum(-1, keepdims=True), 1.0)
            variance = np.maximum((weight * residual**2).sum(-1, keepdims=True) / total, self.finest)
        score = -np.log(normal + share / self.diameter).mean(-1) + self.settings.smallness * state.logs.sum(-1)
        score = score + self._strictness * (self.excess(state)[0] ** 2).sum(-1) / (
            2 * variance[:, 0] * len(self.points)
        )
        found = {"variance": variance[:, 0], "inliers": weight.mean(-1), "score": score}
        return weight, dataclasses.replace(state, **found)

    def _logs(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Points in the candidates' frames (S, n, 3); logarithms of |p / a|, of the section's gauge, of the whole's."""
        local = (self.points - state.pos[:, None]) @ state.turn
        logs = np.log(np.maximum(np.abs(local), TINY)) - state.logs[:, None]
        e1, e2 = state.exponents[:, 0, None], state.exponents[:, 1, None]
        section = e2 / 2 * np.logaddexp(2 / e2 * logs[..., 0], 2 / e2 * logs[..., 1])
        return local, logs, section, e1 / 2 * np.logaddexp(2 / e1 * section, 2 / e1 * logs[..., 2])

    def _normal(
        self, state: State, residual: np.ndarray, jacobian: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The normal equations: curvature (S, 11, 11) and slope (S, 11)."""
        weight = weight / np.sum(jacobian[..., :3] ** 2, -1)
        weighted = np.swapaxes(jacobian * weight[..., None], 1, 2)
        curvature, slope = weighted @ jacobian, (weighted @ residual[..., None])[..., 0]
        small = len(self.points) * self.settings.smallness**2 * np.exp(2 * state.logs)
        axes = np.arange(6, 9)
        curvature[:, axes, axes] += small
        slope[:, axes] += small
        excess, outward = self.excess(state)
        curvature += self._strictness * np.swapaxes(outward, 1, 2) @ outward
        slope += self._strictness * (np.swapaxes(outward, 1, 2) @ excess[..., None])[..., 0]
        return curvature, slope

    def _cost(self, state: State, residual: np.ndarray, length: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """(S,) half the weighted squares, the half-axes' among them."""
        small = len(self.points) * self.settings.smallness**2 * np.exp(2 * state.logs).sum(-1)
        out = self._strictness * (self.excess(state)[0] ** 2).sum(-1)
        return (weight * (residual / length) ** 2).sum(-1) + small + out

    @property
    def _strictness(self) -> float:
        """Weight of a squared excess beside squared distances."""
        return len(self.points) * self.settings.confinement**2

    def excess(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Excess of candidates over each half-space (S, k), and its derivatives (S, k, 11).

        Those by the exponents are left out: they change the reach little, and a step that does not help is not taken.
        """
        local = self.confines.normals @ state.turn
        reach, terms = support(local, np.exp(state.logs), state.exponents)
        excess = np.einsum("ki,si->sk", self.confines.normals, state.pos) + reach - self.confines.offsets
        farthest = terms / np.where(np.abs(local) < TINY, TINY, local)
        derivatives = np.concatenate([local, np.cross(farthest, local), terms, np.zeros((*excess.shape, 2))], -1)
        out = excess > 0
        return np.where(out, excess, 0.0), np.where(out[..., None], derivatives, 0.0)

    def _bounded(self, state: State) -> State:
        """The nearest state within bounds."""
        reach = self.diameter
        return dataclasses.replace(state, pos=np.clip(state.pos, -reach, reach), logs=np.clip(state.logs, *self.bounds))


def starts(points: Points, up: np.ndarray | None) -> State:
    """Candidates along the cloud's principal axes and the vertical, if known: each axis once as z, boxlike, round."""
    frames = [np.linalg.svd(points, full_matrices=False)[2].T]
    if up is not None:
        frames.append(_upright(points, up))
    pos, turns, logs, exponents = [], [], [], []
    for frame, first, exponent in itertools.product(frames, range(3), STARTS):
        turn = frame[:, [(first + 1) % 3, (first + 2) % 3, first]]
        turn = turn * np.array([1.0, 1.0, np.sign(np.linalg.det(turn))])
        low, high = np.percentile(points @ turn, [1, 99], axis=0)
        pos.append(turn @ (low + high) / 2)
        turns.append(turn)
        logs.append(np.log(np.maximum((high - low) / 2, 0.05)))
        exponents.append((exponent, exponent))
    count = len(pos)
    spread_now = np.full(count, 0.04)  # s of 0.2 of the cloud's size: at first nothing is an outlier
    return State(
        np.array(pos), np.array(turns), np.array(logs), np.array(exponents), spread_now, np.ones(count), np.zeros(count)
    )


def _upright(points: Points, up: np.ndarray) -> np.ndarray:
    """(3, 3) axes of the box around the cloud that stands upright and has the smallest base; the last is `up`."""
    side = np.linalg.svd(np.cross(points, up), full_matrices=False)[2][0]
    side -= up * (up @ side)
    side /= np.linalg.norm(side)
    across = np.cross(up, side)
    angles = np.radians(np.arange(0, 90, 3.0))
    flat = points @ np.stack([side, across], -1)
    ends = flat @ np.stack([np.stack([np.cos(angles), np.sin(angles)]), np.stack([-np.sin(angles), np.cos(angles)])])
    best = angles[int(np.argmin(np.prod(np.ptp(ends, axis=1), axis=0)))]
    first = np.cos(best) * side + np.sin(best) * across
    return np.stack([first, np.cross(up, first), up], -1)


def chosen(mask: np.ndarray, first: State, second: State) -> State:
    """Candidate by candidate the first state where the mask (S,) is true, else the second."""

    def pick(name: str) -> np.ndarray:
        ours, theirs = getattr(first, name), getattr(second, name)
        return np.where(mask.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)

    return State(*(pick(field.name) for field in dataclasses.fields(State)))


def _rotations(vectors: np.ndarray) -> np.ndarray:
    """(S, 3, 3) of rotation vectors (S, 3) rad, by Rodrigues' formula."""
    angle = np.linalg.norm(vectors, axis=-1)[:, None, None]
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(-1, 3, 3)
    # sinc keeps both factors exact at angle 0.
    return np.eye(3) + np.sinc(angle / np.pi) * cross + 0.5 * np.sinc(angle / (2 * np.pi)) ** 2 * cross @ cross


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
        settings: Settings of the fit.

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
    """A cloud in double precision; an `EmbodiedError` where it is not (n, 3) or not finite."""
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
