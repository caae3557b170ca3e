"""Pictures varied as light, lens, sensor and background vary: augmentation of batches of images.

Each effect is a row of `EFFECTS`: how its numbers are drawn for one image, and how it is applied to a batch. An image's
numbers depend on the seed and its own place in the batch alone, so a batch is augmented as its images one by one would
be, on any device and in numpy as in torch. They are drawn one by one; `embodied.augment` is for training loops.

Sources: random convolution, Lee, Lee, Shin and Lee, "Network randomization", ICLR 2020; overlay, Hansen, Su and Wang,
"Stabilizing deep Q-learning with ConvNets and vision transformers under data augmentation" (SVEA), NeurIPS 2021;
cutout, DeVries and Taylor, arXiv:1708.04552.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from embodied.augment import convolved, jittered, overlaid
from embodied.errors import EmbodiedError
from sim2real.cameras import jpeg

Rng = np.random.Generator
Numbers = dict[str, np.ndarray]
"""What an effect draws for one image; batched, tensors with one more axis in front."""

OCTAVES = 4  # of a random picture
BLUR_RADIUS = 4  # pixels: a kernel of 9 by 9


@dataclasses.dataclass(frozen=True)
class Photometric:
    """How likely each effect is, and how strong."""

    jitter: float = 0.8
    """Chance of brightness, contrast, saturation and hue changing."""
    brightness: float = 0.25
    """Largest change of the mean, of full scale."""
    contrast: float = 0.4
    """Largest relative change."""
    saturation: float = 0.5
    """Largest relative change."""
    hue: float = 0.15
    """rad, largest turn about the grey axis, times pi: 1 is any colour."""
    gamma: float = 0.5
    """Chance of another exponent."""
    gamma_range: tuple[float, float] = (0.6, 1.6)
    convolution: float = 0.2
    """Chance of a random 3 by 3 filter across colours: other materials, the same shapes."""
    overlay: float = 0.2
    """Chance of another picture shining through."""
    overlay_weight: tuple[float, float] = (0.1, 0.5)
    """Share of the other picture."""
    blur: float = 0.3
    """Chance of a lens out of focus."""
    blur_sigma: tuple[float, float] = (0.3, 1.5)
    """pixels."""
    motion: float = 0.2
    """Chance of a camera that moves during exposure."""
    motion_length: tuple[float, float] = (2.0, 8.0)
    """pixels."""
    noise: float = 0.5
    """Chance of noise."""
    noise_std: tuple[float, float] = (0.0, 0.04)
    """Of full scale."""
    cutout: float = 0.3
    """Chance of a rectangle of one colour."""
    cutout_side: tuple[float, float] = (0.05, 0.35)
    """Of the picture's sides."""
    jpeg: float = 0.3
    """Chance of compression."""
    jpeg_quality: tuple[float, float] = (30.0, 95.0)
    """As the Independent JPEG Group counts."""

    def __post_init__(self) -> None:
        """Check chances and ranges.

        Raises:
            EmbodiedError: one is outside its bounds.
        """
        for name in EFFECTS:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise EmbodiedError(f"photometric {name}={getattr(self, name)}; expected a chance from 0 to 1")
        bounds = {"gamma_range": (0.1, 10.0), "overlay_weight": (0.0, 1.0), "blur_sigma": (0.0, 10.0),
                  "motion_length": (1.0, 1.0 + 2 * BLUR_RADIUS), "noise_std": (0.0, 1.0), "cutout_side": (0.0, 1.0),
                  "jpeg_quality": (1.0, 100.0)}  # fmt: skip
        for name, (least, most) in bounds.items():
            low, high = getattr(self, name)
            if not least <= low <= high <= most:
                raise EmbodiedError(f"photometric {name}={low, high}; expected a range within {least} to {most}")

    @property
    def terms(self) -> tuple[str, ...]:
        """The effects that are on."""
        return tuple(name for name in EFFECTS if getattr(self, name) > 0)


