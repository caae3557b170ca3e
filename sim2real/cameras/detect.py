"""Corners of a ChArUco board in photographs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from embodied.errors import listing
from embodied.math import transforms
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, CameraError

FEWEST_CORNERS = 8  # of a board in a view: four fix a pose, the others check it
MOST_PIXELS = 100_000_000  # of an image
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")


@dataclasses.dataclass(frozen=True)
class View:
    """The board in one photograph."""

    name: str
    """The file's."""
    size: tuple[int, int]
    """pixels, width and height of the image."""
    numbers: np.ndarray
    """(n,) which of the board's corners were found, ascending."""
    pixels: np.ndarray
    """(n, 2) float64, where."""

    def points(self, board: Board) -> np.ndarray:
        """(n, 3) m, the same corners in the board's frame."""
        return board.corners[self.numbers]

    def part(self, chosen: np.ndarray) -> View:
        return dataclasses.replace(self, numbers=self.numbers[chosen], pixels=self.pixels[chosen])


def detect(image: np.ndarray, board: Board, name: str = "image") -> View:
    """The board's corners in an image (h, w) or (h, w, 3) uint8 RGB; none where it is not seen."""
    import cv2

    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    found, numbers, _, _ = cv2.aruco.CharucoDetector(board.charuco).detectBoard(grey)
    size = (grey.shape[1], grey.shape[0])
    if found is None or numbers is None:
        return View(name, size, np.zeros(0, int), np.zeros((0, 2)))
    numbers, found = np.ravel(numbers).astype(int), np.asarray(found, float).reshape(-1, 2)
    # The centre of the first pixel is (0, 0) here and in OpenCV 5; OpenCV 4's detector calls it (0.5, 0.5).
    found -= 0.5 if cv2.__version__.startswith("4.") else 0.0
    order = np.argsort(numbers)
    return View(name, size, numbers[order], found[order])


def usable(view: View, board: Board) -> bool:
    """Whether a view has enough corners, and not all of them on a line."""
    if len(view.numbers) < FEWEST_CORNERS:
        return False
    points = view.points(board)[:, :2]
    return bool(np.linalg.matrix_rank(points - points.mean(0), tol=0.5 * board.square) == 2)


def pose(view: View, board: Board, camera: Camera) -> np.ndarray:
    """(4, 4) board_to_camera with the least error in pixels; a `CameraError` where the view has too few corners."""
    import cv2

    points = view.points(board)
    if len(points) < 4:
        raise CameraError(f"'{view.name}' shows {len(points)} corners; a pose needs at least 4")
    # IPPE knows the two poses that a plane may have and takes the better one; Levenberg-Marquardt goes on from there.
    arguments = (points, view.pixels, camera.matrix, camera.coefficients)
    ok, turn, position = cv2.solvePnP(*arguments, flags=cv2.SOLVEPNP_IPPE)
    if not ok:
        raise CameraError(f"'{view.name}' shows {len(points)} corners that no pose of the board explains")
    turn, position = cv2.solvePnPRefineLM(*arguments, turn, position)
    return transforms.pose(turn.ravel(), position)


def read_image(path: Path) -> np.ndarray:
    """(h, w, 3) uint8 RGB; a `CameraError` where it cannot be read, or is too large."""
    import cv2

    if not path.is_file():
        raise CameraError(f"there is no image '{path}'")
    image = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise CameraError(f"'{path}' is no image that OpenCV reads: {listing(SUFFIXES)}")
    if image.shape[0] * image.shape[1] > MOST_PIXELS:
        raise CameraError(f"'{path}' has {image.shape[1]} x {image.shape[0]} pixels; at most {MOST_PIXELS:,} are read")
    return image


def find_images(places: Iterable[Path]) -> list[Path]:
    """Images by name: files as given, folders by what is in them; a `CameraError` where there is none."""
    places = list(places)
    found = []
    for place in places:
        inside = sorted(place.iterdir()) if place.is_dir() else [place]
        found += [path for path in inside if path.suffix.lower() in SUFFIXES or path == place]
    if not found:
        raise CameraError(f"no images in {listing(places)}; expected files ending in {listing(SUFFIXES)}")
    return found
