"""One recorded episode: images, proprioception, instruction and actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np


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

    def __post_init__(self) -> None:
        lengths = {name: len(frames) for name, frames in self.images.items()}
        lengths |= {"state": len(self.state), "action": len(self.action)}
        if len(set(lengths.values())) != 1:
            said = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"parts of an episode differ in length: {said} steps")

    def __len__(self) -> int:
        """T."""
        return len(self.action)
