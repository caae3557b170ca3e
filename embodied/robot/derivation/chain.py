"""A chain of joints at many angles at once, and least squares over them."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

MOST = 100  # steps of least squares
LONGEST = 0.3  # rad or m, of a step, which further would leave the valley that it begins in
STILL = 1e-7  # rad or m, a step at which they end
FIRST, LAST = 1e-3, 1e9  # their damping, and where nothing better is to be found


class Chain:
    """Joints from a base outwards, at k sets of angles: what each carries moves by a product of exponentials."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, joints: tuple[int, ...]) -> None:
        """As they stand in `data`, from which they are turned."""
        chosen = list(joints)
        self.zero = data.qpos[model.jnt_qposadr[chosen]].copy()
        self.slides = (model.jnt_type[chosen] == int(mujoco.mjtJoint.mjJNT_SLIDE))[:, None]
        self.at, self.along = data.xanchor[chosen], data.xaxis[chosen]
        self.across = np.cross(self.along[:, None], -np.eye(3)) * ~self.slides[:, None]

    def place(self, angles: np.ndarray) -> None:
        """Turn to `angles` (k, n): `anchors` and `axes` (k, n, 3), `turn` (k, 3, 3) and `shift` (k, 3) of the end."""
        away = (angles - self.zero)[..., None, None]
        turns = np.eye(3) + np.sin(away) * self.across + (1 - np.cos(away)) * (self.across @ self.across)
        slid = away[..., 0] * self.along * self.slides
        self.turn, self.shift = np.broadcast_to(np.eye(3), (len(angles), 3, 3)), np.zeros((len(angles), 3))
        self.anchors, self.axes = np.empty((2, *angles.shape, 3))
        for i in range(len(self.zero)):
            self.anchors[:, i] = self.turn @ self.at[i] + self.shift
            self.axes[:, i] = self.turn @ self.along[i]
            self.turn = self.turn @ turns[:, i]
            self.shift = self.anchors[:, i] + (self.turn @ (slid[:, i] - self.at[i])[..., None])[..., 0]

    def point(self, point: np.ndarray) -> np.ndarray:
        """(k, 3) m, where the end takes a point that is at `point` (3,) before it turns."""
        return self.turn @ point + self.shift

    def slopes(self, points: np.ndarray, count: int | np.ndarray) -> np.ndarray:
        """(k, 3, n) of points (k, 3) that the first `count` joints carry, by each joint."""
        arms = np.cross(self.axes, points[:, None] - self.anchors)
        carried = np.arange(len(self.zero)) < np.reshape(count, (-1, 1))
        return np.swapaxes(np.where(self.slides, self.axes, arms) * carried[..., None], 1, 2)


def least_squares(
    residuals: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    starts: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Costs (k,) and angles (k, n) from `starts` (k, n), by the method of Levenberg and Marquardt within bounds (n,).

    `residuals` gives the residuals (k, m) and their Jacobians (k, m, n). A joint at a bound that the gradient presses
    against it stays there.
    """
    angles, damping = np.clip(starts, low, high), np.full(len(starts), FIRST)
    left, slopes = residuals(angles)
    for _ in range(MOST):
        gradient = np.einsum("kmn,km->kn", slopes, left)
        held = (angles <= low) & (gradient > 0) | (angles >= high) & (gradient < 0)
        free = slopes * ~held[:, None]
        normal = np.swapaxes(free, 1, 2) @ free
        curved = np.einsum("kii->ki", normal)
        curved += damping[:, None] * curved + (curved == 0)
        step = np.linalg.solve(normal, (gradient * ~held)[..., None])[..., 0]
        trial = np.clip(angles - step * LONGEST / np.maximum(np.abs(step).max(1, keepdims=True), LONGEST), low, high)
        now, turned = residuals(trial)
        better = (now**2).sum(1) < (left**2).sum(1)
        ended = (np.abs(trial - angles).max(1) < STILL) | (damping > LAST)
        angles, left = np.where(better[:, None], trial, angles), np.where(better[:, None], now, left)
        slopes = np.where(better[:, None, None], turned, slopes)
        damping = damping * np.where(better, 0.2, 5.0)
        if ended.all():
            break
    return (left**2).sum(1) / 2, angles
