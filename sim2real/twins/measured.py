"""What a robot's state was at some time, from the measurements around it."""

from __future__ import annotations

import numpy as np

from sim2real.identification.parameters import CalibrationError
from sim2real.logs.log import Channel

AROUND = 0.015  # s before and after: a motion of 10 Hz is a cubic that long
ROWS = 4  # at least on either side, where a channel is slower than that


def value_and_slope(value: Channel, slope: Channel | None, names: tuple[str, ...], time: float) -> np.ndarray:
    """(2, k) value and slope at `time` of the cubic that fits a quantity and its derivative around it best.

    Over the time that the cubic's argument is scaled by, an error of the derivative weighs like one of the value.

    Raises:
        CalibrationError: there are too few measurements.
    """
    width = max(AROUND, ROWS / value.rate) if value.rate else AROUND
    rows, right = [], []
    for channel, basis, scale in ((value, _cubic, 1.0), (slope, _cubic_slope, width)):
        if channel is not None:
            near = channel.between(time - width - 1e-9, time + width + 1e-9)
            rows.append(basis((near.time - time) / width))
            right.append(near.columns(names) * scale)
    basis, measured = np.concatenate(rows), np.concatenate(right)
    if len(basis) < 4:
        raise CalibrationError(f"the log has {len(basis)} measurements within {width:.3g} s of {time:.3f} s; 4 needed")
    solution = np.linalg.lstsq(basis, measured, rcond=None)[0]
    return np.stack([solution[0], solution[1] / width])


def _cubic(t: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(t), t, t**2, t**3], 1)


def _cubic_slope(t: np.ndarray) -> np.ndarray:
    return np.stack([np.zeros_like(t), np.ones_like(t), 2 * t, 3 * t**2], 1)
