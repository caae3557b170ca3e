import cv2
import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError
from sim2real.cameras import jpeg
from sim2real.cameras.photometric import EFFECTS, Photometric, augment


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Four pictures with edges, colours and shades, of odd size."""
    rng = np.random.default_rng(0)
    result = np.zeros((4, 45, 61, 3), np.uint8)
    for image in result:
        image[:] = np.linspace(40, 200, 61)[None, :, None]
        for _ in range(5):
            corner = rng.integers(0, 40, 2)
            cv2.rectangle(image, corner.tolist(), (corner + 15).tolist(), rng.integers(0, 255, 3).tolist(), -1)
    return result


def only(name: str) -> Photometric:
    return Photometric(**{effect: float(effect == name) for effect in EFFECTS})


@pytest.mark.parametrize("name", [*EFFECTS, "all"])
def test_same_seed_same_images_alone_or_in_a_batch(name: str, images: np.ndarray) -> None:
    config = Photometric() if name == "all" else only(name)
    once, again, other = augment(images, 7, config), augment(images, 7, config), augment(images, 8, config)
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()
    assert (once != images).any()
    assert once.shape == images.shape
    assert once.dtype == np.uint8
    # Sums over a batch may round to another last bit.
    assert np.abs(augment(images[:2], 7, config).astype(int) - once[:2]).max() <= 1
    np.testing.assert_array_equal(augment(torch.from_numpy(images), 7, config).numpy(), once)


def test_images_of_a_batch_vary_independently(images: np.ndarray) -> None:
    same = np.repeat(images[:1], 6, axis=0)
    varied = augment(same, 0)
    assert len({image.tobytes() for image in varied}) >= 5


def test_nothing_happens_at_chance_zero_and_input_is_kept(images: np.ndarray) -> None:
    config, before = only("none"), images.copy()
    np.testing.assert_array_equal(augment(images, 0, config), images)
    assert config.terms == ()
    augment(images, 0)
    np.testing.assert_array_equal(images, before)
    assert len(augment(images[:0], 0)) == 0


def test_jpeg_loses_what_opencvs_jpeg_loses(images: np.ndarray) -> None:
    large = cv2.resize(images[0], (96, 64), interpolation=cv2.INTER_LINEAR)
    x = torch.from_numpy(large).permute(2, 0, 1)[None].float() / 255
    for quality in (30, 60, 90):
        data = cv2.imencode(".jpg", large[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        theirs = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB).astype(float)
        steps = torch.from_numpy(jpeg.steps_of(quality))[None].float()
        ours = 255 * jpeg.lossy(x, steps)[0].permute(1, 2, 0).numpy().clip(0, 1)
        lost, between = (np.sqrt(np.mean((theirs - other) ** 2)) for other in (large, ours))
        assert between < 0.75 * lost
        assert between < 5.0


def test_cosine_transform_is_opencvs() -> None:
    block = np.random.default_rng(0).normal(size=(8, 8))
    basis = jpeg.cosines()
    np.testing.assert_allclose(basis @ block @ basis.T, cv2.dct(block), atol=1e-12)


def test_hue_keeps_grey_and_gamma_keeps_black_and_white() -> None:
    greys = np.linspace(0, 255, 16).astype(np.uint8).reshape(1, 4, 4, 1).repeat(3, 3)
    hue = Photometric(**{effect: float(effect == "jitter") for effect in EFFECTS}, brightness=0, contrast=0, hue=1.0)
    np.testing.assert_allclose(augment(greys, 1, hue).astype(int), greys, atol=1)
    bent = augment(greys, 1, only("gamma"))
    assert (bent[0, 0, 0] == 0).all()
    assert (bent[0, 3, 3] == 255).all()
    assert (bent != greys).any()


@pytest.mark.parametrize("name", ["blur", "motion"])
def test_blurs_keep_the_light_and_lower_the_contrast(name: str, images: np.ndarray) -> None:
    blurred = augment(images, 3, only(name)).astype(float)
    np.testing.assert_allclose(blurred.mean(), images.mean(), atol=2.0)
    gradients = [np.abs(np.diff(i.astype(float), axis=2)).mean() + np.abs(np.diff(i.astype(float), axis=1)).mean()
                 for i in (blurred, images)]  # fmt: skip
    assert gradients[0] < gradients[1]
    even = np.full((2, 20, 20, 3), 77, np.uint8)
    np.testing.assert_array_equal(augment(even, 3, only(name)), even)


def test_a_random_filter_keeps_brightness_and_shapes(images: np.ndarray) -> None:
    varied = augment(images, 0, only("convolution")).astype(float)
    np.testing.assert_allclose(varied.mean((1, 2, 3)), images.mean((1, 2, 3)), atol=6.0)
    even = np.full((1, 20, 20, 3), 100, np.uint8)
    assert np.ptp(augment(even, 0, only("convolution"))[0], axis=(0, 1)).max() == 0  # nothing appears where nothing was


def test_cutout_covers_as_much_as_it_says(images: np.ndarray) -> None:
    config = Photometric(**{effect: float(effect == "cutout") for effect in EFFECTS}, cutout_side=(0.5, 0.5))
    black = np.zeros((3, 40, 60, 3), np.uint8)
    covered = (augment(black, 2, config) > 0).any(-1).mean((1, 2))
    np.testing.assert_allclose(covered, 0.25, atol=0.02)


def test_overlays_take_given_pictures(images: np.ndarray) -> None:
    config = Photometric(**{effect: float(effect == "overlay") for effect in EFFECTS}, overlay_weight=(0.5, 0.5))
    white = np.full((2, 8, 8, 3), 255, np.uint8)
    np.testing.assert_allclose(augment(images, 0, config, white).astype(float), (images + 255.0) / 2, atol=0.51)


def test_noise_has_the_spread_it_says() -> None:
    config = Photometric(**{effect: float(effect == "noise") for effect in EFFECTS}, noise_std=(0.04, 0.04))
    assert augment(np.full((2, 64, 64, 3), 128, np.uint8), 0, config).std() / 255 == pytest.approx(0.04, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"jpeg": 1.5}, "photometric jpeg=1.5; expected a chance from 0 to 1"),
        (
            {"jpeg_quality": (0.0, 50.0)},
            r"photometric jpeg_quality=\(0.0, 50.0\); expected a range within 1.0 to 100.0",
        ),
        ({"blur_sigma": (2.0, 1.0)}, "photometric blur_sigma"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        Photometric(**wrong)


def test_images_of_another_kind_are_refused(images: np.ndarray) -> None:
    with pytest.raises(EmbodiedError, match=r"images of shape \(45, 61, 3\), torch.uint8; expected \(N, height"):
        augment(images[0], 0)
    with pytest.raises(EmbodiedError, match=r"torch.float32; expected \(N, height, width, 3\) uint8"):
        augment(images.astype(np.float32), 0)
    with pytest.raises(EmbodiedError, match="pictures of shape"):
        augment(images, 0, only("overlay"), images[0])
