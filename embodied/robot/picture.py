"""One picture of a robot in its home pose, with its joints, feet, tip and base frame marked and named."""

from __future__ import annotations

import dataclasses
import itertools

import cv2
import mujoco
import numpy as np

from embodied.rendering import opengl
from embodied.robot.robot import Kind, Robot

SIZE = (1280, 720)  # pixels
MARGIN = 310  # pixels at both sides where names stand
TEXT, LINE = 0.58, 21  # size of names, and pixels between them
AWAY = 1.05  # of the distance from which all shapes are just seen
FOVY = 40.0  # degrees
AZIMUTH, ELEVATION = 125.0, -18.0  # degrees: from ahead and the left, a little from above
BACKGROUND = (250, 250, 248)
DARKEST = 0.3  # of a shape's colour
JOINT, FOOT, TIP, ROTOR = (40, 90, 200), (20, 140, 60), (200, 60, 40), (150, 40, 160)  # RGB
AXES = ((210, 40, 40), (40, 160, 60), (50, 80, 220))  # RGB of x, y, z


@dataclasses.dataclass(frozen=True)
class Mark:
    """A named point."""

    point: np.ndarray
    """(3,) m, world frame."""
    text: str
    colour: tuple[int, int, int]


def draw(robot: Robot) -> np.ndarray:
    """(height, width, 3) uint8.

    Raises:
        EmbodiedError: this machine cannot render.
    """
    model, data = robot.model, mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_forward(model, data)
    width, height = SIZE[0] - 2 * MARGIN, SIZE[1]
    points = corners(model, data)
    low, high = points.min(0), points.max(0)
    camera = mujoco.MjvCamera()
    camera.lookat[:] = (low + high) / 2
    camera.azimuth, camera.elevation = AZIMUTH, ELEVATION
    camera.distance = distance(points - camera.lookat, width / height)
    model.vis.global_.offwidth, model.vis.global_.offheight = max(width, 640), max(height, 480)
    model.vis.global_.fovy = FOVY
    model.vis.headlight.ambient[:] = 0.4
    for colours in (model.geom_rgba, model.mat_rgba):  # black is what is empty
        colours[:, :3] = np.maximum(colours[:, :3], DARKEST)
    options = mujoco.MjvOption()
    options.geomgroup[:] = shown_groups(model)
    with opengl.renderer(model, (width, height)) as renderer:
        renderer.update_scene(data, camera, options)
        view = renderer.render()
        eyes = renderer.scene.camera  # left and right
        pos, forward, up = (np.mean([getattr(eye, name) for eye in eyes], axis=0) for name in ("pos", "forward", "up"))
        projection = Projection(pos, forward, up, (width, height))
    picture = np.full((height, SIZE[0], 3), BACKGROUND, np.uint8)
    empty = (view == 0).all(-1, keepdims=True)
    picture[:, MARGIN : MARGIN + width] = np.where(empty, np.array(BACKGROUND, np.uint8), view)
    _axes(picture, projection, data, model.body(robot.trunk).id, 0.2 * float(np.linalg.norm(high - low)))
    _names(picture, projection, marks(robot, data))
    return picture


def marks(robot: Robot, data: mujoco.MjData) -> list[Mark]:
    """Points to mark: joints with their home angles, feet, tip, rotors by number and sense of rotation."""
    found = []
    for joint in robot.joints:
        unit = "m" if joint.slides else "rad"
        number = robot.model.joint(joint.name).id
        found.append(Mark(data.xanchor[number].copy(), f"{joint.name} {joint.home:+.2f} {unit}", JOINT))
    found += [Mark(point, f"foot {name}", FOOT) for name, point in zip(robot.feet, robot.foot_points, strict=True)]
    if robot.kind is Kind.ARM and robot.tip_point is not None:
        found.append(Mark(robot.tip_point, f"tip {robot.tip}", TIP))
    trunk = data.body(robot.trunk)
    for number, rotor in enumerate(robot.rotors, 1):
        assert robot.airframe is not None
        place = np.add(robot.airframe.centre, rotor.position)
        turns = "ccw" if rotor.spin > 0 else "cw"
        point = trunk.xpos + trunk.xmat.reshape(3, 3) @ place
        found.append(Mark(point, f"rotor {number} {turns} {rotor.max_thrust:.3g} N", ROTOR))
    return found


