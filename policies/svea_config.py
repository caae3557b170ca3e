"""Settings of soft actor-critic from images that are augmented."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from torch import Generator, Tensor

from embodied.augment import random_convolution, random_overlay, random_shift
from policies.memory_config import require
from policies.off_policy_config import SACConfig
from policies.replay import Storage


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
    Observations are laid out by `policies.pixel_env`; statistics of pixels would say little, so there are none.
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
