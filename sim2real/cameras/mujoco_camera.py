"""A calibrated camera in MuJoCo: the same picture, without the lens.

MuJoCo's camera looks along -z with y up; OpenCV's along z with y down, so the one is the other turned by 180 degrees
about x. MuJoCo's principal point is an offset from the image's middle, against both of OpenCV's image axes, which is
verified by reprojection: `difference` compares the two models, tests compare them with what is drawn.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from embodied.errors import UnknownNameError
from embodied.math import transforms
from sim2real.cameras.camera import Camera, CameraError

if TYPE_CHECKING:
    import mujoco

PITCH = 3e-6  # m between pixels, of a typical sensor. Only its product with pixel counts is used, so any value will do
MUJOCO_TO_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])
"""(4, 4) from MuJoCo's camera axes to OpenCV's; its own inverse."""


@dataclasses.dataclass(frozen=True)
class Attributes:
    """Attributes of MuJoCo's camera element."""

    pos: np.ndarray
    """(3,) m, in the parent's frame."""
    quat: np.ndarray
    """(4,) wxyz, camera (MuJoCo's axes) to parent."""
    resolution: tuple[int, int]
    focalpixel: tuple[float, float]
    principalpixel: tuple[float, float]
    sensorsize: tuple[float, float]
    """m."""

    @staticmethod
    def of(camera: Camera, camera_to_parent: np.ndarray) -> Attributes:
        """Those of a camera at a transform (4, 4) in OpenCV's axes. Its distortion is left out: MuJoCo has none."""
        turned = camera_to_parent @ MUJOCO_TO_OPENCV
        return Attributes(
            pos=turned[:3, 3].copy(),
            quat=transforms.wxyz_from_matrix(turned[:3, :3]),
            resolution=(camera.width, camera.height),
            focalpixel=(camera.fx, camera.fy),
            principalpixel=((camera.width - 1) / 2 - camera.cx, (camera.height - 1) / 2 - camera.cy),
            sensorsize=(camera.width * PITCH, camera.height * PITCH),
        )

    def mjcf(self, name: str) -> str:
        """The element, to be pasted into a body."""
        numbers = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        text = " ".join(f'{key}="{" ".join(f"{value:.9g}" for value in values)}"' for key, values in numbers.items())
        return f'<camera name="{name}" {text}/>'


def add_to(body: mujoco.MjsBody, name: str, camera: Camera, camera_to_body: np.ndarray) -> mujoco.MjsCamera:
    """Fix a camera to a body of a scene.

    Args:
        body: Of a `mujoco.MjSpec`; its `worldbody` for a camera that stands still.
        name: Of the camera.
        camera: Its distortion is left out, see `sim2real.cameras.lens.Lens`.
        camera_to_body: (4, 4) in OpenCV's axes.
    """
    said = Attributes.of(camera, camera_to_body)
    added = body.add_camera(name=name, pos=said.pos, quat=said.quat)
    added.resolution, added.sensor_size = said.resolution, said.sensorsize
    added.focal_pixel, added.principal_pixel = said.focalpixel, said.principalpixel
    return added


def read(model: mujoco.MjModel, name: str) -> Camera:
    """The camera of a model, as OpenCV describes it.

    Raises:
        UnknownNameError: the model has no such camera.
        CameraError: the camera has no sensor size, so nothing but its angle of view is known.
    """
    number = number_of(model, name)
    width, height = (int(n) for n in model.cam_resolution[number])
    sensor = model.cam_sensorsize[number]
    if not sensor.all():
        raise CameraError(f"camera '{name}' has no sensorsize and focalpixel; it is described by fovy alone")
    fx, fy, right, down = model.cam_intrinsic[number] / np.tile(sensor / [width, height], 2)
    return Camera(width, height, float(fx), float(fy), float((width - 1) / 2 - right), float((height - 1) / 2 - down))


def camera_to_world(data: mujoco.MjData, name: str) -> np.ndarray:
    """(4, 4) where a camera is, in OpenCV's axes; after `mj_forward`."""
    number = number_of(data.model, name)
    return transforms.pose(data.cam_xmat[number].reshape(3, 3), data.cam_xpos[number]) @ MUJOCO_TO_OPENCV


def project(model: mujoco.MjModel, data: mujoco.MjData, name: str, points: np.ndarray) -> np.ndarray:
    """(n, 2) pixels at which MuJoCo draws points (n, 3) of the world, in m, in OpenCV's pixel coordinates.

    From MuJoCo's own numbers: the frustum that its renderer makes of `cam_intrinsic` and `cam_sensorsize`.

    Raises:
        UnknownNameError: there is no such camera.
    """
    number = number_of(model, name)
    local = (points - data.cam_xpos[number]) @ data.cam_xmat[number].reshape(3, 3)
    slope = local[:, :2] / -local[:, 2:]  # right and up, per unit of depth
    sensor, intrinsic = model.cam_sensorsize[number], model.cam_intrinsic[number]
    # A positive offset moves the picture to the left and up.
    shown = slope * intrinsic[:2] + intrinsic[2:] * [-1.0, 1.0]
    share = shown / sensor + 0.5  # 0 to 1 from left to right and from bottom to top
    return np.stack([share[:, 0], 1 - share[:, 1]], axis=1) * model.cam_resolution[number] - 0.5


def difference(model: mujoco.MjModel, data: mujoco.MjData, name: str, camera: Camera, to_world: np.ndarray) -> float:
    """pixels, largest distance between where MuJoCo and the calibrated pinhole show the same points of the view.

    Args:
        model: The compiled scene.
        data: After `mj_forward`.
        name: Of the camera.
        camera: What it should be.
        to_world: (4, 4) camera_to_world, where it should be, in OpenCV's axes.

    Raises:
        UnknownNameError: there is no such camera.
    """
    columns, rows = np.meshgrid(np.linspace(0, camera.width - 1, 9), np.linspace(0, camera.height - 1, 7))
    rays = np.stack([(columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy, np.ones_like(rows)], -1)
    points = np.concatenate([depth * rays.reshape(-1, 3) for depth in (0.2, 1.0, 5.0)])  # m
    points_w = points @ to_world[:3, :3].T + to_world[:3, 3]
    expected = camera.pinhole.project(points, np.eye(4))
    return float(np.linalg.norm(project(model, data, name, points_w) - expected, axis=1).max())


def number_of(model: mujoco.MjModel, name: str) -> int:
    """Index of a camera; an `UnknownNameError` where the model has none of this name."""
    known = [model.camera(number).name for number in range(model.ncam)]
    if name not in known:
        raise UnknownNameError("camera", name, known)
    return known.index(name)
