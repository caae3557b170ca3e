"""Actor and critics from images: MLPs behind one convolutional encoder, which only the critics' loss trains.

An observation is a vector: the robot's proprioception first, then the images' pixels in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import HIDDEN_GAIN, NetworkConfig, linear
from policies.networks.squashed import SquashedActor
from policies.networks.structured_actor import Formed

CHANNELS = 32  # of every convolution, as DrQ's (Kostrikov et al. 2021)
LAYERS = 3  # of stride 2; DrQ has four, of which only the first has a stride, for images of 84 by 84


@dataclass(frozen=True)
class ImageLayout:
    """Layout of an observation of `own` + channels x height x width numbers."""

    own: int
    """Numbers of proprioception before the images."""
    channels: int
    """Three for each camera."""
    height: int
    width: int

    @property
    def size(self) -> int:
        """Length of the observation."""
        return self.own + self.channels * self.height * self.width

    def split(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, size) to proprioception (B, own) and images (B, channels, height, width)."""
        images = obs[:, self.own :].unflatten(-1, (self.channels, self.height, self.width))
        return obs[:, : self.own], images

    def joined(self, own: Tensor, images: Tensor) -> Tensor:
        """The inverse of `split`."""
        return torch.cat([own, images.flatten(1)], -1)


class ImageEncoder(nn.Module):
    """Three convolutions and a layer of `features` bounded by tanh; proprioception is concatenated."""

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
        """Feature maps: (B, channels, height, width) to (B, CHANNELS, height / 8, width / 8)."""
        return self.convolutions(images - 0.5)


@dataclass(frozen=True)
class PixelForm:
    """Numbers that describe a `PixelActor`."""

    own: int
    channels: int
    height: int
    width: int
    features: int
    stochastic: bool


class PixelActor(Formed, SquashedActor):
    """A squashed actor on the critics' encoder, which is stored with the actor but not trained by its loss."""

    kind = "squashed-pixels"
    form_type = PixelForm

    def __init__(
        self,
        encoder: ImageEncoder,
        actions: int,
        config: NetworkConfig,
        *,
        stochastic: bool,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(encoder.outputs, actions, config, stochastic=stochastic, generator=generator)
        self.encoder = encoder
        self.form = PixelForm(**asdict(encoder.layout), features=encoder.features, stochastic=stochastic)

    @classmethod
    def build(cls, inputs: int, actions: int, config: NetworkConfig, form: PixelForm) -> PixelActor:
        """An untrained one, with an encoder of its own."""
        layout = ImageLayout(form.own, form.channels, form.height, form.width)
        if layout.size != inputs:
            raise ValueError(f"images and proprioception have {layout.size}, the observation {inputs}")
        return cls(ImageEncoder(layout, form.features), actions, config, stochastic=form.stochastic)

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of the observation, images included, and of the action."""
        return self.encoder.layout.size, super().sizes[1]

    def learned_parameters(self) -> Iterable[nn.Parameter]:
        """All but the encoder's."""
        return (value for name, value in self.named_parameters() if not name.startswith("encoder."))

    def forward(self, obs: Tensor) -> Tensor:
        """The most likely action: (N, size) to (N, A)."""
        return super().forward(self.encoder(obs).detach())

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """μ and log σ, (N, A) each."""
        return super().distribution(self.encoder(obs).detach())


class PixelCritics(CriticEnsemble):
    """Critics on an encoder, and, with `saliency`, a head that predicts salient pixels."""

    def __init__(
        self,
        encoder: ImageEncoder,
        actions: int,
        count: int,
        outputs: int,
        config: NetworkConfig,
        *,
        layer_norm: bool,
        saliency: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__(count, encoder.outputs + actions, outputs, config, layer_norm=layer_norm, generator=generator)
        self.encoder = encoder
        self.saliency = linear(CHANNELS, 1, 1.0, generator) if saliency else None

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B, size) and (B, A) to (E, B, outputs)."""
        return super().forward(self.encoder(obs), action)

    def predicted_saliency(self, obs: Tensor) -> Tensor:
        """Logits (B, height, width) of salient pixels, as coarse as the feature maps."""
        assert self.saliency is not None
        layout = self.encoder.layout
        maps = self.encoder.maps(layout.split(obs)[1])
        coarse = self.saliency(maps.movedim(1, -1)).movedim(-1, 1)
        return functional.interpolate(coarse, (layout.height, layout.width))[:, 0]


def _convolution(inputs: int, generator: torch.Generator | None) -> nn.Conv2d:
    """3 x 3, stride 2; orthogonal weights, zero biases, drawn from `generator` alone."""
    layer = nn.Conv2d(inputs, CHANNELS, 3, stride=2, padding=1, device="meta")
    weight = nn.init.orthogonal_(torch.empty(CHANNELS, inputs * 9), HIDDEN_GAIN, generator=generator)
    layer.weight = nn.Parameter(weight.view(CHANNELS, inputs, 3, 3))
    layer.bias = nn.Parameter(torch.zeros(CHANNELS))
    return layer