def augment(
    images: np.ndarray | Tensor, seed: int, config: Photometric | None = None, pictures: np.ndarray | None = None
) -> np.ndarray | Tensor:
    """Images (N, height, width, 3) uint8 as they might have looked; of the kind, and on the device, that came in.

    Args:
        images: What was rendered or photographed, RGB.
        seed: Same seed, same images.
        config: Effects; by default all.
        pictures: (M, h, w, 3) uint8 for `overlay`; by default random ones are made.

    Raises:
        EmbodiedError: the images have another shape or type.
    """
    config = config or Photometric()
    tensor = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
    if tensor.ndim != 4 or tensor.shape[-1] != 3 or tensor.dtype != torch.uint8:
        raise EmbodiedError(
            f"images of shape {tuple(tensor.shape)}, {tensor.dtype}; expected (N, height, width, 3) uint8"
        )
    if len(tensor) == 0:
        return images
    x = tensor.permute(0, 3, 1, 2).float() / 255
    shown = None if pictures is None else _prepared(pictures, x)
    for number, name in enumerate(EFFECTS):
        effect = EFFECTS[name]
        rngs = [np.random.default_rng((seed, index, number)) for index in range(len(x))]
        chosen = [index for index, rng in enumerate(rngs) if rng.random() < getattr(config, name)]
        if not chosen:
            continue
        size = (x.shape[2], x.shape[3])
        drawn = [effect.draw(rngs[index], config, size) for index in chosen]
        numbers = {
            key: torch.from_numpy(np.stack([d[key] for d in drawn])).to(x.device, torch.float32) for key in drawn[0]
        }
        if name == "overlay" and shown is not None:
            which = [int(rngs[index].integers(len(shown))) for index in chosen]
            numbers["picture"] = shown[which]
        x[chosen] = effect.apply(x[chosen], numbers).clamp(0.0, 1.0)
    result = (x * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    return result if isinstance(images, Tensor) else result.numpy()


def _prepared(pictures: np.ndarray, like: Tensor) -> Tensor:
    """Pictures (M, h, w, 3) uint8 in the size of a batch (N, 3, H, W), in [0, 1]."""
    if pictures.ndim != 4 or pictures.shape[-1] != 3 or pictures.dtype != np.uint8 or not len(pictures):
        raise EmbodiedError(f"pictures of shape {pictures.shape}, {pictures.dtype}; expected (M, h, w, 3) uint8")
    given = torch.from_numpy(np.ascontiguousarray(pictures)).to(like.device).permute(0, 3, 1, 2).float() / 255
    return functional.interpolate(given, like.shape[2:], mode="bilinear", align_corners=False)


@dataclasses.dataclass(frozen=True)
class Effect:
    """One way in which pictures vary."""

    draw: Callable[[Rng, Photometric, tuple[int, int]], Numbers]
    """Numbers for one image of (height, width)."""
    apply: Callable[[Tensor, Mapping[str, Tensor]], Tensor]
    """Images (N, 3, H, W) in [0, 1] and the numbers of each, to images."""


def per_image(values: Tensor) -> Tensor:
    """(N) or (N, 3) numbers as (N, 1 or 3, 1, 1)."""
    return values.reshape(len(values), -1, 1, 1)


def draw_jitter(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """Brightness, contrast, saturation, hue."""
    del size
    sizes = np.array([config.brightness, config.contrast, config.saturation, config.hue * math.pi])
    return {"amount": sizes * rng.uniform(-1, 1, 4)}


def draw_gamma(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """The exponent, uniform in its logarithm."""
    del size
    low, high = config.gamma_range
    return {"exponent": np.exp(rng.uniform(math.log(low), math.log(high), 1))}


def draw_convolution(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """A filter (3, 3, 3, 3), Glorot's spread."""
    del config, size
    return {"kernel": rng.normal(0.0, math.sqrt(2 / 54), (3, 3, 3, 3))}


def draw_overlay(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """A share, and a picture of coloured clouds: noise of several sizes, one over the other."""
    picture = np.zeros((3, *size), np.float32)
    for octave in range(OCTAVES):
        coarse = torch.from_numpy(rng.uniform(-1, 1, (1, 3, 2 << octave, 2 << octave)))
        fine = functional.interpolate(coarse, size, mode="bilinear", align_corners=True)[0].numpy()
        picture += 0.5 * fine / (1 + octave)
    return {"weight": rng.uniform(*config.overlay_weight, 1), "picture": np.clip(0.5 + picture, 0, 1)}


def draw_blur(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """A Gaussian's kernel."""
    del size
    offset = np.arange(-BLUR_RADIUS, BLUR_RADIUS + 1)
    line = np.exp(-0.5 * (offset / max(rng.uniform(*config.blur_sigma), 1e-3)) ** 2)
    return {"kernel": np.outer(line, line) / line.sum() ** 2}


def draw_motion(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """The kernel of a straight line through the middle, in any direction."""
    del size
    length, angle = rng.uniform(*config.motion_length), rng.uniform(0, math.pi)
    kernel = np.zeros((2 * BLUR_RADIUS + 1,) * 2)
    for along in np.linspace(-0.5, 0.5, 64) * (length - 1):
        x, y = BLUR_RADIUS + along * np.array([math.cos(angle), math.sin(angle)])
        column, row = int(x), int(y)
        # Bilinear shares, so that the line does not jump from pixel to pixel.
        for dy, share_y in ((0, 1 - (y - row)), (1, y - row)):
            for dx, share_x in ((0, 1 - (x - column)), (1, x - column)):
                kernel[min(row + dy, 2 * BLUR_RADIUS), min(column + dx, 2 * BLUR_RADIUS)] += share_y * share_x
    return {"kernel": kernel / kernel.sum()}


def blur(x: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
    """Each image with its own kernel (K, K), all colours alike; the rim continues outwards."""
    n, c, h, w = x.shape
    kernel = numbers["kernel"].repeat_interleave(c, 0)[:, None]
    padded = functional.pad(x, (BLUR_RADIUS,) * 4, mode="replicate")
    padded = padded.reshape(1, n * c, h + 2 * BLUR_RADIUS, w + 2 * BLUR_RADIUS)
    return functional.conv2d(padded, kernel, groups=n * c).reshape(n, c, h, w)


def draw_noise(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """Gaussian noise of each pixel and colour."""
    return {"noise": rng.uniform(*config.noise_std) * rng.standard_normal((3, *size), np.float32)}


def draw_cutout(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """A rectangle as shares of the sides (left, top, right, bottom), and its colour."""
    del size
    sides, corner = rng.uniform(*config.cutout_side, 2), rng.uniform(0, 1, 2)
    first = corner * (1 - sides)
    return {"box": np.concatenate([first, first + sides]), "colour": rng.uniform(0, 1, 3)}


def cutout(x: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
    """The rectangle over the image."""
    left, top, right, bottom = (per_image(column) for column in numbers["box"].T)
    across = (torch.arange(x.shape[3], device=x.device) + 0.5).reshape(1, 1, 1, -1) / x.shape[3]
    down = (torch.arange(x.shape[2], device=x.device) + 0.5).reshape(1, 1, -1, 1) / x.shape[2]
    inside = (across >= left) & (across < right) & (down >= top) & (down < bottom)
    return torch.where(inside, per_image(numbers["colour"]), x)


def draw_jpeg(rng: Rng, config: Photometric, size: tuple[int, int]) -> Numbers:
    """Steps of quantisation (2, 8, 8), by the Independent JPEG Group's rule for qualities."""
    del size
    return {"steps": jpeg.steps_of(rng.uniform(*config.jpeg_quality))}


EFFECTS: dict[str, Effect] = {
    "convolution": Effect(draw_convolution, lambda x, numbers: convolved(x, numbers["kernel"])),
    "overlay": Effect(draw_overlay, lambda x, numbers: overlaid(x, numbers["weight"], numbers["picture"])),
    "jitter": Effect(draw_jitter, lambda x, numbers: jittered(x, numbers["amount"])),
    "gamma": Effect(draw_gamma, lambda x, numbers: x.clamp_min(1e-6) ** per_image(numbers["exponent"])),
    "cutout": Effect(draw_cutout, cutout),
    "motion": Effect(draw_motion, blur),
    "blur": Effect(draw_blur, blur),
    "noise": Effect(draw_noise, lambda x, numbers: x + numbers["noise"]),
    "jpeg": Effect(draw_jpeg, lambda x, numbers: jpeg.lossy(x, numbers["steps"])),
}
"""In the order in which they happen: the scene, the light, the lens, the sensor, the file."""
