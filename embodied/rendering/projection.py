"""Positions of world points in camera images: labels for learning to find things in pictures."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import mujoco
import numpy as np

from embodied.rendering.render_state import RenderState

BEHIND = -1.0  # column and row of what lies behind a camera
FARTHEST = (-1.0, 2.0)  # columns and rows to which those far outside of the image are clipped


class Projector:
    """The pinhole cameras of one model, in the states of its environments."""

    def __init__(self, model: mujoco.MjModel, cameras: Sequence[str], size: tuple[int, int]) -> None:
        """See through some cameras.

        Args:
            model: The drawn model, `Task.visual_model`; it is copied.
            cameras: Names of cameras of the model.
            size: Width and height of an image, pixels.
        """
        self.model, self.cameras, self.size = copy.copy(model), tuple(cameras), size
        self._data = mujoco.MjData(self.model)

    def project(self, state: RenderState, points: np.ndarray) -> dict[str, np.ndarray]:
        """Camera -> (T, K, 2) float32: column and row as shares of the image, from its upper left corner.

        Occlusion is not considered.

        Args:
            state: T states of an environment, every array with a leading axis (T,).
            points: (T, K, 3) m, world frame.
        """
        found = {camera: np.zeros((*points.shape[:2], 2), np.float32) for camera in self.cameras}
        for time, places in enumerate(points):
            self._move(state, time)
            for camera, shares in found.items():
                shares[time] = self._shares(camera, places)
        return found

    def _move(self, state: RenderState, time: int) -> None:
        """Move cameras and their carriers to their poses at one time."""
        model, data = self.model, self._data
        for name, values in state.fields.items():
            field = getattr(model, name)
            field[:] = np.asarray(values[time]).reshape(field.shape)
        data.qpos[:] = np.nan_to_num(np.asarray(state.qpos[time]))
        if state.mocap_pos is not None and model.nmocap:
            data.mocap_pos[:] = state.mocap_pos[time]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)

    def _shares(self, camera: str, points: np.ndarray) -> np.ndarray:
        """(K, 2) of points (K, 3) m. A MuJoCo camera looks along its negative z axis, y is up."""
        number, (width, height) = self.model.camera(camera).id, self.size
        local = (points - self._data.cam_xpos[number]) @ self._data.cam_xmat[number].reshape(3, 3)
        depth = -local[:, 2]
        half = np.tan(np.radians(self.model.cam_fovy[number]) / 2) * np.maximum(depth, 1e-6)  # m, of the image's height
        shares = np.stack([0.5 + 0.5 * local[:, 0] / (half * width / height), 0.5 - 0.5 * local[:, 1] / half], -1)
        return np.where(depth[:, None] > 0, shares.clip(*FARTHEST), BEHIND)
