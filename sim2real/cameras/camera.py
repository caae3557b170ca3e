"""`Camera`: what calibration finds out, and the file that holds it.

The model is OpenCV's. Camera axes: x right, y down, z forward. The centre of the top left pixel has the coordinates
(0, 0), so an image of w by h pixels has its middle at ((w - 1) / 2, (h - 1) / 2).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError, RunError, reason
from embodied.math import transforms
from embodied.storage.configs import from_json, to_json
from embodied.storage.files import dumps, jsonable, require_regular, write_atomic

FORMAT = 1
MOST_BYTES = 1 << 20  # of a camera file
COEFFICIENTS = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
"""Names of the distortion coefficients in OpenCV's order."""
COUNTS = (0, 4, 5, 8)  # numbers of coefficients that OpenCV's model may have, of those that we use


class CameraError(EmbodiedError):
    """Images, boards or poses that a camera cannot be calibrated from, or a camera that contradicts itself."""


class Parent(StrEnum):
    """Body that a camera is fixed to."""

    HAND = "hand"
    """Eye in hand: the camera moves with the robot's hand, and the board stands still."""
    BASE = "base"
    """Eye to hand: the camera stands still, and the board is fixed to the robot's hand."""


@dataclasses.dataclass(frozen=True)
class Mount:
    """Pose of a camera on its parent."""

    parent: Parent
    position: tuple[float, float, float]
    """m, of the camera in the parent's frame."""
    quat: tuple[float, float, float, float]
    """wxyz, camera (OpenCV's axes) to parent."""

    @staticmethod
    def of(parent: Parent, camera_to_parent: np.ndarray) -> Mount:
        quat = transforms.wxyz_from_matrix(camera_to_parent[:3, :3])
        x, y, z = camera_to_parent[:3, 3].tolist()
        return Mount(parent, (x, y, z), tuple(quat.tolist()))  # pyright: ignore[reportArgumentType]

    @property
    def camera_to_parent(self) -> np.ndarray:
        """(4, 4)."""
        return transforms.pose(transforms.matrix_from_wxyz(np.array(self.quat)), np.array(self.position))


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera's intrinsic parameters."""

    width: int
    """pixels."""
    height: int
    """pixels."""
    fx: float
    """pixels, focal length along the image's x axis."""
    fy: float
    """pixels."""
    cx: float
    """pixels, principal point."""
    cy: float
    """pixels."""
    distortion: tuple[float, ...] = ()
    """None, or 4, 5 or 8 of `COEFFICIENTS`."""

    def __post_init__(self) -> None:
        numbers = (self.width, self.height, self.fx, self.fy, self.cx, self.cy, *self.distortion)
        if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers):
            raise CameraError(f"a camera has parameters that are not finite numbers: {numbers}")
        if min(self.width, self.height) < 1 or min(self.fx, self.fy) <= 0:
            raise CameraError(
                f"a camera of {self.width} x {self.height} pixels with focal lengths {self.fx} and {self.fy}; expected "
                "positive numbers"
            )
        if len(self.distortion) not in COUNTS:
            raise CameraError(
                f"a camera has {len(self.distortion)} distortion coefficients; expected one of {COUNTS}: "
                f"{', '.join(COEFFICIENTS)}"
            )

    @property
    def matrix(self) -> np.ndarray:
        """(3, 3) K, pixels."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])

    @property
    def coefficients(self) -> np.ndarray:
        """(5,) or (8,) distortion as OpenCV takes it; zeros without any."""
        return np.array([*self.distortion, *[0.0] * max(0, 5 - len(self.distortion))])

    @property
    def pinhole(self) -> Camera:
        """The same camera with a perfect lens."""
        return dataclasses.replace(self, distortion=())

    def scaled(self, factor: float) -> Camera:
        """The camera of the same images enlarged by a factor; the corner of the image stays, not the first pixel."""
        return dataclasses.replace(
            self,
            width=round(self.width * factor),
            height=round(self.height * factor),
            fx=self.fx * factor,
            fy=self.fy * factor,
            cx=(self.cx + 0.5) * factor - 0.5,
            cy=(self.cy + 0.5) * factor - 0.5,
        )

    def project(self, points: np.ndarray, points_to_camera: np.ndarray) -> np.ndarray:
        """(n, 2) pixels where points (n, 3) in m appear, of a frame that a transform (4, 4) takes to the camera's."""
        import cv2

        rotation = transforms.logarithm(points_to_camera[:3, :3])
        position = np.ascontiguousarray(points_to_camera[:3, 3])
        shown, _ = cv2.projectPoints(np.asarray(points, float), rotation, position, self.matrix, self.coefficients)
        return shown.reshape(-1, 2)


@dataclasses.dataclass(frozen=True)
class Document:
    """Content of a camera file."""

    camera: Camera
    mount: Mount | None = None
    format: int = FORMAT


def save(path: Path, camera: Camera, mount: Mount | None = None, report: Mapping[str, Any] | None = None) -> None:
    """Write a camera as JSON; `report` goes along for people and is not read back."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, dumps({**to_json(Document(camera, mount)), "report": jsonable(report or {})}))
    except OSError as error:
        raise CameraError(f"cannot write '{path}': {reason(error)}") from error


def load(path: Path) -> Document:
    """Read what `save` wrote; a `CameraError` where that is not what the file holds."""
    try:
        require_regular(path)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise CameraError(f"'{path}' has more than {MOST_BYTES} bytes; expected a camera file")
        document = json.loads(data)
    except OSError as error:
        raise CameraError(f"cannot read the camera '{path}': {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise CameraError(f"'{path}' is no camera file: it is not JSON") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or "camera" not in document:
        raise CameraError(
            f"'{path}' is no camera file of format {FORMAT}: python -m sim2real.cameras.calibrate writes one"
        )
    document.pop("report", None)
    try:
        return from_json(Document, document, str(path))
    except (RunError, TypeError, ValueError) as error:
        raise CameraError(f"'{path}' is no camera file: {error}") from error
