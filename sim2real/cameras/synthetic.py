"""Lenses: a pinhole's picture as the real lens shows it, and a photograph as a pinhole would have taken it."""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np

from sim2real.cameras import mujoco_camera, rigid
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, CameraError

TOLERANCE = 0.05  # pixels by which a ray may miss the pixel it was computed for; beyond, the model folds over there
WIDEST = 4.0  # a pinhole that must be this many times as wide as the picture has no resolution left in the middle
EDGE = 64  # points along each edge of the picture that its pinhole is measured by


def rays(camera: Camera, pixels: np.ndarray) -> np.ndarray:
    """(n, 2) directions x/z and y/z in which pixels (n, 2) look; nan where the lens model has no inverse."""
    import cv2

    criteria = (cv2.TERM_CRITERIA_MAX_ITER | cv2.TERM_CRITERIA_EPS, 60, 1e-12)
    pixels = np.asarray(pixels, float).reshape(-1, 2)
    found = cv2.undistortPoints(pixels[:, None], camera.matrix, camera.coefficients, criteria=criteria).reshape(-1, 2)
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
        """What the camera sees, (height, width, 3) uint8, from the pinhole's picture (H, W, 3) uint8.

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
        raise CameraError(
            f"an image of {image.shape[1]} x {image.shape[0]} pixels; the camera's have {camera.width} x "
            f"{camera.height}"
        )


EYE = "calibrated"
"""Name that `Photographer` expects of a scene's camera."""


@dataclasses.dataclass(frozen=True)
class Sensor:
    """What a sensor adds to the light."""

    noise: float = 2.0
    """Standard deviation, of 255."""
    blur: float = 0.5
    """pixels, standard deviation of a Gaussian: lens and demosaicing."""

    def take(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The image (h, w, 3) uint8 with both."""
        import cv2

        seen = cv2.GaussianBlur(image, (0, 0), self.blur) if self.blur > 0 else image
        return np.clip(np.rint(seen + rng.normal(0.0, self.noise, image.shape)), 0, 255).astype(np.uint8)


USUAL = Sensor()


class Photographer:
    """Takes the pictures that a camera would, in a scene of MuJoCo.

    A context manager: it holds a graphics context.
    """

    def __init__(self, spec: mujoco.MjSpec, camera: Camera, sensor: Sensor = USUAL, supersampling: int = 3) -> None:
        """Compile the scene with room for the pictures.

        Args:
            spec: A scene that has a camera called `calibrated`, added by `eye`.
            camera: What it is, lens included.
            sensor: What it adds.
            supersampling: Rendered pixels per pixel, along each axis.

        Raises:
            EmbodiedError: nothing here can draw, or the lens cannot be rendered.
        """
        from embodied.rendering.opengl import choose_backend

        choose_backend()
        self.lens, self.sensor = Lens.of(camera, supersampling), sensor
        wide = self.lens.pinhole
        spec.visual.global_.offwidth = max(wide.width, spec.visual.global_.offwidth)
        spec.visual.global_.offheight = max(wide.height, spec.visual.global_.offheight)
        # The scene's camera becomes the wide and fine one; where it is stays.
        eye = spec.camera(EYE)
        said = mujoco_camera.Attributes.of(wide, np.eye(4))
        eye.resolution, eye.sensor_size = said.resolution, said.sensorsize
        eye.focal_pixel, eye.principal_pixel = said.focalpixel, said.principalpixel
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self._renderer = mujoco.Renderer(self.model, wide.height, wide.width)

    def __enter__(self) -> Photographer:
        return self

    def __exit__(self, *_: object) -> None:
        self._renderer.close()

    def picture(self, rng: np.random.Generator) -> np.ndarray:
        """(height, width, 3) uint8 RGB, of `data` as it is after `mj_forward`."""
        self._renderer.update_scene(self.data, EYE)
        return self.sensor.take(self.lens.apply(self._renderer.render()), rng)


def studio(board: Board, pixels_per_square: int = 96) -> mujoco.MjSpec:
    """A board that can be moved (mocap body `board`) before a camera at the world's origin, in OpenCV's axes.

    The board is lit evenly; behind it is grey.
    """
    spec = lit()
    body = board.add_to(spec.worldbody, spec, "board", pixels_per_square)
    body.mocap = True
    mujoco_camera.add_to(spec.worldbody, EYE, Camera(640, 480, 500.0, 500.0, 319.5, 239.5), np.eye(4))
    return spec


def lit(spec: Any = None) -> mujoco.MjSpec:
    """A scene, by default an empty one, with even light, a grey sky, and sight from 1 cm to 100 m."""
    spec = mujoco.MjSpec() if spec is None else spec
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = [0.65] * 3, [0.25] * 3, [0.0] * 3
    grey = [0.55, 0.56, 0.58]
    spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        rgb1=grey, rgb2=grey, width=16, height=96,
    )  # fmt: skip
    # Clipping planes are multiples of the extent.
    spec.stat.extent, spec.visual.map.znear, spec.visual.map.zfar = 1.0, 0.01, 100.0
    spec.visual.quality.offsamples = 0  # `Photographer` renders finer and averages, which is the same at less cost
    return spec


def place(photographer: Photographer, board_to_camera: np.ndarray) -> None:
    """Put the studio's board where a transform (4, 4) says."""
    photographer.data.mocap_pos[0] = board_to_camera[:3, 3]
    photographer.data.mocap_quat[0] = rigid.wxyz_from_matrix(board_to_camera[:3, :3])
    mujoco.mj_forward(photographer.model, photographer.data)


def views(board: Board, camera: Camera, count: int, rng: np.random.Generator, tilt: float = 0.6) -> list[np.ndarray]:
    """Poses (4, 4) board_to_camera as a person would choose them: anywhere in the picture, near and far, tilted.

    Args:
        board: What is held before the camera.
        camera: Decides how near the board must be to fill a part of the picture.
        count: How many.
        rng: Source of chance.
        tilt: rad, largest angle between the board's normal and the camera's axis.
    """
    middle = np.array([*board.size, 0.0]) / 2
    poses = []
    for _ in range(count):
        axis, turn = rng.uniform(0, 2 * np.pi), rng.normal(0.0, 0.3)
        lean = tilt * np.sqrt(rng.uniform(0.05, 1.0)) * np.array([np.cos(axis), np.sin(axis), 0.0])
        rotation = rigid.exponential(lean) @ rigid.exponential(np.array([0.0, 0.0, turn]))
        share = rng.uniform(0.45, 0.95)  # of the picture's width that the board takes
        depth = camera.fx * board.size[0] / (share * camera.width)
        # The more of the picture the board takes, the less room is left to move it.
        room = 0.5 * (1.15 - share) * np.array([camera.width / camera.fx, camera.height / camera.fy])
        centre = depth * np.array([*rng.uniform(-room, room), 1.0])
        poses.append(rigid.pose(rotation, centre - rotation @ middle))
    return poses
