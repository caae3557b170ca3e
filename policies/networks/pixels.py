"""Actor and critics from images: MLPs behind one convolutional encoder, which only the critics' loss trains."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import HIDDEN_GAIN, NetworkConfig, linear, orthogonal
from policies.networks.optim.cpu_settings import rounds_products
from policies.networks.squashed import SquashedActor

CHANNELS = 32  # of every convolution, as DrQ's (Kostrikov et al. 2021)
LAYERS = 3  # of stride 2; DrQ has four, of which only the first has a stride, for images of 84 by 84


@dataclass(frozen=True)
class PixelObservation:
    """Observation of the networks here: numbers, and the images of all cameras stacked."""

    vector: Tensor
    """(B, size) float32, normalised where the algorithm normalises."""
    images: Tensor
    """(B, channels, height, width) float32 in [0, 1], three channels for each camera."""


class ImageEncoder(nn.Module):
    """Three convolutions and a layer of `features` bounded by tanh; the vector is concatenated."""

    def __init__(
        self,
        vector_size: int,
        image_shape: tuple[int, int, int],
        features: int,
        generator: Generator | None = None,
    ) -> None:
        """Build it for vectors of a size and stacked images of a shape, (channels, height, width)."""
        super().__init__()
        self.vector_size, self.image_shape, self.features = vector_size, image_shape, features
        channels, height, width = image_shape
        inputs = (channels, *[CHANNELS] * (LAYERS - 1))
        layers = [(_convolution(size, generator), nn.ReLU(inplace=True)) for size in inputs]
        self.convolutions = nn.Sequential(*(part for layer in layers for part in layer))
        flat = CHANNELS * math.prod(-(-side // 2**LAYERS) for side in (height, width))
        self.project = linear(flat, features, 1.0, generator)
        self.norm = nn.LayerNorm(features)
        self.outputs = vector_size + features

    def forward(self, obs: PixelObservation | Tensor) -> Tensor:
        """(B, vector_size + features); what was encoded before stays what it is."""
        return obs if isinstance(obs, Tensor) else self.summary(self.maps(obs.images), obs.vector)

    def summary(self, maps: Tensor, vector: Tensor) -> Tensor:
        """(B, vector_size + features) of feature maps and vectors."""
        return torch.cat([vector, self.norm(self.project(maps.flatten(1))).tanh()], -1)

    def maps(self, images: Tensor) -> Tensor:
        """Feature maps: (B, channels, height, width) to (B, CHANNELS, height / 8, width / 8)."""
        centred = images - 0.5
        if not rounds_products():
            return self.convolutions(centred)
        with torch.autocast(images.device.type, torch.bfloat16):  # which is fast where channels are last
            return self.convolutions(centred.contiguous(memory_format=torch.channels_last)).float()


class PixelActor(SquashedActor):
    """A squashed actor on the critics' encoder, which is stored with the actor but not trained by its loss.

    Its observations are `PixelObservation`s.
    """

    def __init__(
        self,
        encoder: ImageEncoder,
        actions: int,
        config: NetworkConfig,
        *,
        stochastic: bool,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(encoder.outputs, actions, config, stochastic=stochastic, generator=generator)
        self.encoder = encoder

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of the vector beside the images, and of the action."""
        return self.encoder.vector_size, super().sizes[1]

    def learned_parameters(self) -> Iterable[nn.Parameter]:
        """All but the encoder's."""
        return (value for name, value in self.named_parameters() if not name.startswith("encoder."))

    def forward(self, obs: Any) -> Tensor:
        """The most likely action, (N, A)."""
        return super().forward(self.encoder(obs).detach())

    def distribution(self, obs: Any) -> tuple[Tensor, Tensor]:
        """μ and log σ, (N, A) each."""
        return super().distribution(self.encoder(obs).detach())


class PixelCritics(CriticEnsemble):
    """Critics on an encoder, and, with `saliency`, a head that predicts salient pixels."""

    def __init__(
        self,
        encoder: ImageEncoder,
        actions: int,
        count: int,
        config: NetworkConfig,
        *,
        layer_norm: bool,
        saliency: bool,
        generator: Generator,
    ) -> None:
        super().__init__(count, encoder.outputs + actions, 1, config, layer_norm=layer_norm, generator=generator)
        self.encoder = encoder
        self.saliency = linear(CHANNELS, 1, 1.0, generator) if saliency else None

    def forward(self, obs: Any, action: Tensor) -> Tensor:
        """A `PixelObservation` of B rows and (B, A) to (E, B, 1)."""
        return super().forward(self.encoder(obs), action)

    def with_saliency(self, obs: PixelObservation, action: Tensor) -> tuple[Tensor, Tensor]:
        """Q-values (E, B, 1), and logits (B, height, width) of salient pixels, as coarse as the feature maps."""
        assert self.saliency is not None
        maps = self.encoder.maps(obs.images)
        coarse = self.saliency(maps.movedim(1, -1)).movedim(-1, 1)
        logits = functional.interpolate(coarse, self.encoder.image_shape[1:])[:, 0]
        return super().forward(self.encoder.summary(maps, obs.vector), action), logits


def _convolution(inputs: int, generator: Generator | None) -> nn.Conv2d:
    """3 x 3, stride 2; orthogonal weights, zero biases, drawn from `generator` alone."""
    layer = nn.Conv2d(inputs, CHANNELS, 3, stride=2, padding=1, device="meta")
    weight = orthogonal((CHANNELS, inputs * 9), HIDDEN_GAIN, generator)
    layer.weight = nn.Parameter(weight.view(CHANNELS, inputs, 3, 3))
    layer.bias = nn.Parameter(torch.zeros(CHANNELS))
    return layer
