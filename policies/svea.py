"""Critics from augmented images: SVEA's loss (Hansen et al. 2021), and SGQN's saliency (Bertoin et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional

from policies.encoder import ImageEncoder, ImageLayout
from policies.extent import Extent
from policies.pixel_networks import PixelActor, PixelCritics
from policies.svea_config import SVEAConfig
from policies.update_rules import UpdateRule, make_rule
from policies.value_heads import ValueHead
from policies.value_learner import ValueLearner, make_head


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
