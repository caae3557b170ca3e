"""Statistics of frames as LeRobot keeps them: of each episode, and of a dataset from those of its episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)  # LeRobot 0.4
Statistics: TypeAlias = Mapping[str, np.ndarray]
"""min, max, mean, std, count (1,), and q01 to q99: each of the shape of a feature, (3, 1, 1) of images."""


def of_numbers(values: np.ndarray) -> Statistics:
    """Of (T,) or (T, D) numbers, each (1,) or (D,)."""
    rows = np.asarray(values, np.float64).reshape(len(values), -1)
    quantiles = np.quantile(rows, QUANTILES, axis=0)
    found = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    found |= {_name(share): value for share, value in zip(QUANTILES, quantiles, strict=True)}
    return found | {"count": np.array([len(rows)])}


def of_images(frames: np.ndarray) -> Statistics:
    """Of (T, H, W, 3) uint8 images, each (3, 1, 1) in [0, 1] by channel."""
    levels = np.arange(256)
    counts = np.stack([np.bincount(frames[..., channel].ravel(), minlength=256) for channel in range(3)])
    shares = counts / counts.sum(1, keepdims=True)
    mean = shares @ levels
    found = {"mean": mean, "std": np.sqrt(np.maximum(shares @ levels**2 - mean**2, 0.0))}
    below = np.cumsum(shares, axis=1)
    found |= {"min": (counts > 0).argmax(1), "max": 255 - (counts[:, ::-1] > 0).argmax(1)}
    found |= {_name(share): (below >= share - 1e-9).argmax(1) for share in QUANTILES}
    scaled = {name: np.asarray(value, np.float64).reshape(3, 1, 1) / 255 for name, value in found.items()}
    return scaled | {"count": np.array([len(frames)])}


def pooled(parts: Sequence[Statistics]) -> Statistics:
    """Of several episodes together: exact but for quantiles, which are their means weighted by frames, as LeRobot's."""
    counts = np.array([int(part["count"][0]) for part in parts], np.float64)
    weights = (counts / counts.sum()).reshape(-1, *[1] * parts[0]["mean"].ndim)
    stacked = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    mean = (weights * stacked["mean"]).sum(0)
    variance = (weights * (stacked["std"] ** 2 + (stacked["mean"] - mean) ** 2)).sum(0)
    found = {"min": stacked["min"].min(0), "max": stacked["max"].max(0), "mean": mean, "std": np.sqrt(variance)}
    found |= {_name(share): (weights * stacked[_name(share)]).sum(0) for share in QUANTILES}
    return found | {"count": np.array([int(counts.sum())])}


def _name(share: float) -> str:
    return f"q{round(100 * share):02d}"
