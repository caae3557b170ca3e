"""`CameraConfig`: which cameras are observed, and how. Without JAX and torch, for the flags of commands."""

from __future__ import annotations

import dataclasses
from typing import Any

from embodied.errors import EmbodiedError, whole_number
from embodied.storage.configs import Rare, Switched, Unflagged

MOST_PIXELS = 1 << 14  # of a side: what OpenGL draws at once


@dataclasses.dataclass(frozen=True)
class CameraConfig(Switched):
    """The cameras that are observed, each as a group `pixels/<camera>` of (N, 3, height, width) uint8."""

    cameras: tuple[str, ...] = ()
    """Cameras of the task whose pictures are observed, by their names."""
    resolution: Rare[int | tuple[int, int]] = 64
    """With --cameras: pixels of both sides, or width and height."""
    visual_shift: Rare[str | None] = None
    """With --cameras: how looks differ between episodes from what the task shows: colours, camera (by 5 cm), lights, or
    all (see `embodied.rendering.visual_randomization`)."""
    visual_terms: Unflagged[tuple[Any, ...]] = ()
    """Visual randomisation by single terms, drawn anew for every episode."""
    shadows: Unflagged[bool] = False
    """Whether lights cast shadows, which takes about twice the time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sides = self.resolution if isinstance(self.resolution, tuple | list) else (self.resolution,) * 2
        if len(sides) != 2:
            raise EmbodiedError(f"resolution={self.resolution}; expected pixels of both sides, or width and height")
        for side in sides:
            if whole_number("resolution", side, 1) > MOST_PIXELS:
                raise EmbodiedError(f"resolution={side}; expected at most {MOST_PIXELS} pixels of a side")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return (self.resolution, self.resolution) if isinstance(self.resolution, int) else self.resolution
