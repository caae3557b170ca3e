"""Photographs for calibration: a board held before a camera, and the Panda with a camera and a board.

`photograph` needs no renderer: a board is flat. `Photographer` and `rehearse` draw whole scenes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from embodied.math import transforms
from embodied.storage.paths import asset
from sim2real.cameras import mujoco_camera
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, Parent
from sim2real.cameras.lens import Lens

PIXELS = 60  # of a square's edge in the picture that `photograph` begins with
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
        """Compile a scene that has a camera called `calibrated`, with room for the pictures."""
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


def photograph(
    board: Board, lens: Lens, board_to_camera: np.ndarray, rng: np.random.Generator, sensor: Sensor = USUAL
) -> np.ndarray:
    """(height, width, 3) uint8, the board alone before grey, as it is seen through a lens."""
    import cv2

    step = board.square / PIXELS
    to_board = np.array([[step, 0.0, step / 2], [0.0, step, step / 2], [0.0, 0.0, 1.0]])
    seen = lens.pinhole.matrix @ board_to_camera[:3, [0, 1, 3]] @ to_board
    drawn = np.repeat(board.picture(PIXELS)[..., None], 3, -1)
    grey = (143.0, 143.0, 143.0)
    size = lens.pinhole.width, lens.pinhole.height
    return sensor.take(lens.apply(cv2.warpPerspective(drawn, seen, size, borderValue=grey)), rng)


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
    photographer.data.mocap_quat[0] = transforms.wxyz_from_matrix(board_to_camera[:3, :3])
    mujoco.mj_forward(photographer.model, photographer.data)


def views(board: Board, camera: Camera, count: int, rng: np.random.Generator, tilt: float = 0.6) -> list[np.ndarray]:
    """Poses (4, 4) board_to_camera as a person would choose them: anywhere in the picture, near and far, and tilted, by
    `tilt` rad at most."""
    middle = np.array([*board.size, 0.0]) / 2
    poses = []
    for _ in range(count):
        axis, turn = rng.uniform(0, 2 * np.pi), rng.normal(0.0, 0.3)
        lean = tilt * np.sqrt(rng.uniform(0.05, 1.0)) * np.array([np.cos(axis), np.sin(axis), 0.0])
        rotation = transforms.exponential(lean) @ transforms.exponential(np.array([0.0, 0.0, turn]))
        share = rng.uniform(0.45, 0.95)  # of the picture's width that the board takes
        depth = camera.fx * board.size[0] / (share * camera.width)
        # The more of the picture the board takes, the less room is left to move it.
        room = 0.5 * (1.15 - share) * np.array([camera.width / camera.fx, camera.height / camera.fy])
        centre = depth * np.array([*rng.uniform(-room, room), 1.0])
        poses.append(transforms.pose(rotation, centre - rotation @ middle))
    return poses


def looking_at(position: np.ndarray, target: np.ndarray, down: np.ndarray) -> np.ndarray:
    """(4, 4) camera_to_world of a camera in OpenCV's axes at a position (3,) that looks at a target (3,), in m;
    `down` (3,) points down in the picture."""
    forward = np.asarray(target, float) - position
    forward = forward / np.linalg.norm(forward)
    right = np.cross(down, forward)
    right = right / np.linalg.norm(right)
    return transforms.pose(np.stack([right, np.cross(forward, right), forward], axis=1), position)


# The Panda with a camera: hand-eye calibration

BASE, HAND = "link0", "hand"
JOINTS = tuple(f"joint{number}" for number in range(1, 8))
HOME = np.array([0.0, -0.4, 0.0, -2.1, 0.0, 1.7, 0.785])  # rad, hand pointing down before the robot
SPREAD = np.array([0.45, 0.3, 0.45, 0.3, 0.6, 0.5, 0.7])  # rad, standard deviations of the joints about it
NEAREST = 0.15  # m, of the board's middle
SMALLEST = 20.0  # pixels, edge of a square; markers of fewer are not read
MARGIN = 12.0  # pixels that corners keep from the picture's rim
STEEPEST = np.radians(55.0)  # between the board's normal and the line of sight; beyond, markers are too flat to be read
MOST_TRIES = 200_000
ON_HAND = transforms.pose(np.array([0.06, -0.04, 0.5]), np.array([0.055, 0.012, 0.028]))
"""(4, 4) camera_to_hand: before the palm, looking along the fingers."""


@dataclasses.dataclass(frozen=True)
class Session:
    """What a session gives."""

    images: list[np.ndarray]
    """(height, width, 3) uint8 RGB each."""
    hand_to_base: np.ndarray
    """(n, 4, 4), as the robot says."""
    camera_to_parent: np.ndarray
    """(4, 4), the truth."""


@dataclasses.dataclass(frozen=True)
class Robot:
    """How well the robot knows where its hand is."""

    position: float = 0.0
    """m, standard deviation along each axis."""
    rotation: float = 0.0
    """rad, about each axis."""


EXACT = Robot()


def rehearse(
    board: Board, camera: Camera, parent: Parent, count: int, rng: np.random.Generator, sensor: Sensor = USUAL,
    robot: Robot = EXACT, supersampling: int = 2,
) -> Session:  # fmt: skip
    """Photograph the board in `count` poses of the arm."""
    images, poses = [], []
    spec, camera_to_parent = scene(board, camera, parent, rng)
    with Photographer(spec, camera, sensor, supersampling) as photographer:
        model, data = photographer.model, photographer.data
        for _ in arm_poses(model, data, board, camera, count, rng):
            images.append(photographer.picture(rng))
            hand_to_base = transforms.inverse(body_to_world(data, BASE)) @ body_to_world(data, HAND)
            turn, shift = rng.normal(0, robot.rotation, 3), rng.normal(0, robot.position, 3)
            poses.append(hand_to_base @ transforms.pose(turn, shift))
    return Session(images, np.array(poses), camera_to_parent)


def scene(board: Board, camera: Camera, parent: Parent, rng: np.random.Generator) -> tuple[mujoco.MjSpec, np.ndarray]:
    """The Panda with camera and board, and camera_to_parent (4, 4), which chance moves a little."""
    spec = lit(mujoco.MjSpec.from_file(str(asset("robots/panda/panda.xml"))))
    nudge = transforms.pose(rng.normal(0, 0.1, 3), rng.normal(0, 0.01, 3))
    middle = np.array([*board.size, 0.0]) / 2
    if parent is Parent.HAND:
        camera_to_parent = ON_HAND @ nudge
        mujoco_camera.add_to(spec.body(HAND), EYE, camera.pinhole, camera_to_parent)
        # Flat on the table, face up: its z axis, into the paper, points down.
        board_to_parent = transforms.pose(np.array([np.pi, 0.0, 0.0]), np.array([0.5, 0.0, 0.02]))
        board_parent = spec.worldbody
    else:
        camera_to_parent = looking_at(np.array([1.15, 0.1, 0.5]), np.array([0.5, 0.0, 0.4]), np.array([0, 0, -1.0]))
        camera_to_parent = camera_to_parent @ nudge
        mujoco_camera.add_to(spec.body(BASE), EYE, camera.pinhole, camera_to_parent)
        # Between the fingers, facing forward when the hand points down.
        board_to_parent = transforms.pose(np.array([0.0, 0.0, -np.pi / 2]), np.zeros(3)) @ transforms.pose(
            np.array([np.pi / 2, 0.0, 0.0]), np.zeros(3)
        )
        board_to_parent[:3, 3] = [0.02, 0.0, 0.2]
        board_parent = spec.body(HAND)
    body = board.add_to(board_parent, spec)
    placed = board_to_parent @ transforms.pose(np.eye(3), -middle)
    body.pos, body.quat = placed[:3, 3], transforms.wxyz_from_matrix(placed[:3, :3])
    return spec, camera_to_parent


def arm_poses(
    model: mujoco.MjModel, data: mujoco.MjData, board: Board, camera: Camera, count: int, rng: np.random.Generator
) -> Iterator[None]:
    """Put the arm, by chance, into poses in which the camera has the whole board in view, one after the other."""
    address = [model.joint(name).qposadr[0] for name in JOINTS]
    low, high = np.array([model.joint(name).range for name in JOINTS]).T
    for _ in range(MOST_TRIES):
        if count == 0:
            return
        data.qpos[address] = np.clip(HOME + SPREAD * rng.standard_normal(len(JOINTS)), low, high)
        mujoco.mj_forward(model, data)
        if in_view(data, board, camera):
            count -= 1
            yield
    raise AssertionError(f"{count} poses with a view of the board are missing")


def in_view(data: mujoco.MjData, board: Board, camera: Camera) -> bool:
    """Whether the whole board is in the picture, neither too far nor too oblique, and nothing stands before it."""
    eye = mujoco_camera.camera_to_world(data, EYE)
    board_to_camera = transforms.inverse(eye) @ body_to_world(data, "board")
    middle = (board_to_camera @ np.array([*board.size, 0.0, 2.0]) / 2)[:3]
    depth = middle[2]
    if depth < NEAREST or camera.fx * board.square < SMALLEST * depth:
        return False
    if board_to_camera[:3, 2] @ middle < np.cos(STEEPEST) * np.linalg.norm(middle):
        return False
    pixels = camera.project(board.corners, board_to_camera)
    inside = (pixels > MARGIN) & (pixels < np.array([camera.width, camera.height]) - 1 - MARGIN)
    return bool(inside.all()) and not hidden(data, board, eye)


def hidden(data: mujoco.MjData, board: Board, eye: np.ndarray) -> bool:
    """Whether the robot stands between a camera (4, 4) camera_to_world and any of nine points of the board."""
    width, height = board.size
    groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # what is drawn
    for x in (0.05, 0.5, 0.95):
        for y in (0.05, 0.5, 0.95):
            point = (body_to_world(data, "board") @ np.array([x * width, y * height, 0.0, 1.0]))[:3]
            ray, found = point - eye[:3, 3], np.zeros(1, np.int32)
            share = mujoco.mj_ray(data.model, data, eye[:3, 3], ray, groups, 1, -1, found)
            if 0 <= share < 0.995:
                return True
    return False


def body_to_world(data: mujoco.MjData, name: str) -> np.ndarray:
    """(4, 4), after `mj_forward`."""
    body = data.body(name)
    return transforms.pose(body.xmat.reshape(3, 3), body.xpos)
