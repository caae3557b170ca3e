"""Pointing: heat maps of where in each image the things are that an instruction is about.

Large policies are co-trained to localise objects (pi0.5, Black et al. 2025); CLIPort (Shridhar et al. 2021) picks the
maximum of a heat map conditioned on words. Labels come from a simulation (`Episode.keypoints`); a policy that acts gets
no positions from it. The pointer is a network of its own, so it fits beside any image encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from policies.vla.model.image_encoder import channel_norm

STRIDE = 4  # pixels between cells of a heat map
CHANNELS = 32  # of the network's layers
DILATIONS = (1, 2)  # of its 3 x 3 convolutions: a cell sees 32 pixels around it


class Layer(nn.Module):
    """A residual 3 x 3 convolution, scaled and shifted by a condition (FiLM, Perez et al. 2018)."""

    def __init__(self, dilation: int, condition: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(CHANNELS, CHANNELS, 3, 1, dilation, dilation)
        self.norm, self.film = nn.LayerNorm(CHANNELS), nn.Linear(condition, 2 * CHANNELS)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(B, CHANNELS, h, w) from the same and (B, condition)."""
        scale, shift = self.film(condition)[..., None, None].chunk(2, 1)
        return x + F.relu(torch.addcmul(shift, channel_norm(self.norm, self.convolution(x)), 1 + scale))


class Pointer(nn.Module):
    """A convolutional network from an image and an instruction to a heat map for each of `points` things.

    A heat map is a distribution over the cells of the image, 4 x 4 pixels each, and one more place: not in the image.
    """

    def __init__(self, points: int, condition: int) -> None:
        """A pointer at `points` things, conditioned on a vector of length `condition`."""
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 2 * STRIDE, STRIDE, STRIDE // 2)
        self.norm = nn.LayerNorm(CHANNELS)
        self.layers = nn.ModuleList(Layer(dilation, condition) for dilation in DILATIONS)
        self.maps = nn.Conv2d(CHANNELS, points, 1)
        self.nowhere = nn.Linear(CHANNELS, points)

    def forward(self, pixels: Tensor, condition: Tensor) -> Tensor:
        """(B, points, cells + 1) logits, row by row, of images (B, height, width, 3) uint8 and their conditions.

        The last is that it is not in the image.
        """
        x = pixels.permute(0, 3, 1, 2).to(self.stem.weight.dtype).mul_(1 / 127.5).sub_(1.0)  # bytes to [-1, 1]
        x = F.relu(channel_norm(self.norm, self.stem(x)))
        for layer in self.layers:
            x = layer(x, condition)
        return torch.cat([self.maps(x).flatten(2), self.nowhere(x.mean((2, 3)))[..., None]], -1)


def cells(resolution: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the heat map of an image of this (width, height) in pixels."""
    width, height = resolution
    return height // STRIDE, width // STRIDE


def places(heat_maps: Tensor, resolution: tuple[int, int]) -> Tensor:
    """(..., 3) of heat maps (..., cells + 1): the expected column and row in [-1, 1], and the share in the image."""
    rows, columns = cells(resolution)
    shares = heat_maps.float().softmax(-1)
    seen = shares[..., :-1].unflatten(-1, (rows, columns))
    inside = seen.sum((-1, -2))
    across, down = (torch.linspace(1 / n - 1, 1 - 1 / n, n, device=seen.device) for n in (columns, rows))
    place = torch.stack([(seen.sum(-2) * across).sum(-1), (seen.sum(-1) * down).sum(-1)], -1)
    return torch.cat([place / inside.clamp(min=1e-3)[..., None], inside[..., None]], -1)


def pointing_loss(heat_maps: Tensor, keypoints: Tensor, resolution: tuple[int, int]) -> Tensor:
    """() nats, the cross-entropy of heat maps (..., cells + 1) to where things are (..., 2): column and row as shares
    of the image, outside of 0 to 1 nowhere. A place between the centres of four cells is shared out among them, so
    that the expected place is exact."""
    rows, columns = cells(resolution)
    logs = heat_maps.float().log_softmax(-1)
    inside = ((keypoints >= 0) & (keypoints < 1)).all(-1)
    place = keypoints * torch.tensor([columns, rows], device=keypoints.device) - 0.5
    low = place.floor()
    share = place - low
    total = torch.zeros_like(inside, dtype=logs.dtype)
    for right in (0, 1):
        for down in (0, 1):
            column = (low[..., 0] + right).clamp(0, columns - 1)
            row = (low[..., 1] + down).clamp(0, rows - 1)
            weight = (share[..., 0] if right else 1 - share[..., 0]) * (share[..., 1] if down else 1 - share[..., 1])
            cell = (row * columns + column).long().clamp(0, rows * columns - 1)
            total = total - weight * logs.gather(-1, cell[..., None])[..., 0]
    return torch.where(inside, total, -logs[..., -1]).mean()
