"""Augmentation of batches of images on their device: random shifts, convolutions, overlays, colours.

    generator = Generator(device).manual_seed(0)
    images = random_shift(obs["pixels/view"], generator)

Images are (N, 3, height, width), uint8 or float in [0, 1], and come back as they came. Every image draws its own
numbers from the generator, which lies on the images' device; nothing waits for the device. The effects themselves
(`shifted`, `convolved`, `overlaid`, `jittered`) are functions of float images and of the numbers drawn.

Sources: random shift, Kostrikov, Yarats and Fergus, "Image augmentation is all you need" (DrQ), ICLR 2021; random
convolution, Lee, Lee, Shin and Lee, "Network randomization", ICLR 2020; overlay, Hansen, Su and Wang (SVEA), NeurIPS
2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional

from embodied.errors import EmbodiedError

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, weights of red, green and blue
TINT = 0.15  # of full scale: how far from its mean brightness a filter may take a colour's
SHIFT = 4  # pixels, DrQ's padding of images of 84 by 84


def random_shift(images: Tensor, generator: Generator, pixels: int = SHIFT) -> Tensor:
    """Each image moved by up to `pixels` in both directions; its rim continues into what comes free."""
    _require_images(images)
    return shifted(images, random_offsets(images, generator, pixels))


def random_offsets(images: Tensor, generator: Generator, pixels: int = SHIFT) -> Tensor:
    """(N, 2) int64 rows and columns, each of up to `pixels` in both directions, for `shifted`."""
    size = (len(images), 2)
    return torch.randint(-pixels, pixels + 1, size, generator=generator, device=images.device, dtype=torch.int64)


def random_convolution(images: Tensor, generator: Generator) -> Tensor:
    """Each image through a random 3 by 3 filter across colours: other materials, the same shapes."""
    spread = math.sqrt(2 / 54)  # Glorot's, of 3 x 3 x 3 inputs and as many outputs
    kernel = spread * torch.randn(len(images), 3, 3, 3, 3, generator=generator, device=images.device)
    return _on_floats(images, lambda x: convolved(x, kernel))


def random_overlay(images: Tensor, generator: Generator, pictures: Tensor, weight: float = 0.5) -> Tensor:
    """Each image with one of `pictures` (M, 3, height, width) shining through, by a share U(0, weight)."""
    which = torch.randint(len(pictures), (len(images),), generator=generator, device=images.device)
    share = weight * torch.rand(len(images), generator=generator, device=images.device)
    return _on_floats(images, lambda x: overlaid(x, share, _floats(pictures.to(images.device))[which]))


def colour_jitter(
    images: Tensor,
    generator: Generator,
    brightness: float = 0.25,
    contrast: float = 0.4,
    saturation: float = 0.5,
    hue: float = 0.15,
) -> Tensor:
    """Each image with other colours, each number drawn from U(-most, most).

    Args:
        images: (N, 3, height, width).
        generator: On the images' device.
        brightness: Largest change of the mean, of full scale.
        contrast: Largest relative change.
        saturation: Largest relative change.
        hue: Largest turn about the grey axis, of half a turn.
    """
    most = torch.tensor([brightness, contrast, saturation, hue * math.pi], device=images.device)
    amount = most * (2 * torch.rand(len(images), 4, generator=generator, device=images.device) - 1)
    return _on_floats(images, lambda x: jittered(x, amount))


def of_each_camera(effect: Callable[[Tensor, Generator], Tensor], images: Tensor, generator: Generator) -> Tensor:
    """Images of several cameras stacked, (N, 3 cameras, height, width), each camera's with numbers of its own."""
    cameras = images.unflatten(1, (-1, 3)).flatten(0, 1)
    return effect(cameras, generator).reshape(images.shape)