def corners(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """(n, 3) m, world frame: corners of the boxes around all shapes but planes."""
    solid = np.flatnonzero(model.geom_type != int(mujoco.mjtGeom.mjGEOM_PLANE))
    if not len(solid):
        return np.array([[-0.5] * 3, [0.5] * 3])
    signs = np.array(list(itertools.product((-1, 1), repeat=3)))
    boxes = model.geom_aabb[solid]
    local = boxes[:, None, :3] + signs * boxes[:, None, 3:]
    turned = np.einsum("kij,kcj->kci", data.geom_xmat[solid].reshape(-1, 3, 3), local)
    return (data.geom_xpos[solid, None] + turned).reshape(-1, 3)


def distance(points: np.ndarray, aspect: float) -> float:
    """m from which a camera that looks at the origin sees all points (n, 3), in a picture of that width by height."""
    turn, tilt = np.radians(AZIMUTH), np.radians(ELEVATION)
    right = np.array([np.sin(turn), -np.cos(turn), 0.0])
    forward = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    tangent = np.tan(np.radians(FOVY) / 2)
    aside = np.maximum(abs(points @ right) / aspect, abs(points @ np.cross(right, forward))) / tangent
    return AWAY * float((aside - points @ forward).max())


def shown_groups(model: mujoco.MjModel) -> np.ndarray:
    """(6,) which groups of geoms to draw: shapes for the eye where there are any, else those that collide."""
    visual = (model.geom_contype == 0) & (model.geom_conaffinity == 0)
    groups = set(model.geom_group[visual].tolist()) if visual.any() else set(model.geom_group.tolist())
    return np.array([group in groups for group in range(6)], np.uint8)


@dataclasses.dataclass(frozen=True)
class Projection:
    """From the world to pixels."""

    pos: np.ndarray
    """(3,) m, where the eye is."""
    forward: np.ndarray
    """(3,) unit vector."""
    up: np.ndarray
    """(3,) unit vector."""
    size: tuple[int, int]
    """Width and height in pixels."""

    def __call__(self, point: np.ndarray) -> tuple[int, int]:
        """Column and row of a point (3,) m, in the picture with its margins."""
        width, height = self.size
        away = point - self.pos
        depth = max(float(away @ self.forward), 1e-6)
        scale = height / 2 / np.tan(np.radians(FOVY) / 2) / depth
        right = np.cross(self.forward, self.up)
        return int(MARGIN + width / 2 + scale * away @ right), int(height / 2 - scale * away @ self.up)


def _axes(picture: np.ndarray, projection: Projection, data: mujoco.MjData, body: int, length: float) -> None:
    """The base's x, y and z."""
    origin, axes = data.xpos[body], data.xmat[body].reshape(3, 3)
    for index, colour in enumerate(AXES):
        cv2.arrowedLine(
            picture, projection(origin), projection(origin + length * axes[:, index]), colour, 2, cv2.LINE_AA
        )


def _names(picture: np.ndarray, projection: Projection, wanted: list[Mark]) -> None:
    """Names in two columns, each joined to its point by a line."""
    placed = [(projection(mark.point), mark) for mark in wanted]
    for left in (True, False):
        side = [entry for entry in placed if (entry[0][0] < SIZE[0] / 2) == left]
        side.sort(key=lambda entry: entry[0][1])
        top = -LINE
        rows = []
        for (_, row), _ in side:
            top = max(row, top + LINE)
            rows.append(top)
        excess = max(0, (rows[-1] if rows else 0) - (SIZE[1] - LINE))
        for ((column, row), mark), at in zip(side, rows, strict=True):
            height = max(at - excess, LINE)
            wide = cv2.getTextSize(mark.text, cv2.FONT_HERSHEY_SIMPLEX, TEXT, 1)[0][0]
            start = MARGIN - 12 - wide if left else SIZE[0] - MARGIN + 12
            end = MARGIN - 8 if left else SIZE[0] - MARGIN + 8
            cv2.line(picture, (end, height - 4), (column, row), mark.colour, 1, cv2.LINE_AA)
            cv2.circle(picture, (column, row), 4, mark.colour, -1, cv2.LINE_AA)
            cv2.putText(
                picture, mark.text, (max(start, 4), height), cv2.FONT_HERSHEY_SIMPLEX, TEXT, mark.colour, 1, cv2.LINE_AA
            )
