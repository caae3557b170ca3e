"""One recorded episode: images, proprioception, instruction and actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from embodied.storage.datasets.layout import ACTION, KEYPOINTS, STATE


@dataclasses.dataclass(frozen=True, eq=False)
class Episode:
    """T control steps of one robot."""

    task: str
    """Registered name of the task."""
    instruction: str
    images: Mapping[str, np.ndarray]
    """Camera -> (T, H, W, 3) uint8 RGB, each taken before the action of its step."""
    state: np.ndarray
    """(T, S) float32, the observation group `proprio`, in the task's units."""
    action: np.ndarray
    """(T, A) float32 in [-1, 1], the demonstrator's action, without the noise that was added to it."""
    success: bool
    """At any step."""
    seed: int | None = None
    """Of the recording environments; None if another program recorded it."""
    keypoints: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Camera -> (T, 2 K) float32: column and row, normalised (0 to 1 from the upper left corner), where it sees each
    of the K `Pictures.keypoints`; outside of 0 to 1 it does not. Empty: not recorded."""

    def __post_init__(self) -> None:
        lengths = {name: len(frames) for name, frames in self.images.items()}
        lengths |= {name.removeprefix("observation."): len(rows) for name, rows in self.vectors.items()}
        if len(set(lengths.values())) != 1:
            said = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"parts of an episode differ in length: {said} steps")

    @property
    def vectors(self) -> dict[str, np.ndarray]:
        """Feature of the dataset format -> (T, D) float32."""
        seen = {KEYPOINTS + camera: rows for camera, rows in self.keypoints.items()}
        return {STATE: self.state, ACTION: self.action, **seen}

    def __len__(self) -> int:
        """T."""
        return len(self.action)
