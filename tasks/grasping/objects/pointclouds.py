"""Point clouds of objects: the part of their surface that a depth camera sees.

    camera = Camera.looking_at((0, 0, 0.05), eye=(0.4, 0, 0.4))
    seen = visible_cloud([PlacedObject(household("mug"), pos=(0, 0, 0.041))], camera, seed=0)

Rays are traced through the signed distance of the primitives (Hart, "Sphere tracing", The Visual Computer 12, 1996), so
nothing needs a renderer or a compiled model. For a whole scene with a robot in it, render depth instead.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.shapes import Points, matrix, quaternion, vector

TOUCH = 1e-5  # m from a surface at which a ray has met it
LONGEST = 200  # steps after which a ray that grazes a surface is given up
NUDGE = 1e-5  # m, step of the differences that give normals


@dataclasses.dataclass(frozen=True)
class Cloud:
    """Points on surfaces."""

    points: Points
    """(n, 3) m."""
    normals: np.ndarray
    """(n, 3) outward unit normals of the true surface, without noise; at an edge, between those of its faces."""
    labels: np.ndarray
    """(n,) int, number of the object that each point is on."""


@dataclasses.dataclass(frozen=True)
class PlacedObject:
    """An object at a pose."""

    item: ObjectSpec
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m, its frame in the world."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """wxyz, its frame -> the world's."""

    def distance(self, points: Points) -> np.ndarray:
        """(n,) m, signed distance of points of the world."""
        return self.item.distance((points - np.array(self.pos)) @ matrix(self.quat))


@dataclasses.dataclass(frozen=True)
class DepthNoise:
    """Error of a depth camera along the optical axis, normal, independent from pixel to pixel.

    Standard deviation base + growth (z - 0.4 m)^2, the axial noise of a structured-light camera (Nguyen, Izadi and
    Lovell, "Modeling Kinect sensor noise for improved 3D reconstruction and tracking", 3DIMPVT 2012, eq. 1).
    """

    base: float = 0.0012
    """m; Nguyen et al."""
    growth: float = 0.0019
    """1/m; Nguyen et al."""

    def deviation(self, depth: np.ndarray) -> np.ndarray:
        """(n,) m, for depths (n,) m."""
        return self.base + self.growth * (depth - 0.4) ** 2


@dataclasses.dataclass(frozen=True)
class Camera:
    """A pinhole camera as MuJoCo has it: it looks along its -z axis, x to the right, y up."""

    pos: tuple[float, float, float]
    """m."""
    quat: tuple[float, float, float, float]
    """wxyz, its frame -> the world's."""
    fovy: float = 45.0
    """degrees, vertical field of view."""
    width: int = 160
    """pixels."""
    height: int = 120
    """pixels."""

    def __post_init__(self) -> None:
        if not 0 < self.fovy < 180 or self.width < 1 or self.height < 1:
            raise EmbodiedError(
                f"a camera of {self.width} x {self.height} pixels and fovy={self.fovy} degrees; expected at least one "
                "pixel and an angle between 0 and 180"
            )

    @classmethod
    def looking_at(
        cls, target: Sequence[float], eye: Sequence[float], fovy: float = 45.0, width: int = 160, height: int = 120
    ) -> Camera:
        """A camera at `eye` (3,) m that looks at `target` (3,) m, its picture's top upwards (+z)."""
        back = np.subtract(eye, target).astype(float)
        if np.linalg.norm(back) < 1e-9:
            raise EmbodiedError(f"a camera at {tuple(eye)} cannot look at the point where it stands")
        back /= np.linalg.norm(back)
        # Straight down, the picture's top is +y.
        up = np.array([0.0, 0.0, 1.0]) if abs(back[2]) < 0.9999 else np.array([0.0, 1.0, 0.0])
        right = np.cross(up, back)
        right /= np.linalg.norm(right)
        turn = np.stack([right, np.cross(back, right), back], -1)
        return cls(vector(eye), quaternion(turn), fovy, width, height)

    @property
    def rays(self) -> np.ndarray:
        """(height * width, 3) unit directions through the pixels' middles, in the world, row by row from the top."""
        return _rays(self)

    def pixels(self, points: Points) -> np.ndarray:
        """(n, 2) where points (n, 3) m of the world, before the camera, are in the picture: from its left and its top.

        The middle of the first pixel is (0.5, 0.5).
        """
        local = (np.asarray(points, float) - np.array(self.pos)) @ matrix(self.quat)
        flat = local[:, :2] / (-local[:, 2:] * self._scale)
        return flat * [1.0, -1.0] + [self.width / 2, self.height / 2]

    def onto_level(self, pixels: np.ndarray, height: float) -> np.ndarray:
        """(n, 3) m: the points at z = `height` that are seen at pixels (n, 2); nan where a ray does not get there."""
        flat = (np.asarray(pixels, float) - [self.width / 2, self.height / 2]) * [self._scale, -self._scale]
        rays = np.column_stack([flat, -np.ones(len(flat))]) @ matrix(self.quat).T
        with np.errstate(divide="ignore", invalid="ignore"):
            along = (height - self.pos[2]) / rays[:, 2]
            return np.where(along[:, None] > 0, np.array(self.pos) + along[:, None] * rays, np.nan)

    @property
    def _scale(self) -> float:
        """Side of a pixel at distance 1."""
        return 2 * math.tan(math.radians(self.fovy) / 2) / self.height


