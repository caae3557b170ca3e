"""SVEA: SAC from images, whose critics learn from plain and augmented images alike; with saliency, SGQN."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from embodied.env.vec_env import CRITIC, ObservationSpec
from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, at_least
from policies.data.augmentation import of_each_camera, random_convolution, random_overlay, random_shift
from policies.data.replay_buffer import BufferDtype
from policies.networks.pixels import ImageEncoder, PixelActor, PixelCritics, PixelObservation
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import Sizes
from policies.off_policy.critics import BellmanUpdate, CriticUpdate, critic_loss
from policies.off_policy.sac import SACActorUpdate, SACConfig
from policies.pixel_policy import PixelGroups


class Augmentation(StrEnum):
    """Augmentation of images, on which Q-values should not depend."""

    NONE = "none"
    SHIFT = "shift"
    CONVOLUTION = "convolution"
    OVERLAY = "overlay"
    """With other images of the same batch."""

    @property
    def effect(self) -> Callable[[Tensor, Generator], Tensor]:
        """From images (B, 3, height, width) to as many."""
        return {
            Augmentation.NONE: lambda images, generator: images,
            Augmentation.SHIFT: random_shift,
            Augmentation.CONVOLUTION: random_convolution,
            Augmentation.OVERLAY: lambda images, generator: random_overlay(images, generator, images),
        }[self]


@dataclass(frozen=True)
class SVEAConfig(SACConfig):
    """SAC from images (SVEA, Hansen et al. 2021, arXiv:2107.00644); with `saliency`, SGQN (arXiv:2209.09203).

    Critics learn from plain and augmented images alike, with targets from plain ones; the policy acts on plain ones.
    Observations are not normalised.
    """

    features: Annotated[int, at_least(1)] = 50
    """Length of the encoder's output."""
    augmentation: Augmentation = Augmentation.CONVOLUTION
    """none, shift, convolution or overlay."""
    augmented_share: Annotated[float, FRACTION] = 0.5
    """Weight β of augmented images in the critics' loss."""
    saliency: bool = False
    """Whether critics also learn to rest on salient pixels alone, and the encoder to predict which these are (SGQN)."""
    saliency_share: Annotated[float, FRACTION] = 0.05
    """Share of an image's pixels that count as salient."""
    saliency_weight: Annotated[float, NOT_NEGATIVE] = 0.5
    """Weight of both saliency losses, beside the critics'."""
    normalize_observations: bool = False
    buffer_dtype: BufferDtype = BufferDtype.FLOAT16
    buffer_size: int = 50_000

    def groups(self, spec: Mapping[str, ObservationSpec]) -> PixelGroups:
        """A vector, and the images of all cameras.

        Raises:
            EmbodiedError: As of `PixelGroups.of`.
            ValueError: Critics are to read others than the actor.
        """
        groups = PixelGroups.of(spec)
        if self.critic_group not in (CRITIC, groups.critic) and self.critic_group in spec:
            raise ValueError(f"critic_group={self.critic_group}: these critics read what the policy does; leave it out")
        return groups

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        """An actor and critics that share an encoder."""
        assert sizes.image_shape is not None
        encoder = ImageEncoder(sizes.policy, sizes.image_shape, self.features, generator)
        actor = PixelActor(encoder, sizes.action, self.actor, stochastic=True, generator=generator)
        critics = PixelCritics(
            encoder, sizes.action, self.critics, self.critic,
            layer_norm=self.layer_norm, saliency=self.saliency, generator=generator,
        )  # fmt: skip
        update = SVEAUpdate(critics.to(sizes.device), self)
        return SACActorUpdate(actor.to(sizes.device), self), update


class SVEAUpdate(BellmanUpdate[PixelCritics]):
    """The Bellman update on plain and augmented images; targets are from plain ones."""

    def __init__(self, critics: PixelCritics, config: SVEAConfig) -> None:
        """Train critics, which are on the device by now."""
        super().__init__(
            critics, config.critic_optimizer(critics), clipped_double=config.clipped_double,
            target_critics=config.target_critics, policy_value=config.policy_value,
        )  # fmt: skip
        self.config = config

    def loss(
        self, obs: Any, action: Tensor, target: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """(1 - β) L(o) + β L(aug(o)) (Hansen et al., eq. 7), and the saliency losses."""
        config = self.config
        plain_alone = config.augmented_share == 0 or config.augmentation is Augmentation.NONE
        if plain_alone and not config.saliency:
            return super().loss(obs, action, target, generator)
        changed = self.augmented(obs, generator)
        if config.saliency:
            return self._loss_with_saliency(obs, changed, action, target)
        outputs = self.critic(obs, action)
        loss, augmented = self._mixed(outputs, self.critic(changed, action), target)
        return outputs, loss, {"augmented_loss": augmented.detach()}

    def _mixed(self, outputs: Tensor, of_changed: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The critics' loss on plain and augmented images, and the latter alone."""
        share, augmented = self.config.augmented_share, critic_loss(of_changed, target)
        return (1 - share) * critic_loss(outputs, target) + share * augmented, augmented

    def _loss_with_saliency(
        self, obs: PixelObservation, changed: PixelObservation, action: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Loss on plain and augmented images, squared distance from Q-values of salient pixels alone, and cross entropy
        of predicted salient pixels (SGQN, Bertoin et al.)."""
        obs = dataclasses.replace(obs, images=obs.images.detach().requires_grad_())
        outputs, (of_changed, predicted) = self.critic(obs, action), self.critic.with_saliency(changed, action)
        loss, augmented = self._mixed(outputs, of_changed, target)
        mask = salient(outputs, obs.images, self.config.saliency_share)
        masked = self.critic(dataclasses.replace(obs, images=obs.images.detach() * mask[:, None]), action)
        consistency = (outputs - masked).square().mean()
        prediction = functional.binary_cross_entropy_with_logits(predicted, mask)
        loss = loss + self.config.saliency_weight * (consistency + prediction)
        parts = {"augmented_loss": augmented, "consistency_loss": consistency, "saliency_loss": prediction}
        return outputs, loss, {name: value.detach() for name, value in parts.items()}

    def encoded(self, obs: PixelObservation) -> Tensor:
        """Encoded observations, for the actor and its Q-values: only the critics train the encoder."""
        with torch.no_grad():
            return self.critic.encoder(obs)

    def augmented(self, obs: PixelObservation, generator: Generator) -> PixelObservation:
        """Observations whose images, each camera's by itself, are augmented."""
        changed = of_each_camera(self.config.augmentation.effect, obs.images, generator)
        return dataclasses.replace(obs, images=changed.contiguous())  # shifted ones are channels last: other sums


def salient(values: Tensor, images: Tensor, share: float) -> Tensor:
    """Mask of the pixels on which Q-values depend most (Bertoin et al., eq. 2).

    Args:
        values: Q-values, of any shape, computed from `images`, and to be differentiated once more.
        images: (B, channels, height, width) that require a gradient.
        share: Of an image's pixels that are salient.

    Returns:
        (B, height, width) of 1 there and 0 elsewhere, without gradient.
    """
    (gradient,) = torch.autograd.grad(values.sum(), images, retain_graph=True)
    strength = gradient.abs().amax(1).flatten(1)
    count = max(round(share * strength.shape[1]), 1)
    mask = torch.zeros_like(strength).scatter_(1, strength.topk(count, 1).indices, 1.0)
    return mask.unflatten(1, images.shape[2:])
