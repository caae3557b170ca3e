"""Actor and critics that see: perceptrons behind one encoder, which only the critics' loss teaches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.networks.ensemble import CriticEnsemble
from policies.networks.image_encoder import CHANNELS, ImageEncoder, ImageLayout
from policies.networks.mlp import NetworkConfig, linear
from policies.networks.squashed import SquashedActor
from policies.networks.structured_actor import Formed


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
    """A squashed actor of an encoder's features. The encoder is the critics', so it is stored but not learned here."""

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
        """An untaught one, with an encoder of its own."""
        layout = ImageLayout(form.own, form.channels, form.height, form.width)
        if layout.size != inputs:
            raise ValueError(f"images and own numbers are {layout.size}, the observation {inputs}")
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
    """Critics of an encoder's features, and, with `saliency`, a guess at which pixels matter to them."""

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
        self.guess = linear(CHANNELS, 1, 1.0, generator) if saliency else None

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B, size) and (B, A) to (E, B, outputs)."""
        return super().forward(self.encoder(obs), action)

    def guessed(self, obs: Tensor) -> Tensor:
        """Logits of which pixels matter, (B, height, width), as coarse as what convolutions see."""
        assert self.guess is not None
        layout = self.encoder.layout
        maps = self.encoder.maps(layout.split(obs)[1])
        coarse = self.guess(maps.movedim(1, -1)).movedim(-1, 1)
        return functional.interpolate(coarse, (layout.height, layout.width))[:, 0]
