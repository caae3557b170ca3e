"""Superquadrics: boxes, cylinders, ellipsoids, octahedra and all between them, by two exponents and three half-axes.

Jaklic, Leonardis and Solina, "Segmentation and recovery of superquadrics" (2000), chapter 2. In the superquadric's own
frame the inside-outside function is

    F(x, y, z) = (|x/a1|^(2/e2) + |y/a2|^(2/e2))^(e2/e1) + |z/a3|^(2/e1)

1 on the surface, less inside. Here its power N = F^(e1/2) is used, which is homogeneous of degree 1 (the gauge of the
body): p / N(p) lies on the surface for every p, and N is computed by logarithms, so that no exponent overflows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import Points, matrix, quaternion, vector

EXPONENTS = (0.1, 2.0)
"""Smallest and largest exponent, no unit: a box with edges hardly rounded, an octahedron; beyond 2 it is not convex."""
TINY = 1e-12  # of a half-axis: stands for zero under a logarithm


@dataclasses.dataclass(frozen=True)
class Superquadric:
    """A superquadric at a pose."""

    axes: tuple[float, float, float]
    """m, half-axes along x, y, z of its own frame."""
    exponents: tuple[float, float]
    """e1 (profile along z) and e2 (section across z), no unit: 0.1 a box's, 1 round, 2 a diamond's."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m, its centre."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """wxyz, its frame -> the cloud's."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(axis) and axis > 0 for axis in self.axes):
            raise EmbodiedError(f"a superquadric with half-axes {self.axes} m; expected three positive lengths")
        low, high = EXPONENTS
        if not all(low <= exponent <= high for exponent in self.exponents):
            raise EmbodiedError(f"a superquadric with exponents {self.exponents}; expected two from {low} to {high}")
        if not np.isfinite([*self.pos, *self.quat]).all() or not 0.99 < math.hypot(*self.quat) < 1.01:
            raise EmbodiedError(f"a superquadric at {self.pos}, {self.quat}; expected m and a unit quaternion wxyz")

    @property
    def rotation(self) -> np.ndarray:
        """(3, 3), its frame -> the cloud's."""
        return matrix(self.quat)

    @property
    def volume(self) -> float:
        """m^3, 2 a1 a2 a3 e1 e2 B(e1/2 + 1, e1) B(e2/2, e2/2) (Jaklic et al., chapter 2)."""
        e1, e2 = self.exponents
        return 2 * math.prod(self.axes) * e1 * e2 * _beta(e1 / 2 + 1, e1) * _beta(e2 / 2, e2 / 2)

    def local(self, points: Points) -> Points:
        return (points - np.array(self.pos)) @ self.rotation

    def gauge(self, points: Points) -> np.ndarray:
        """(n,) N = F^(e1/2), no unit: 1 on the surface, less inside; doubles with the distance from the centre."""
        return np.exp(log_gauge(self.local(points), np.array(self.axes), *self.exponents))

    def normals(self, points: Points) -> np.ndarray:
        """(n, 3) outward unit normals, in the cloud's frame, of the level of F through each point."""
        local = self.local(points)
        gradient = gauge_gradient(local, np.array(self.axes), *self.exponents) @ self.rotation.T
        return gradient / np.maximum(np.linalg.norm(gradient, axis=-1, keepdims=True), TINY)

    def surface(self, count: int, seed: int = 0) -> Points:
        """(count, 3) m, points spread evenly over the surface, in the cloud's frame.

        Directions to points on the surface of the box around it are drawn, projected, and kept by their share of area.
        """
        if count < 1:
            raise EmbodiedError(f"count={count}; expected at least 1")
        random = np.random.default_rng(seed)
        axes = np.array(self.axes)
        kept = np.zeros((0, 3))
        while len(kept) < count:
            on_box, weight = _box_points(axes, 8 * count, random)
            gauge = np.exp(log_gauge(on_box, axes, *self.exponents))
            local = on_box / gauge[:, None]
            gradient = gauge_gradient(local, axes, *self.exponents)
            # Solid angle is shared: dA = r^2 dw / cos, for the box and for the surface.
            cos = np.einsum("ni,ni->n", local, gradient) / np.linalg.norm(gradient, axis=-1)
            share = weight * np.sum(local**2, -1) / np.maximum(cos / np.linalg.norm(local, axis=-1), 1e-3)
            kept = np.concatenate([kept, local[random.uniform(size=len(share)) * share.max() < share]])
        return kept[:count] @ self.rotation.T + np.array(self.pos)

    def moved(self, pos: Sequence[float] | np.ndarray, turn: np.ndarray) -> Superquadric:
        """The same in another frame, in which this one has position (3,) m and rotation (3, 3)."""
        return placed(self.axes, self.exponents, turn @ np.array(self.pos) + np.asarray(pos), turn @ self.rotation)


def placed(
    axes: Sequence[float] | np.ndarray,
    exponents: Sequence[float] | np.ndarray,
    pos: Sequence[float] | np.ndarray,
    turn: np.ndarray,
) -> Superquadric:
    """A superquadric from arrays: half-axes (3,) m, exponents (2,), centre (3,) m, rotation (3, 3)."""
    e1, e2 = (float(exponent) for exponent in exponents)
    return Superquadric(vector(axes), (e1, e2), vector(pos), quaternion(turn))


def log_gauge(local: np.ndarray, axes: np.ndarray, e1: float, e2: float) -> np.ndarray:
    """(n,) log N of points (n, 3) in the superquadric's frame."""
    x, y, z = np.moveaxis(np.log(np.maximum(np.abs(local) / axes, TINY)), -1, 0)
    section = e2 / 2 * np.logaddexp(2 / e2 * x, 2 / e2 * y)
    return e1 / 2 * np.logaddexp(2 / e1 * section, 2 / e1 * z)


def gauge_gradient(local: np.ndarray, axes: np.ndarray, e1: float, e2: float) -> np.ndarray:
    """(n, 3) 1/m, gradient of N in the superquadric's frame."""
    logs = np.log(np.maximum(np.abs(local) / axes, TINY))
    section = e2 / 2 * np.logaddexp(2 / e2 * logs[:, 0], 2 / e2 * logs[:, 1])
    whole = e1 / 2 * np.logaddexp(2 / e1 * section, 2 / e1 * logs[:, 2])
    across = np.exp(2 / e1 * (section - whole))[:, None] * np.exp(2 / e2 * (logs[:, :2] - section[:, None]))
    shares = np.concatenate([across, np.exp(2 / e1 * (logs[:, 2:] - whole[:, None]))], -1)
    return np.exp(whole)[:, None] * shares * np.sign(local) / np.maximum(np.abs(local), TINY * axes)


def _box_points(axes: np.ndarray, count: int, random: np.random.Generator) -> tuple[Points, np.ndarray]:
    """Points evenly on the surface of the box of these half-axes, and dw/dA (n,) 1/m^2, their solid angle by area."""
    areas = np.prod(axes) / axes
    face = random.choice(3, count, p=areas / areas.sum())
    points = random.uniform(-1, 1, (count, 3)) * axes
    rows = np.arange(count)
    points[rows, face] = random.choice([-1.0, 1.0], count) * axes[face]
    return points, axes[face] / np.linalg.norm(points, axis=-1) ** 3


def _beta(x: float, y: float) -> float:
    return math.exp(math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y))
