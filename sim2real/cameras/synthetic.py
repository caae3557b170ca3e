"""Photographs of boards and robots that MuJoCo renders, with a lens and noise: what calibration is tested on.

Also of use before a real session: how many views, from where, does this board and that lens need?
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np

from sim2real.cameras import mujoco_camera, rigid
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera
from sim2real.cameras.distortion import Lens

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
        from embodied.opengl import choose_backend

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
