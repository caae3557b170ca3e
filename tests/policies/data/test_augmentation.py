import functools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from embodied.errors import EmbodiedError
from policies.data.augmentation import (
    TINT,
    colour_jitter,
    contrast,
    convolved,
    grey,
    jittered,
    overlaid,
    random_convolution,
    random_overlay,
    random_shift,
    shifted,
)


def images(n: int = 4, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (n, 3, 12, 16), generator=Generator().manual_seed(seed), dtype=torch.uint8)


AUGMENTATIONS: dict[str, Callable[[Tensor, Generator], Tensor]] = {
    "shift": random_shift,
    "convolution": random_convolution,
    "overlay": functools.partial(random_overlay, pictures=images(2, seed=9)),
    "jitter": colour_jitter,
}
each = pytest.mark.parametrize("name", AUGMENTATIONS)


@each
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_images_come_back_as_they_came(name: str, dtype: torch.dtype) -> None:
    given = images() if dtype == torch.uint8 else images().float() / 255
    kept = given.clone()
    made = AUGMENTATIONS[name](given, Generator().manual_seed(0))
    assert made.shape == given.shape
    assert made.dtype == dtype
    assert torch.equal(given, kept), "the images that were given are the caller's"
    assert not torch.equal(made, given)
    assert made.min() >= 0
    assert made.max() <= (255 if dtype == torch.uint8 else 1)


@each
def test_a_seed_decides_everything(name: str) -> None:
    one, again, other = (AUGMENTATIONS[name](images(), Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@each
def test_every_image_draws_its_own_numbers(name: str) -> None:
    same = images(1).repeat(8, 1, 1, 1)
    made = AUGMENTATIONS[name](same, Generator().manual_seed(0))
    assert len({tuple(image.flatten().tolist()) for image in made}) > 4


def test_a_shift_moves_every_pixel_alike_and_repeats_the_rim() -> None:
    given = images(2)
    moved = shifted(given, torch.tensor([[2, 0], [0, -3]]))
    assert torch.equal(moved[0, :, :-2], given[0, :, 2:])
    assert torch.equal(moved[0, :, -2:], given[0, :, -1:].expand(-1, 2, -1))
    assert torch.equal(moved[1, :, :, 3:], given[1, :, :, :-3])


def test_a_convolution_keeps_brightness_and_contrast_and_a_filter_of_one_pixel_everything() -> None:
    x = images().float() / 255
    kernel = torch.zeros(4, 3, 3, 3, 3)
    kernel[:, range(3), range(3), 1, 1] = 2.0
    torch.testing.assert_close(convolved(x, kernel), x)
    # Noise, and a bright table with a dark thing on it, of which a filter makes bright and dark of other colours.
    scene = torch.full((4, 3, 12, 16), 0.8)
    scene[:, :, 4:8, 5:9] = 0.2
    for given in (x, scene):
        mixed = convolved(given, torch.randn(4, 3, 3, 3, 3, generator=Generator().manual_seed(0)))
        torch.testing.assert_close(mixed.mean((1, 2, 3)), given.mean((1, 2, 3)))
        torch.testing.assert_close(contrast(mixed), contrast(given))
        level = mixed.mean((2, 3))
        assert (level - level.mean(1, keepdim=True)).abs().max() <= TINT + 1e-6


def test_an_overlay_is_a_weighted_mean() -> None:
    x, over = images().float(), images(seed=1).float()
    weight = torch.tensor([0.0, 0.25, 0.5, 1.0])
    made = overlaid(x, weight, over)
    assert torch.equal(made[0], x[0])
    assert torch.equal(made[3], over[3])
    torch.testing.assert_close(made[1], 0.75 * x[1] + 0.25 * over[1])


def test_jitter_by_nothing_changes_nothing_and_a_third_of_a_turn_swaps_colours() -> None:
    x = images(1).float() / 255
    torch.testing.assert_close(jittered(x, torch.zeros(1, 4)), x)
    turned = jittered(x, torch.tensor([[0.0, 0.0, 0.0, 2 * math.pi / 3]]))
    torch.testing.assert_close(turned.sum(1), x.sum(1))
    assert any(torch.allclose(turned, x.roll(by, 1), atol=1e-5) for by in (1, 2))
    without_colour = jittered(x, torch.tensor([[0.0, 0.0, -1.0, 0.0]]))
    torch.testing.assert_close(without_colour, grey(x).expand(-1, 3, -1, -1))


def test_what_is_no_batch_of_images_is_refused() -> None:
    with pytest.raises(EmbodiedError, match=r"images of shape \(4, 12, 16, 3\), torch.uint8; expected \(N, 3, "):
        random_shift(images().permute(0, 2, 3, 1), Generator())
    with pytest.raises(EmbodiedError, match=r"torch\.int64"):
        colour_jitter(images().long(), Generator())
