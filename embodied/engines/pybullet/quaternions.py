"""Quaternions in double precision with MuJoCo's own functions, one at a time, and in Bullet's order."""

from __future__ import annotations

import mujoco
import numpy as np


def turned(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """`vector` (3,) turned by a quaternion wxyz from body to world."""
    result = np.zeros(3)
    mujoco.mju_rotVecQuat(result, np.asarray(vector, float), np.asarray(quat, float))
    return result


def composed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The rotation `b` followed by `a`, (4,) wxyz."""
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, np.asarray(a, float), np.asarray(b, float))
    return result


def conjugate(quat: np.ndarray) -> np.ndarray:
    """The inverse rotation, (4,) wxyz."""
    return quat * np.array([1.0, -1.0, -1.0, -1.0])


def wxyz_from_xyzw(quat: np.ndarray) -> np.ndarray:
    """Bullet's order of quaternions to MuJoCo's, (..., 4)."""
    return np.asarray(quat, float)[..., [3, 0, 1, 2]]


def xyzw_from_wxyz(quat: np.ndarray) -> np.ndarray:
    """MuJoCo's order of quaternions to Bullet's, (..., 4)."""
    return np.asarray(quat, float)[..., [1, 2, 3, 0]]