def shifted(images: Tensor, offsets: Tensor) -> Tensor:
    """Images whose pixel (row, column) was at (row, column) + `offsets` (N, 2) int64, or at the rim next to it."""
    height, width = images.shape[2:]
    rows = (torch.arange(height, device=images.device) + offsets[:, :1]).clamp(0, height - 1)
    columns = (torch.arange(width, device=images.device) + offsets[:, 1:]).clamp(0, width - 1)
    each = torch.arange(len(images), device=images.device)[:, None, None]
    return images.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def convolved(x: Tensor, kernel: Tensor) -> Tensor:
    """Each image with its own filter (3, 3, 3, 3) across colours, as bright and as rich in contrast as it was.

    Contrast is variation within a colour. A filter may also make one colour brighter than another all over the picture,
    which would outweigh the contrast many times: this becomes a tint of at most `TINT`.
    """
    n, c, h, w = x.shape
    padded = functional.pad(x, (1, 1, 1, 1), mode="replicate").reshape(1, n * c, h + 2, w + 2)
    mixed = functional.conv2d(padded, kernel.reshape(n * c, c, 3, 3), groups=n).reshape(n, c, h, w)
    level = mixed.mean((2, 3), keepdim=True)
    scale = contrast(x) / contrast(mixed).clamp_min(1e-6)
    tint = (level - level.mean(1, keepdim=True)) * scale
    tint = tint * (TINT / tint.abs().amax(1, keepdim=True).clamp_min(TINT))
    return (mixed - level) * scale + tint + x.mean((1, 2, 3), keepdim=True)


def contrast(x: Tensor) -> Tensor:
    """(N, 1, 1, 1) root mean square distance of a picture's values from their colour's mean."""
    return (x - x.mean((2, 3), keepdim=True)).square().mean((1, 2, 3), keepdim=True).sqrt()


def overlaid(x: Tensor, weight: Tensor, pictures: Tensor) -> Tensor:
    """The mean of images and pictures, which have the share `weight`: (N), or (N, 1)."""
    weight = weight.reshape(-1, 1, 1, 1)
    return (1 - weight) * x + weight * pictures


def jittered(x: Tensor, amount: Tensor) -> Tensor:
    """Hue by a turn about the grey axis, then saturation, contrast about the mean, brightness.

    Args:
        x: (N, 3, height, width).
        amount: (N, 4) changes of brightness (of full scale), contrast, saturation (relative) and hue (rad).
    """
    brightness, contrast, saturation, hue = (column.reshape(-1, 1, 1, 1) for column in amount.T)
    # Rodrigues' formula about (1, 1, 1) / sqrt(3).
    mean = x.mean(1, keepdim=True)
    across = torch.stack([x[:, 2] - x[:, 1], x[:, 0] - x[:, 2], x[:, 1] - x[:, 0]], 1) / math.sqrt(3)
    x = mean + (x - mean) * hue.cos() + across * hue.sin()
    x = grey(x) + (x - grey(x)) * (1 + saturation)
    middle = grey(x).mean((2, 3), keepdim=True)
    return middle + (x - middle) * (1 + contrast) + brightness


def grey(x: Tensor) -> Tensor:
    """(N, 1, height, width) brightness."""
    return (x * x.new_tensor(LUMA).reshape(1, 3, 1, 1)).sum(1, keepdim=True)


def _on_floats(images: Tensor, effect: Callable[[Tensor], Tensor]) -> Tensor:
    """An effect on floats in [0, 1], whatever the images are."""
    _require_images(images)
    changed = effect(_floats(images)).clamp(0.0, 1.0)
    return (255 * changed).round().to(torch.uint8) if images.dtype == torch.uint8 else changed.to(images.dtype)


def _floats(images: Tensor) -> Tensor:
    """Images as float32 in [0, 1]."""
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def _require_images(images: Tensor) -> None:
    """Check shape and type.

    Raises:
        EmbodiedError: they are not those of images.
    """
    if images.ndim != 4 or images.shape[1] != 3 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise EmbodiedError(
            f"images of shape {tuple(images.shape)}, {images.dtype}; expected (N, 3, height, width), uint8 or float"
        )
