"""Rigid transforms as (4, 4) float64 matrices: `a_to_b` takes homogeneous coordinates in frame a to frame b."""

from __future__ import annotations

import numpy as np


def pose(rotation: np.ndarray, position: np.ndarray) -> np.ndarray:
    """(4, 4) transform of a rotation (3, 3), or a rotation vector (3,) in rad, and a position (3,) in m."""
    rotation = np.asarray(rotation, float)
    result = np.eye(4)
    result[:3, :3] = rotation if rotation.shape == (3, 3) else exponential(rotation)
    result[:3, 3] = np.ravel(position)
    return result


def inverse(transform: np.ndarray) -> np.ndarray:
    """(..., 4, 4) inverse of rigid transforms."""
    result = np.zeros_like(transform)
    turned = np.swapaxes(transform[..., :3, :3], -1, -2)
    result[..., :3, :3] = turned
    result[..., :3, 3] = -(turned @ transform[..., :3, 3:])[..., 0]
    result[..., 3, 3] = 1.0
    return result


def exponential(vector: np.ndarray) -> np.ndarray:
    """(3, 3) rotation by |vector| rad about a vector (3,). Rodrigues' formula."""
    vector = np.ravel(vector).astype(float)
    angle = float(np.linalg.norm(vector))
    cross = np.cross(np.eye(3), vector)  # cross @ v == np.cross(vector, v)
    # Below 1e-8 rad the terms left out are smaller than the last bit.
    first, second = (1.0, 0.5) if angle < 1e-8 else (np.sin(angle) / angle, (1 - np.cos(angle)) / angle**2)
    return np.eye(3) + first * cross + second * cross @ cross


def logarithm(rotation: np.ndarray) -> np.ndarray:
    """(3,) rotation vector in rad of a rotation (3, 3); its length is at most pi."""
    quat = wxyz_from_matrix(rotation)
    quat = quat if quat[0] >= 0 else -quat
    sine = float(np.linalg.norm(quat[1:]))
    return 2 * quat[1:] if sine < 1e-12 else 2 * np.arctan2(sine, quat[0]) / sine * quat[1:]


def angle(rotation: np.ndarray) -> float:
    """rad, by which a rotation (3, 3) turns."""
    return float(np.linalg.norm(logarithm(rotation)))


def wxyz_from_matrix(rotation: np.ndarray) -> np.ndarray:
    """(4,) unit quaternion wxyz of a rotation (3, 3)."""
    import mujoco

    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation, float).reshape(9))
    return quat / np.linalg.norm(quat)


def matrix_from_wxyz(quat: np.ndarray) -> np.ndarray:
    """(3, 3) rotation of a quaternion (4,) wxyz of any length but 0."""
    import mujoco

    matrix = np.zeros(9)
    quat = np.asarray(quat, float)
    mujoco.mju_quat2Mat(matrix, quat / np.linalg.norm(quat))
    return matrix.reshape(3, 3)
