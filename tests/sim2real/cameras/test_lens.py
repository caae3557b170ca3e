import dataclasses

import numpy as np
import pytest

from sim2real.cameras import lens as lens_model
from sim2real.cameras.camera import Camera, CameraError
from sim2real.cameras.lens import Lens


def gradient(camera: Camera) -> np.ndarray:
    """A picture whose red and green say in which direction each pixel of a pinhole looks, -1 to 1."""
    columns, rows = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    slopes = np.stack([(columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy, 0 * rows], -1)
    return np.rint(127.5 * (slopes + 1)).clip(0, 255).astype(np.uint8)


def test_rays_are_the_inverse_of_projection(camera: Camera) -> None:
    pixels = np.random.default_rng(0).uniform(0, [camera.width, camera.height], (50, 2))
    looks = lens_model.rays(camera, pixels)
    points = np.column_stack([looks, np.ones(50)]) * np.linspace(0.1, 5, 50)[:, None]
    np.testing.assert_allclose(camera.project(points, np.eye(4)), pixels, atol=1e-3)


@pytest.mark.parametrize("coefficients", [(), (-0.25, 0.08, 0.001, -0.0015), (0.1, -0.02, 0.0, 0.002)])
def test_a_lens_shows_each_direction_where_the_camera_projects_it(
    coefficients: tuple[float, ...], camera: Camera
) -> None:
    camera = dataclasses.replace(camera.scaled(0.5), distortion=coefficients)
    lens = Lens.of(camera, 2)
    seen = lens.apply(gradient(lens.pinhole)).astype(float) / 127.5 - 1
    columns, rows = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    looks = lens_model.rays(camera, np.stack([columns, rows], -1).reshape(-1, 2)).reshape(*rows.shape, 2)
    apart = np.abs(seen[..., :2] - looks)
    assert np.nanmax(apart) < 1.5 / 127.5  # one step of eight bits, and a half of rounding
    assert np.isfinite(looks).mean() > 0.99


def test_undistorted_photographs_are_the_pinholes(camera: Camera) -> None:
    lens = Lens.of(camera, 2)
    photograph = lens.apply(gradient(lens.pinhole))
    again = lens_model.undistort(photograph, camera).astype(float)
    expected = gradient(camera.pinhole).astype(float)
    middle = (slice(60, -60), slice(60, -60))
    assert np.abs(again - expected)[middle].max() <= 2


def test_lenses_that_cannot_be_rendered_are_refused(camera: Camera) -> None:
    with pytest.raises(CameraError, match=r"folds over|times what a pinhole"):
        Lens.of(dataclasses.replace(camera, distortion=(-2.0, 0.0, 0.0, 0.0)))
    with pytest.raises(CameraError, match="an image of 10 x 20 pixels; the camera's have 480 x 360"):
        lens_model.undistort(np.zeros((20, 10, 3), np.uint8), camera)
