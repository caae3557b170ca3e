"""DAgger from pictures: an expert that knows where everything is teaches a policy that has to see it.

A teacher with privileged states and a student with sensors, as in "Learning by Cheating" (Chen et al. 2019,
arXiv:1912.12294).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from embodied.env.vec_env import ObservationSpec
from policies.data.augmentation import of_each_camera, random_convolution
from policies.imitation.dagger import Answers, Dagger
from policies.imitation.dagger_config import PixelDaggerConfig
from policies.networks.pixels import ImageEncoder, PixelActor, PixelObservation
from policies.networks.recurrent import Sequences
from policies.pixel_policy import NormalizedPixelActor, PixelGroups, PixelPolicy
from policies.policy import Policy


@dataclass(frozen=True)
class SeenAnswers(Answers):
    """Answers of the expert, with the images of the cameras."""

    images: Tensor
    """(blocks, T, N, channels, height, width) uint8, three channels for each camera."""


class PixelDagger(Dagger):
    """Dagger whose policy reads images and the numbers beside them; the encoder is trained by imitation, too."""

    config: PixelDaggerConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, observation_spec: Mapping[str, ObservationSpec], *given: Any, **options: Any) -> None:
        """Build networks and buffer; arguments as of `policies.registry.Build`.

        Raises:
            EmbodiedError: As of `PixelGroups.of`.
        """
        self.groups = PixelGroups.of(observation_spec)
        self.group = self.groups.actor
        super().__init__(observation_spec, *given, **options)
        place = self._kept.begins.shape
        images = torch.zeros(*place, *self.groups.image_shape, dtype=torch.uint8, device=self.device)
        self._kept = SeenAnswers(**self._kept.tensors(), images=images)

    def _make_actor(self, observation_size: int, action_size: int, generator: Generator) -> nn.Module:
        encoder = ImageEncoder(observation_size, self.groups.image_shape, self.config.features, generator)
        return PixelActor(encoder, action_size, self.config.actor, stochastic=False, generator=generator)

    def _learned_parameters(self) -> Iterable[nn.Parameter]:
        return self.actor.parameters()

    @property
    def policy(self) -> Policy:
        return PixelPolicy(NormalizedPixelActor.of(self.actor, self.normalizer), self.config.actor, self.groups)

    def _keep(self, obs: Mapping[str, Tensor], told: Tensor) -> None:
        self._kept.images[self._place] = self.groups.stacked(obs)
        super()._keep(obs, told)

    def _batch(self) -> tuple[PixelObservation, Tensor, None]:
        """Observations of B steps and the expert's actions there (B, A)."""
        kept = self._kept.first(self._blocks)
        rows = self._drawn(kept.begins.numel(), self.config.batch_size)
        vector, action, images = (values.flatten(0, 2)[rows] for values in (kept.obs, kept.action, kept.images))
        return PixelObservation(self.normalizer(vector), self._augmented(images.float() / 255)), action, None

    def _augmented(self, images: Tensor) -> Tensor:
        """(B, channels, height, width) of a batch, of which the config's share looks otherwise."""
        count = round(self.config.augmented_share * len(images))
        if not count:
            return images
        changed = of_each_camera(random_convolution, images[:count], self._generator)
        return torch.cat([changed, images[count:]])

    def _imitation(self, obs: PixelObservation, sequences: Sequences | None) -> Tensor:
        return self.actor.mean(self.actor.encoder(obs)).tanh()
