"""What convolutions make of images in an observation: numbers of the robot's own come first, pixels in [0, 1] after."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from policies.networks.mlp import HIDDEN_GAIN, linear

CHANNELS = 32  # of every convolution, as DrQ's (Kostrikov et al. 2021)
LAYERS = 3  # each halves the picture; DrQ has four, of which only the first does, for pictures of 84 by 84


@dataclass(frozen=True)
class ImageLayout:
    """Where an observation of `own` + channels x height x width numbers has its images."""

    own: int
    """Numbers before the images."""
    channels: int
    """Three for each camera."""
    height: int
    width: int

    @property
    def size(self) -> int:
        """Length of the observation."""
        return self.own + self.channels * self.height * self.width

    def split(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, size) to the robot's own numbers (B, own), and images (B, channels, height, width)."""
        images = obs[:, self.own :].unflatten(-1, (self.channels, self.height, self.width))
        return obs[:, : self.own], images

    def joined(self, own: Tensor, images: Tensor) -> Tensor:
        """The observation of which `split` makes these."""
        return torch.cat([own, images.flatten(1)], -1)


class ImageEncoder(nn.Module):
    """Three convolutions and a bounded layer of `features`; the robot's own numbers pass by."""

    def __init__(self, layout: ImageLayout, features: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.layout, self.features = layout, features
        inputs = (layout.channels, *[CHANNELS] * (LAYERS - 1))
        layers = [(_convolution(size, generator), nn.ReLU()) for size in inputs]
        self.convolutions = nn.Sequential(*(part for layer in layers for part in layer))
        flat = CHANNELS * math.prod(-(-side // 2**LAYERS) for side in (layout.height, layout.width))
        self.project = linear(flat, features, 1.0, generator)
        self.norm = nn.LayerNorm(features)
        self.outputs = layout.own + features

    def forward(self, obs: Tensor) -> Tensor:
        """(B, size) to (B, own + features)."""
        own, images = self.layout.split(obs)
        return torch.cat([own, self.norm(self.project(self.maps(images).flatten(1))).tanh()], -1)

    def maps(self, images: Tensor) -> Tensor:
        """(B, channels, height, width) to what convolutions see, (B, CHANNELS, height / 8, width / 8)."""
        return self.convolutions(images - 0.5)


def _convolution(inputs: int, generator: torch.Generator | None) -> nn.Conv2d:
    """Three by three, halves both sides (rounded up); orthogonal weights, zero biases, drawn from `generator` alone."""
    layer = nn.Conv2d(inputs, CHANNELS, 3, stride=2, padding=1, device="meta")
    weight = nn.init.orthogonal_(torch.empty(CHANNELS, inputs * 9), HIDDEN_GAIN, generator=generator)
    layer.weight = nn.Parameter(weight.view(CHANNELS, inputs, 3, 3))
    layer.bias = nn.Parameter(torch.zeros(CHANNELS))
    return layer
