"""What JPEG's loss does to pictures, on any device, without a file."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

LUMINANCE_TABLE = (
    (16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55), (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62), (18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101), (72, 92, 95, 98, 112, 100, 103, 99),
)  # fmt: skip
"""Steps of quantisation at quality 50: ITU-T T.81, table K.1."""
CHROMINANCE_TABLE = (
    (17, 18, 24, 47, 99, 99, 99, 99), (18, 21, 26, 66, 99, 99, 99, 99), (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99), *(((99,) * 8,) * 4),
)  # fmt: skip
"""Table K.2."""
YCBCR = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
"""From red, green, blue: ITU-T T.871."""


@functools.cache
def cosines() -> np.ndarray:
    """(8, 8) orthonormal discrete cosine transform: ITU-T T.81, A.3.3."""
    number = np.arange(8)
    basis = np.cos((2 * number + 1) * number[:, None] * math.pi / 16) / 2
    basis[0] /= math.sqrt(2)
    return basis


def steps_of(quality: float) -> np.ndarray:
    """(2, 8, 8) steps for brightness and for colour, of 255, at a quality from 1 to 100."""
    percent = 5000 / quality if quality < 50 else 200 - 2 * quality
    tables = np.array([LUMINANCE_TABLE, CHROMINANCE_TABLE], float)
    return np.clip(np.floor((tables * percent + 50) / 100), 1, 255)


def lossy(x: Tensor, steps: Tensor) -> Tensor:
    """Images (N, 3, H, W) in [0, 1]: colours at half resolution, cosine coefficients rounded to steps (N, 2, 8, 8)."""
    h, w = x.shape[2:]
    matrix = x.new_tensor(YCBCR)
    padded = functional.pad(x, (0, -w % 16, 0, -h % 16), mode="replicate") * 255
    y, cb, cr = torch.einsum("ij,njhw->nihw", matrix, padded).split(1, 1)
    brightness = blockwise(y - 128, steps[:, 0]) + 128
    colours = [
        functional.interpolate(
            blockwise(functional.avg_pool2d(part, 2), steps[:, 1]),
            scale_factor=2, mode="bilinear", align_corners=False,
        )
        for part in (cb, cr)
    ]  # fmt: skip
    back = torch.linalg.inv(matrix.double()).to(x.dtype)
    rgb = torch.einsum("ij,njhw->nihw", back, torch.cat([brightness, *colours], 1))
    return rgb[:, :, :h, :w] / 255


def blockwise(x: Tensor, steps: Tensor) -> Tensor:
    """Round the cosine coefficients of each 8 by 8 block of (N, 1, H, W) to multiples of steps (N, 8, 8)."""
    n, _, h, w = x.shape
    basis = torch.from_numpy(cosines()).to(x.device, x.dtype)
    blocks = x.reshape(n, h // 8, 8, w // 8, 8).transpose(2, 3)
    coefficients = basis @ blocks @ basis.T
    steps = steps[:, None, None]
    rounded = (coefficients / steps).round() * steps
    return (basis.T @ rounded @ basis).transpose(2, 3).reshape(n, 1, h, w)
