"""A hand-eye session of the Panda in simulation: photographs, the robot's poses, and where the camera really is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import mujoco
import numpy as np

from embodied.storage.paths import asset
from sim2real.cameras import mujoco_camera, rigid
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, Parent
from sim2real.cameras.synthetic import EYE, USUAL, Photographer, Sensor, lit

BASE, HAND = "link0", "hand"
JOINTS = tuple(f"joint{number}" for number in range(1, 8))
HOME = np.array([0.0, -0.4, 0.0, -2.1, 0.0, 1.7, 0.785])  # rad, hand pointing down before the robot
SPREAD = np.array([0.45, 0.3, 0.45, 0.3, 0.6, 0.5, 0.7])  # rad, standard deviations of the joints about it
NEAREST = 0.15  # m, of the board's middle
SMALLEST = 20.0  # pixels, edge of a square; markers of fewer are not read
MARGIN = 12.0  # pixels that corners keep from the picture's rim
STEEPEST = np.radians(55.0)  # between the board's normal and the line of sight; beyond, markers are too flat to be read
MOST_TRIES = 200_000
ON_HAND = rigid.pose(np.array([0.06, -0.04, 0.5]), np.array([0.055, 0.012, 0.028]))
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
    board: Board,
    camera: Camera,
    parent: Parent,
    count: int,
    rng: np.random.Generator,
    sensor: Sensor = USUAL,
    robot: Robot = EXACT,
    supersampling: int = 2,
) -> Session:
    """Photograph the board in `count` poses of the arm.

    Raises:
        EmbodiedError: nothing here can draw.
    """
    images, poses = [], []
    spec, camera_to_parent = scene(board, camera, parent, rng)
    with Photographer(spec, camera, sensor, supersampling) as photographer:
        model, data = photographer.model, photographer.data
        for _ in arm_poses(model, data, board, camera, count, rng):
            images.append(photographer.picture(rng))
            hand_to_base = rigid.inverse(body_to_world(data, BASE)) @ body_to_world(data, HAND)
            turn, shift = rng.normal(0, robot.rotation, 3), rng.normal(0, robot.position, 3)
            poses.append(hand_to_base @ rigid.pose(turn, shift))
    return Session(images, np.array(poses), camera_to_parent)


def scene(board: Board, camera: Camera, parent: Parent, rng: np.random.Generator) -> tuple[mujoco.MjSpec, np.ndarray]:
    """The Panda with camera and board, and camera_to_parent (4, 4), which chance moves a little."""
    spec = lit(mujoco.MjSpec.from_file(str(asset("robots/panda/panda.xml"))))
    nudge = rigid.pose(rng.normal(0, 0.1, 3), rng.normal(0, 0.01, 3))
    middle = np.array([*board.size, 0.0]) / 2
    if parent is Parent.HAND:
        camera_to_parent = ON_HAND @ nudge
        mujoco_camera.add_to(spec.body(HAND), EYE, camera.pinhole, camera_to_parent)
        # Flat on the table, face up: its z axis, into the paper, points down.
        board_to_parent = rigid.pose(np.array([np.pi, 0.0, 0.0]), np.array([0.5, 0.0, 0.02]))
        board_parent = spec.worldbody
    else:
        camera_to_parent = rigid.looking_at(
            np.array([1.15, 0.1, 0.5]), np.array([0.5, 0.0, 0.4]), np.array([0, 0, -1.0])
        )
        camera_to_parent = camera_to_parent @ nudge
        mujoco_camera.add_to(spec.body(BASE), EYE, camera.pinhole, camera_to_parent)
        # Between the fingers, facing forward when the hand points down.
        board_to_parent = rigid.pose(np.array([0.0, 0.0, -np.pi / 2]), np.zeros(3)) @ rigid.pose(
            np.array([np.pi / 2, 0.0, 0.0]), np.zeros(3)
        )
        board_to_parent[:3, 3] = [0.02, 0.0, 0.2]
        board_parent = spec.body(HAND)
    body = board.add_to(board_parent, spec)
    placed = board_to_parent @ rigid.pose(np.eye(3), -middle)
    body.pos, body.quat = placed[:3, 3], rigid.wxyz_from_matrix(placed[:3, :3])
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
    board_to_camera = rigid.inverse(eye) @ body_to_world(data, "board")
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
    return rigid.pose(body.xmat.reshape(3, 3), body.xpos)
