"""Pictures as they might have been: what is drawn anew for every batch."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Augmentation(Protocol):
    """Changes pictures at random, each on its own."""

    def __call__(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """(B, cameras, height, width, 3) uint8 of the same kind."""
        ...


@dataclasses.dataclass(frozen=True)
class RandomShift:
    """Moves pictures by up to `pixels` each way, and repeats their edges (DrQ-v2, Yarats et al. 2021)."""

    pixels: int = 4

    def __call__(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """(B, cameras, height, width, 3) uint8."""
        if not self.pixels:
            return pixels
        height, width = pixels.shape[2:4]
        flat, edge = pixels.flatten(0, 1).numpy(), self.pixels
        padded = np.pad(flat, ((0, 0), (edge, edge), (edge, edge), (0, 0)), mode="edge")
        moves = torch.randint(2 * edge + 1, (len(flat), 2), generator=generator).tolist()
        moved = np.empty_like(flat)
        for number, (y, x) in enumerate(moves):
            moved[number] = padded[number, y : y + height, x : x + width]
        return torch.from_numpy(moved).view(pixels.shape)
