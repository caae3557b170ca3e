"""Regions of one colour in a picture: what has a hue, as painted blocks do, before what is grey, as tables are.

Light and shade change how bright a face is and hardly its hue (Smith, "Color gamut transform pairs", SIGGRAPH 1978).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from embodied.errors import EmbodiedError, UnknownNameError

HUES = {"red": 0.0, "orange": 28.0, "yellow": 52.0, "green": 130.0, "cyan": 185.0, "blue": 218.0, "purple": 285.0}
"""Degrees on the hue circle of names for colours; they distinguish blocks."""
WIDTH = 14.0  # degrees to either side that still count as the colour: half the way from orange to yellow is 12
COLOURFUL = 0.3  # saturation of a pixel that surely belongs to a painted block
DARK = 0.12  # of 1, value below which a pixel has no hue to speak of
EDGE = 0.5  # of a region's median saturation: what its pixels at the edge have that are half block, half grey table
SMALLEST = 60  # pixels of a region


@dataclasses.dataclass(frozen=True)
class Region:
    """Connected pixels of one colour."""

    colour: str
    mask: np.ndarray
    """(height, width) bool."""

    @property
    def contour(self) -> np.ndarray:
        """(n, 2) pixels on its outer edge: half a pixel outside of its outermost pixels' centres."""
        import cv2

        # Of an image twice as fine, whose border runs between two pixels of this one.
        fine = np.kron(self.mask.astype(np.uint8), np.ones((2, 2), np.uint8))
        outlines, _ = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        outline = max(outlines, key=len)[:, 0].astype(float)
        return _outwards(outline / 2 - 0.25, 0.25)

    @property
    def centre(self) -> np.ndarray:
        """(2,) pixels, its centroid."""
        rows, columns = np.nonzero(self.mask)
        return np.array([columns.mean(), rows.mean()])


def regions(image: np.ndarray, colour: str) -> list[Region]:
    """All regions of a colour, the largest first.

    Args:
        image: (height, width, 3) uint8 RGB.
        colour: One of `HUES`.

    Raises:
        UnknownNameError: the colour has no name here.
        EmbodiedError: the image is no such picture.
    """
    import cv2

    if colour not in HUES:
        raise UnknownNameError("colour", colour, HUES)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        given = f"a picture of shape {image.shape} and type {image.dtype}"
        raise EmbodiedError(f"{given}; expected (height, width, 3) uint8")
    hue, saturation, value = _hsv(image)
    apart = np.abs((hue - HUES[colour] + 180.0) % 360.0 - 180.0)
    alike = (apart < WIDTH) & (value > DARK)
    count, labels = cv2.connectedComponents((alike & (saturation > COLOURFUL)).astype(np.uint8))
    found = []
    for label in range(1, count):
        core = labels == label
        if core.sum() < SMALLEST:
            continue
        # Edge pixels are mixed with what is behind them: they are the block's where more than half of them is.
        around = cv2.dilate(core.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)
        own = around & (saturation > EDGE * np.median(saturation[core])) & (apart < 2 * WIDTH) & (value > DARK)
        found.append(Region(colour, _whole(own)))
    return sorted(found, key=lambda region: -int(region.mask.sum()))


def _hsv(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue in degrees, saturation and value in [0, 1] of a picture smoothed by a pixel, so that noise makes no hue."""
    import cv2

    smooth = cv2.GaussianBlur(image, (0, 0), 0.8).astype(np.float32) / 255.0
    hue, saturation, value = np.moveaxis(cv2.cvtColor(smooth, cv2.COLOR_RGB2HSV), 2, 0)
    return hue, saturation, value


def _whole(mask: np.ndarray) -> np.ndarray:
    """The largest connected part, its holes filled."""
    import cv2

    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    outlines, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(closed)
    cv2.drawContours(filled, [max(outlines, key=cv2.contourArea)], -1, 1, cv2.FILLED)
    return filled.astype(bool)


def _outwards(outline: np.ndarray, by: float) -> np.ndarray:
    """A closed outline (n, 2), clockwise in the picture as OpenCV's are, moved outwards along its normals."""
    ahead = np.roll(outline, -1, axis=0) - np.roll(outline, 1, axis=0)
    length = np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), 1e-9)
    normal = np.stack([ahead[:, 1], -ahead[:, 0]], axis=1) / length
    area = np.sum(outline[:, 0] * np.roll(outline[:, 1], -1) - np.roll(outline[:, 0], -1) * outline[:, 1])
    return outline + by * np.sign(area) * normal
