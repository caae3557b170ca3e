"""One recorded episode: what cameras and joints saw, what was said and what was done."""

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
    """What the robot was told."""
    images: Mapping[str, np.ndarray]
    """Camera -> (T, H, W, 3) uint8 RGB, each taken before the action of its step."""
    state: np.ndarray
    """(T, S) float32, the observation group `proprio`: what a robot knows of itself, in the task's units."""
    action: np.ndarray
    """(T, A) float32 in [-1, 1], what the demonstrator meant to do, without the noise it was disturbed by."""
    success: bool
    """Whether the task was solved at any step."""
    seed: int | None = None
    """Of the environment that it was recorded in; None where it was not recorded here."""

    def __post_init__(self) -> None:
        """Check that all parts are as long.

        Raises:
            ValueError: They are not; says how long each is.
        """
        lengths = {name: len(frames) for name, frames in self.images.items()}
        lengths |= {"state": len(self.state), "action": len(self.action)}
        if len(set(lengths.values())) != 1:
            said = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"parts of an episode differ in length: {said} steps")

    def __len__(self) -> int:
        """T."""
        return len(self.action)