@functools.lru_cache(maxsize=4)
def _rays(camera: Camera) -> np.ndarray:
    """`Camera.rays`, kept for the next picture."""
    scale = camera._scale
    right = (np.arange(camera.width) + 0.5 - camera.width / 2) * scale
    up = (camera.height / 2 - np.arange(camera.height) - 0.5) * scale
    grid = np.stack([*np.meshgrid(right, up), -np.ones((camera.height, camera.width))], -1).reshape(-1, 3)
    rays = grid / np.linalg.norm(grid, axis=-1, keepdims=True) @ matrix(camera.quat).T
    rays.flags.writeable = False
    return rays


def visible_cloud(
    scene: Sequence[PlacedObject],
    camera: Camera,
    count: int | None = None,
    noise: DepthNoise | None = None,
    seed: int = 0,
) -> Cloud:
    """Depth camera's points of some objects, one for each pixel that meets one, in the world's frame.

    Args:
        scene: The objects; those in front hide those behind. Labels are their numbers.
        camera: The depth camera.
        count: Keep at most that many points, chosen at random; None: all.
        noise: Error of the depth; None: exact.
        seed: Seed of the choice and the noise.

    Returns:
        The cloud; empty where the camera sees none of them.

    Raises:
        EmbodiedError: `count` is not positive.
    """
    if count is not None and count < 1:
        raise EmbodiedError(f"count={count}; expected at least 1")
    random = np.random.default_rng(seed)
    rays, eye = camera.rays, np.array(camera.pos)
    depth, labels = trace(scene, eye, rays)
    met = np.flatnonzero(labels >= 0)
    if count is not None and len(met) > count:
        met = np.sort(random.choice(met, count, replace=False))
    rays, depth, labels = rays[met], depth[met], labels[met]
    points = eye + depth[:, None] * rays
    normals = np.zeros_like(points)
    for number, placed in enumerate(scene):
        normals[labels == number] = surface_normals(placed, points[labels == number])
    if noise is not None:
        along = rays @ -matrix(camera.quat)[:, 2]
        error = random.normal(size=len(depth)) * noise.deviation(depth * along)
        points = points + (error / along)[:, None] * rays
    return Cloud(points, normals, labels)


def trace(scene: Sequence[PlacedObject], eye: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances along rays, and the objects that they meet.

    Args:
        scene: The objects.
        eye: (3,) m, where all rays begin.
        rays: (n, 3) unit directions.

    Returns:
        (n,) m, and (n,) the number of the object met, -1 where none is. A ray that begins inside one meets it at once.
    """
    depth, labels = np.full(len(rays), np.inf), np.full(len(rays), -1)
    for number, placed in enumerate(scene):
        found = _trace_one(placed, eye, rays)
        nearer = found < depth
        depth[nearer], labels[nearer] = found[nearer], number
    return depth, labels


def _trace_one(placed: PlacedObject, eye: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """(n,) m along each ray to one object, infinite where it passes."""
    low, high = placed.item.bounds
    radius = float(np.linalg.norm(high - low)) / 2 + 1e-6
    turn = matrix(placed.quat)
    # Everything in the object's frame, and only for rays that meet the ball around its bounding box.
    start = (eye - np.array(placed.pos)) @ turn - (low + high) / 2
    directions = rays @ turn
    nearest = -(directions @ start)
    gap = radius**2 - (start @ start - nearest**2)
    reach = nearest + np.sqrt(np.maximum(gap, 0))
    live = np.flatnonzero((gap > 0) & (reach > 0))
    result = np.full(len(rays), np.inf)
    far = np.maximum(nearest - np.sqrt(np.maximum(gap, 0)), 0.0)
    origin = start + (low + high) / 2
    for _ in range(LONGEST):
        if not len(live):
            break
        step = placed.item.distance(origin + far[live, None] * directions[live])
        met = step < TOUCH
        result[live[met]] = far[live[met]]
        far[live] += step
        live = live[~met & (far[live] < reach[live])]
    return result


def surface_normals(placed: PlacedObject, points: Points) -> np.ndarray:
    """(n, 3) unit gradients of the signed distance."""
    steps = NUDGE * np.eye(3)
    gradient = np.stack([placed.distance(points + step) - placed.distance(points - step) for step in steps], -1)
    return gradient / np.maximum(np.linalg.norm(gradient, axis=-1, keepdims=True), 1e-12)
