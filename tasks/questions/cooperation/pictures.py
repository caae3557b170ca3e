"""Pictures of scenes: the robots at rest, or an arm at the start of a path; numbered objects; a path's two ends.

Drawn by MuJoCo's renderer, which needs EGL, OSMesa or a display; the same scene gives the same bytes on one machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import cv2
import mujoco
import numpy as np

from embodied.core.scenes import compile_spec, load_spec
from embodied.rendering import opengl
from tasks.grasping.clutter.pictures import SCALE, Picture
from tasks.grasping.objects.model import add_object
from tasks.grasping.objects.pointclouds import Camera, PlacedObject
from tasks.grasping.objects.shapes import quaternion
from tasks.manipulation.common.panda import ARM_JOINTS, ASSET, FINGER_JOINTS, FINGER_LIMITS
from tasks.questions.cooperation.paths import LEVEL, PathTask
from tasks.questions.cooperation.robots import CRAZYFLIE, Arm, Robot
from tasks.questions.cooperation.scenes import VIEW, CooperationScene

SCENE = "scenes/long_table.xml"
REST = (1.9, -1.2, 0.0, -2.6, 0.0, 1.5, -0.785)
"""(7,) rad: folded, turned to the far side of the left arm's foot, so that the camera sees what stands before it; the
right arm's is the mirror image."""
PART = "thing_"  # prefix of the names of objects' and places' bodies
START, END = (20, 150, 60), (200, 30, 160)  # RGB of a path's ends
WHITE = (255, 255, 255)


def model_of(scene: CooperationScene, camera: Camera = VIEW) -> mujoco.MjModel:
    """The scene with its robots, their names before their parts' ("left arm/joint1"), and the camera `view`.

    Objects are free bodies `thing_1`, `thing_2`, ...; places stand still. At qpos0 everything stands as in the scene;
    arms are straight up (`pose` folds them).
    """
    spec = load_spec(SCENE)
    spec.worldbody.add_camera(name="view", pos=camera.pos, quat=camera.quat, fovy=camera.fovy)
    for robot in scene.robots:
        _add_robot(spec, robot)
    for place in scene.places:
        _add_fixed(spec, place.placed, place.name)
    for mark, placed in enumerate(scene.objects, 1):
        body = add_object(spec, placed.item, f"{PART}{mark}")
        body.pos, body.quat = placed.pos, placed.quat
    return compile_spec(spec)


def _add_robot(spec: mujoco.MjSpec, robot: Robot) -> None:
    arm = isinstance(robot, Arm)
    turn = np.array([np.cos(robot.yaw / 2), 0, 0, np.sin(robot.yaw / 2)]) if arm else np.array([1.0, 0, 0, 0])
    child = load_spec(ASSET if arm else CRAZYFLIE)
    spec.attach(child, prefix=f"{robot.name}/", frame=spec.worldbody.add_frame(pos=robot.pos, quat=turn))


def _add_fixed(spec: mujoco.MjSpec, placed: PlacedObject, name: str) -> None:
    body = spec.worldbody.add_body(name=name, pos=placed.pos, quat=placed.quat)
    for part in placed.item.parts:
        size = [*part.size, 0.0, 0.0][:3]
        rgba = part.rgba or placed.item.rgba
        body.add_geom(type=part.shape.value, size=size, pos=part.pos, quat=part.quat, rgba=rgba)


def pose(model: mujoco.MjModel, scene: CooperationScene, joints: Mapping[str, np.ndarray]) -> mujoco.MjData:
    """Robots at rest, but for arms whose `joints` (7,) rad are given; the drone faces the shelf."""
    data = mujoco.MjData(model)
    for robot in scene.robots:
        if isinstance(robot, Arm):
            mirror = np.array([1.0 if robot.pos[0] < 0 else -1.0, *[1.0] * 6])
            for name, value in zip(ARM_JOINTS, joints.get(robot.name, mirror * REST), strict=True):
                data.joint(f"{robot.name}/{name}").qpos[0] = value
            for name in FINGER_JOINTS:
                data.joint(f"{robot.name}/{name}").qpos[0] = FINGER_LIMITS[1]
        else:
            ahead = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
            data.joint(f"{robot.name}/root").qpos[:] = [*robot.pos, *quaternion(ahead)]
    mujoco.mj_forward(model, data)
    return data


def render_picture(
    scene: CooperationScene, camera: Camera = VIEW, joints: Mapping[str, np.ndarray] | None = None
) -> Picture:
    """The picture; `labels` are the objects' marks, 0 elsewhere. Raises where nothing here can draw."""
    model = model_of(scene, camera)
    data = pose(model, scene, joints or {})
    marks = _marks(model)
    with opengl.renderer(model, (camera.width, camera.height)) as renderer:
        renderer.update_scene(data, "view")
        colour = renderer.render().copy()
        renderer.enable_depth_rendering()
        depth = renderer.render().copy()
        renderer.disable_depth_rendering()
        renderer.enable_segmentation_rendering()
        ids = renderer.render()[..., 0]
    labels = np.where(ids >= 0, marks[np.maximum(ids, 0)], 0).astype(np.uint8)
    return Picture(colour, labels, np.clip(np.round(depth * SCALE), 0, 65535).astype(np.uint16))


def _marks(model: mujoco.MjModel) -> np.ndarray:
    """(geoms,) the mark of the object that each is a part of, 0 for none."""
    names = [model.body(int(body)).name for body in model.geom_bodyid]
    return np.array([int(name.removeprefix(PART)) if name.startswith(PART) else 0 for name in names])


def path_picture(scene: CooperationScene, task: PathTask, camera: Camera = VIEW) -> Picture:
    """The arm at the start of a path, and the path's ends, S and E."""
    arm = arm_of(scene, task)
    joints = arm.joints((*task.path[0], LEVEL))
    picture = render_picture(scene, camera, {} if joints is None else {arm.name: joints})
    ends = pixels_of(task.path[[0, -1]], camera)
    image = np.ascontiguousarray(picture.colour)
    for (x, y), letter, ink in zip(ends, "SE", (START, END), strict=True):
        centre = round(x - 0.5), round(y - 0.5)
        cv2.circle(image, centre, 9, ink, -1, cv2.LINE_AA)
        cv2.circle(image, centre, 9, WHITE, 1, cv2.LINE_AA)
        cv2.putText(
            image, letter, (centre[0] - 5, centre[1] + 5), cv2.FONT_HERSHEY_SIMPLEX, 0.45, WHITE, 1, cv2.LINE_AA
        )
    return dataclasses.replace(picture, colour=image)


def arm_of(scene: CooperationScene, task: PathTask) -> Arm:
    return next(robot for robot in scene.robots if isinstance(robot, Arm) and robot.name == task.arm)


def pixels_of(path: np.ndarray | Sequence[Sequence[float]], camera: Camera = VIEW) -> np.ndarray:
    """(n, 2) pixels of tcp positions (n, 2) m at `LEVEL`."""
    points = np.asarray(path, float)
    return camera.pixels(np.column_stack([points, np.full(len(points), LEVEL)]))
