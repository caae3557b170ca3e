"""Image encoder trained from scratch: a small convolutional network conditioned on the instruction (FiLM)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STRIDE = 16  # pixels between tokens


class Stage(nn.Module):
    """A strided convolution and a refining one, both scaled and shifted by a condition.

    FiLM (Perez et al. 2018); layer norm over the channels of each pixel, as in ConvNeXt (Liu et al. 2022).
    """

    def __init__(self, inputs: int, channels: int, condition: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(inputs, channels, 3, 2, 1)
        self.refine = nn.Conv2d(channels, channels, 3, 1, 1)
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.film = nn.Linear(condition, 2 * channels)
        nn.init.zeros_(self.film.weight)
        nn.init.zeros_(self.film.bias)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(B, channels, h / 2, w / 2) from (B, inputs, h, w) and (B, condition)."""
        x = F.relu(channel_norm(self.norm1, self.down(x)))
        scale, shift = self.film(condition)[..., None, None].chunk(2, 1)
        refined = torch.addcmul(shift, channel_norm(self.norm2, self.refine(x)), 1 + scale)
        return x + F.relu(refined)


class ImageEncoder(nn.Module):
    """A stem of stride 4 and two stages of stride 2: one token of `width` channels per 16 x 16 pixels."""

    def __init__(self, channels: Sequence[int], width: int, condition: int) -> None:
        """An encoder with `channels` after stem and stages, conditioned on a vector of length `condition`."""
        super().__init__()
        stem, middle, last = channels
        self.stem = nn.Conv2d(3, stem, 8, 4, 2)
        self.norm = nn.LayerNorm(stem)
        self.stages = nn.ModuleList([Stage(stem, middle, condition), Stage(middle, last, condition)])
        self.out = nn.Linear(last, width)

    def token_count(self, resolution: tuple[int, int]) -> int:
        """Tokens of an image of this (width, height) in pixels."""
        width, height = resolution
        return (width // STRIDE) * (height // STRIDE)

    def forward(self, pixels: Tensor, condition: Tensor) -> Tensor:
        """(B, tokens, width) from RGB (B, height, width, 3) uint8 and (B, condition)."""
        x = pixels.permute(0, 3, 1, 2).to(self.stem.weight.dtype).mul_(1 / 127.5).sub_(1.0)  # bytes to [-1, 1]
        x = F.relu(channel_norm(self.norm, self.stem(x)))
        for stage in self.stages:
            x = stage(x, condition)
        return self.out(x.flatten(2).transpose(1, 2))


def channel_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Layer norm of (B, channels, h, w) over the channels; the result is channels-last in memory."""
    return norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
