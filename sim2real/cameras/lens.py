"""Lens distortion: undistorted photographs, and rendered pinhole images distorted as the camera would see them."""

from __future__ import annotations

import dataclasses

import numpy as np

from sim2real.cameras.camera import Camera, CameraError

TOLERANCE = 0.05  # pixels by which a ray may miss the pixel it was computed for; beyond, the model folds over there
WIDEST = 4.0  # a pinhole that must be this many times as wide as the picture has no resolution left in the middle
EDGE = 64  # points along each edge of the picture that its pinhole is measured by


def rays(camera: Camera, pixels: np.ndarray) -> np.ndarray:
    """(n, 2) directions x/z and y/z in which pixels (n, 2) look; nan where the lens model has no inverse."""
    import cv2

    criteria = (cv2.TERM_CRITERIA_MAX_ITER | cv2.TERM_CRITERIA_EPS, 60, 1e-12)
    pixels = np.asarray(pixels, float).reshape(-1, 2)
    # OpenCV 4 has another name for the function that takes criteria.
    invert = cv2.undistortPoints if not cv2.__version__.startswith("4.") else cv2.undistortPointsIter  # pyright: ignore[reportAttributeAccessIssue]
    arguments = {"R": None, "P": None, "criteria": criteria}
    found = invert(pixels[:, None], camera.matrix, camera.coefficients, **arguments).reshape(-1, 2)
    again = camera.project(np.column_stack([found, np.ones(len(found))]), np.eye(4))
    found[~(np.linalg.norm(again - pixels, axis=1) < TOLERANCE)] = np.nan
    return found


def undistort(image: np.ndarray, camera: Camera) -> np.ndarray:
    """The photograph (height, width, 3) as `camera.pinhole` would have taken it; black where it saw nothing.

    Raises:
        CameraError: the image has another size than the camera's.
    """
    import cv2

    _check(image, camera)
    maps = cv2.initUndistortRectifyMap(
        camera.matrix, camera.coefficients, None, camera.matrix, (camera.width, camera.height), cv2.CV_32FC1
    )
    return cv2.remap(image, *maps, cv2.INTER_LINEAR)


@dataclasses.dataclass(frozen=True)
class Lens:
    """Turns pictures of a wide and fine pinhole, which can be rendered, into what the camera sees."""

    camera: Camera
    pinhole: Camera
    """Of the pictures to be rendered: wide enough for all that the lens sees, and `supersampling` times as fine."""
    supersampling: int
    """Rendered pixels per pixel, along each axis: the image is the mean of their squares, as a sensor takes it."""
    columns: np.ndarray
    """(height n, width n) float32, where in the pinhole's picture each part of a pixel looks; -1: nowhere."""
    rows: np.ndarray

    @staticmethod
    def of(camera: Camera, supersampling: int = 2) -> Lens:
        """The lens of a camera.

        Raises:
            CameraError: it sees so much that no pinhole could, or its model has no inverse in half of the picture.
        """
        fine = camera.scaled(supersampling)
        slopes = rays(fine, _edge(fine))
        if not np.isfinite(slopes).all(axis=1).mean() > 0.5:
            raise CameraError(
                "the lens model folds over at the edges of the picture: calibrate with fewer coefficients"
            )
        low, high = np.nanmin(slopes, axis=0), np.nanmax(slopes, axis=0)
        (left, top), (right, bottom) = low * [fine.fx, fine.fy], high * [fine.fx, fine.fy]
        width, height = int(np.ceil(right - left)) + 2, int(np.ceil(bottom - top)) + 2
        if width > WIDEST * fine.width or height > WIDEST * fine.height:
            raise CameraError(
                f"the lens sees {width / fine.width:.1f} x {height / fine.height:.1f} times what a pinhole of its "
                f"focal length does; pictures of at most {WIDEST:g} times are rendered"
            )
        pinhole = Camera(width, height, fine.fx, fine.fy, 0.5 - left, 0.5 - top)
        grid = np.stack(np.meshgrid(np.arange(fine.width), np.arange(fine.height)), -1).reshape(-1, 2)
        looks = rays(fine, grid) * [pinhole.fx, pinhole.fy] + [pinhole.cx, pinhole.cy]
        looks = np.nan_to_num(looks, nan=-1.0).astype(np.float32).reshape(fine.height, fine.width, 2)
        return Lens(camera, pinhole, supersampling, looks[..., 0].copy(), looks[..., 1].copy())

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Image of the camera, (height, width, 3) uint8, from the pinhole's image (H, W, 3) uint8.

        Raises:
            CameraError: the image has another size than the pinhole's.
        """
        import cv2

        _check(image, self.pinhole)
        fine = cv2.remap(image, self.columns, self.rows, cv2.INTER_LINEAR)
        return cv2.resize(fine, (self.camera.width, self.camera.height), interpolation=cv2.INTER_AREA)


def _edge(camera: Camera) -> np.ndarray:
    """(4 EDGE, 2) pixels around the picture's rim, at the outer edges of its outermost pixels."""
    x, y = np.linspace(-0.5, camera.width - 0.5, EDGE), np.linspace(-0.5, camera.height - 0.5, EDGE)
    left, top = np.full(EDGE, -0.5), np.full(EDGE, -0.5)
    right, bottom = left + camera.width, top + camera.height
    sides = ((x, top), (x, bottom), (left, y), (right, y))
    return np.concatenate([np.stack(side, axis=1) for side in sides])


def _check(image: np.ndarray, camera: Camera) -> None:
    if image.shape[:2] != (camera.height, camera.width):
        size = f"{image.shape[1]} x {image.shape[0]} pixels"
        raise CameraError(f"an image of {size}; the camera's have {camera.width} x {camera.height}")
