"""Knowledge of an object besides the points seen: half-spaces in which all of it lies.

Nothing reaches below the table, and nothing sticks out of the cone of rays in which the camera saw the object. A body
lies in the half-space n . x <= b where its support function h(n), the largest n . x of its points, is at most b. A
superquadric's is the dual of its gauge: a p-norm's dual is the q-norm with 1/p + 1/q = 1, so p = 2/e makes
q = 2/(2 - e).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.shapes import Points

TANGENTS = 16  # planes through the eye around the cloud
PROBES = 100  # points whose nearest neighbours give the distance of points
ROUNDEST = 1.95  # exponents above count as this in the support function, whose q would be infinite at 2
TINY = 1e-12


@dataclasses.dataclass(frozen=True)
class HalfSpaces:
    """k half-spaces n . x <= b, of which the object is in all."""

    normals: np.ndarray
    """(k, 3) unit."""
    offsets: np.ndarray
    """(k,) m."""

    def scaled(self, centre: np.ndarray, scale: float) -> HalfSpaces:
        """The same for points (x - centre) / scale."""
        return HalfSpaces(self.normals, (self.offsets - self.normals @ centre) / scale)


def direction(name: str, value: Sequence[float] | np.ndarray) -> np.ndarray:
    """(3,) unit vector; an `EmbodiedError` that calls it `name` where it has no direction."""
    vector = np.asarray(value, float)
    if vector.shape != (3,) or not np.isfinite(vector).all() or np.linalg.norm(vector) < 1e-9:
        raise EmbodiedError(f"{name}={value}; expected a direction of three finite numbers")
    return vector / np.linalg.norm(vector)


def known(
    points: Points, up: np.ndarray | None, table: float | None, eye: Sequence[float] | np.ndarray | None
) -> HalfSpaces:
    """The half-spaces of a table and of a camera.

    Args:
        points: (n, 3) m, the cloud.
        up: (3,) unit, the vertical.
        table: m, the table's height along `up`; None: no table.
        eye: (3,) m, where the camera stands; None: unknown.

    Raises:
        EmbodiedError: a table without `up`, or an eye that is not finite or amid the cloud.
    """
    normals, offsets = np.zeros((0, 3)), np.zeros(0)
    if table is not None:
        if up is None or not np.isfinite(table):
            raise EmbodiedError(f"table={table} with up={up}; expected a height in m and the vertical")
        normals, offsets = -up[None], np.array([-float(table)])
    if eye is not None:
        around = _tangents(points, np.asarray(eye, float))
        normals, offsets = np.concatenate([normals, around]), np.concatenate([offsets, around @ np.asarray(eye, float)])
    return HalfSpaces(normals, offsets)


def _tangents(points: Points, eye: np.ndarray) -> np.ndarray:
    """(k, 3) outward normals of planes through the eye around the cloud, wider than it by the distance of its points.

    The object ends somewhere between the last point seen and the next that would have been.
    """
    rays = points - eye
    axis = rays.mean(0)
    if eye.shape != (3,) or not np.isfinite(eye).all() or (rays @ axis <= 0).any():
        raise EmbodiedError(f"eye={eye.tolist()}; expected a point in m that has the whole cloud before it")
    axis /= np.linalg.norm(axis)
    flat = rays / (rays @ axis)[:, None] - axis
    # Along the picture's own principal axes, so that the planes turn with the cloud.
    basis = np.linalg.svd(flat - flat.mean(0), full_matrices=False)[2][:2]
    angles = 2 * np.pi * np.arange(TANGENTS) / TANGENTS
    outward = np.stack([np.cos(angles), np.sin(angles)], -1) @ basis
    some = flat[:: max(1, len(flat) // PROBES)]
    gaps = np.partition(np.sum((some[:, None] - flat) ** 2, -1), 1, axis=1)[:, 1]
    width = np.max(flat @ outward.T, axis=0) + np.sqrt(np.median(gaps))
    normals = outward - width[:, None] * axis
    return normals / np.linalg.norm(normals, axis=-1, keepdims=True)


def support(local: np.ndarray, axes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reach of superquadrics from their centres.

    Args:
        local: (..., k, 3) unit directions in the superquadrics' frames.
        axes: (..., 3) half-axes.
        exponents: (..., 2).

    Returns:
        (..., k) the largest n . x of the body, and (..., k, 3) the three terms n_i x_i of it.
    """
    q1, q2 = (2 / (2 - np.minimum(exponents[..., i, None], ROUNDEST)) for i in (0, 1))
    logs = np.log(np.maximum(np.abs(local) * axes[..., None, :], TINY))
    section = np.logaddexp(q2 * logs[..., 0], q2 * logs[..., 1]) / q2
    whole = np.logaddexp(q1 * section, q1 * logs[..., 2]) / q1
    across = np.exp(q1 * (section - whole))
    shares = [across * np.exp(q2 * (logs[..., i] - section)) for i in (0, 1)]
    shares.append(np.exp(q1 * (logs[..., 2] - whole)))
    reach = np.exp(whole)
    return reach, reach[..., None] * np.stack(shares, -1)
