"""Settings of soft actor-critic from images that are augmented."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Generator, Tensor
from torch.nn import functional

from embodied.rendering.augmentation import random_convolution, random_overlay, random_shift
from policies.networks.image_encoder import ImageEncoder, ImageLayout
from policies.networks.pixel_actor_critic import PixelActor, PixelCritics
from policies.networks.value_heads import ValueHead
from policies.off_policy.actor_critics import SACConfig
from policies.off_policy.config import require
from policies.off_policy.critics import ValueLearner, make_head
from policies.off_policy.replay_buffer import Storage
from policies.off_policy.sizes import Extent
from policies.off_policy.update_rules import UpdateRule, make_rule


class Augmentation(StrEnum):
    """What is done to images of which values should not depend."""

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

    Critics learn from plain and augmented images alike, to targets of plain ones; the policy acts on plain ones.
    Observations are laid out by `embodied.env.pixels`; statistics of pixels would say little, so there are none.
    """

    image_shape: tuple[int, int, int] = (3, 64, 64)
    """Channels, three for each camera, height and width of the images at the end of an observation."""
    features: int = 50
    """Numbers that are made of them."""
    augmentation: Augmentation = Augmentation.CONVOLUTION
    """none, shift, convolution or overlay."""
    augmented_share: float = 0.5
    """Of the critics' loss."""
    saliency: bool = False
    """Whether values should also rest on the few pixels that they depend on the most, and features tell which."""
    saliency_share: float = 0.05
    """How many pixels those are, of all."""
    saliency_weight: float = 0.5
    """Of both of its losses, beside the critics'."""
    normalize_observations: bool = False
    storage: Storage = Storage.HALF
    buffer_size: int = 50_000

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        channels, height, width = self.image_shape
        fits = channels % 3 == 0 and min(self.image_shape) > 0
        require(fits, "image_shape", (channels, height, width), "channels, a multiple of 3, height and width")
        require(self.features >= 1, "features", self.features, "at least 1")
        for name in ("augmented_share", "saliency_share"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        require(self.saliency_weight >= 0, "saliency_weight", self.saliency_weight, "0 or more")


class AugmentedValues(ValueLearner[PixelCritics]):
    """Learns values of plain and of augmented images; targets are those of plain ones, as of any other learner."""

    config: SVEAConfig

    def __init__(self, critics: PixelCritics, head: ValueHead, config: SVEAConfig) -> None:
        """Teach critics that see."""
        super().__init__(critics, head, config)
        self._layout = critics.encoder.layout

    def loss(
        self, obs: Tensor, action: Tensor, target: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """(1 - β) L(o) + β L(aug(o)) (Hansen et al., eq. 7), and what saliency adds."""
        config, changed = self.config, self.augmented(obs, generator)
        outputs = self.critic(obs, action)
        plain, augmented = self.head.loss(outputs, target), self.head.loss(self.critic(changed, action), target)
        loss = (1 - config.augmented_share) * plain + config.augmented_share * augmented
        measures = {"augmented_loss": augmented.detach()}
        if config.saliency:
            consistency, guess = self._saliency_losses(obs, changed, action, outputs)
            loss = loss + config.saliency_weight * (consistency + guess)
            measures |= {"consistency_loss": consistency.detach(), "saliency_loss": guess.detach()}
        return outputs, loss, measures

    def augmented(self, obs: Tensor, generator: Generator) -> Tensor:
        """Observations (B, size) whose images, each camera's by itself, are changed."""
        own, images = self._layout.split(obs)
        cameras = images.unflatten(1, (-1, 3))
        changed = self.config.augmentation.effect(cameras.flatten(0, 1), generator)
        return self._layout.joined(own, changed.reshape(images.shape))

    def _saliency_losses(self, obs: Tensor, changed: Tensor, action: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Values should be those of the salient pixels alone, and features of augmented images tell which these are."""
        own, images = self._layout.split(obs)

        def value_of(seen: Tensor) -> Tensor:
            return self.head.value(self.critic(self._layout.joined(own, seen), action)).sum(0)

        mask = salient(value_of, images, self.config.saliency_share)
        masked = self._layout.joined(own, images * mask[:, None])
        value = self.head.value(self.critic(masked, action))
        consistency = (self.head.value(outputs) - value).square().mean()
        return consistency, functional.binary_cross_entropy_with_logits(self.critic.guessed(changed), mask)


def salient(value: Callable[[Tensor], Tensor], images: Tensor, share: float) -> Tensor:
    """Which pixels values depend on the most (Bertoin et al., eq. 2): those of the largest gradients.

    Args:
        value: Images to values (B,).
        images: (B, channels, height, width).
        share: How many pixels of each image are salient, of all.

    Returns:
        (B, height, width) of 1 there and 0 elsewhere, without gradient.
    """
    with torch.enable_grad():
        seen = images.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(value(seen).sum(), seen)
    strength = gradient.abs().amax(1).flatten(1)
    count = max(round(share * strength.shape[1]), 1)
    mask = torch.zeros_like(strength).scatter_(1, strength.topk(count, 1).indices, 1.0)
    return mask.unflatten(1, images.shape[2:])


def make_svea(config: SVEAConfig, extent: Extent, weights: Generator) -> tuple[UpdateRule, AugmentedValues]:
    """A policy and critics that share an encoder.

    Raises:
        ValueError: Observations are too short for the images; or critics read others than the policy.
    """
    own = extent.policy - math.prod(config.image_shape)
    if own < 0 or extent.critic != extent.policy:
        raise ValueError(
            f"image_shape={config.image_shape} does not fit observations of {extent.policy} numbers for the policy and "
            f"{extent.critic} for the critics; expected both to be {math.prod(config.image_shape)} or longer and equal"
        )
    layout = ImageLayout(own, *config.image_shape)
    encoder, head = ImageEncoder(layout, config.features, weights), make_head(config, extent.device)
    actor = PixelActor(encoder, extent.action, config.actor, stochastic=True, generator=weights)
    critics = PixelCritics(
        encoder, extent.action, config.critics, head.outputs, config.critic,
        layer_norm=config.layer_norm, saliency=config.saliency, generator=weights,
    )  # fmt: skip
    values = AugmentedValues(critics.to(extent.device), head, config)
    return make_rule(actor.to(extent.device), config, extent.num_envs), values
