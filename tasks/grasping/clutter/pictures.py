"""Pictures of clutter without OpenGL: rays, one lamp with soft shadows, numbered marks; the same bytes everywhere.

picture = render_picture(scene.objects, scene.camera)
marked = draw_marks(picture)          # numbers on the objects, from 1, as in `picture.labels`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import cv2
import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.clutter.ray_casting import cast_rays
from tasks.grasping.objects.pointclouds import Camera, PlacedObject, surface_normals
from tasks.grasping.objects.shapes import matrix

Image = np.ndarray
"""(height, width, 3) uint8, red, green, blue."""

FINER = 2  # rays along each side of a pixel, in colour
LAMP = np.array([[-0.50, -0.35, 1.3], [-0.42, -0.27, 1.3], [-0.42, -0.35, 1.32], [-0.50, -0.27, 1.28]])
"""(4, 3) m: the lamp is four points near one another, so that shadows have soft edges."""
AMBIENT, DIFFUSE, SHINE = 0.42, 0.66, 0.16  # shares of light: from everywhere, from the lamp, mirrored
SHARPNESS = 24  # exponent of the lamp's mirror image (Blinn and Phong)
TABLE = (np.array([0.80, 0.74, 0.66]), np.array([0.755, 0.695, 0.615]))  # colours of planks
PLANK = 0.09  # m, a plank's width
LIFTED = 1e-4  # m above a surface from which rays to the lamp begin
MARK = ((28, 30, 34), (255, 255, 255))  # a mark's disc and its digits
SCALE = 10_000  # units of a depth picture per m


@dataclasses.dataclass(frozen=True)
class Picture:
    """Camera picture of some objects on a table."""

    colour: Image
    labels: np.ndarray
    """(height, width) uint8: 1 for the first object, 2 for the second, ...; 0 where there is none."""
    depth: np.ndarray
    """(height, width) uint16, tenths of a mm along the optical axis; 0 where it looks past everything."""


def render_picture(objects: Sequence[PlacedObject], camera: Camera) -> Picture:
    """The picture; labels and depth through the pixels' middles, colours a mean of `FINER`^2 rays."""
    fine = dataclasses.replace(camera, width=FINER * camera.width, height=FINER * camera.height)
    colour = _shaded(objects, fine).reshape(camera.height, FINER, camera.width, FINER, 3).mean((1, 3))
    rays, eye = camera.rays, np.array(camera.pos)
    depth, owner, _ = _first(objects, eye, rays)
    depth = np.minimum(depth, _table(eye, rays))
    along = depth * (rays @ -matrix(camera.quat)[:, 2])
    scaled = np.where(np.isfinite(along), np.minimum(np.round(along * SCALE), 65535), 0)
    shape = camera.height, camera.width
    # Gamma 2.2: light is added up in linear shares, pictures store them as the eye feels them.
    rgb = np.round(255 * np.clip(colour, 0, 1) ** (1 / 2.2))
    return Picture(
        rgb.astype(np.uint8), (owner + 1).astype(np.uint8).reshape(shape), scaled.astype(np.uint16).reshape(shape)
    )


def draw_marks(picture: Picture) -> Image:
    """The picture with each object's number on it, where there is most room; none on what is not seen at all."""
    image = np.ascontiguousarray(picture.colour)
    size = max(0.4, picture.labels.shape[0] / 900)
    for number in np.unique(picture.labels[picture.labels > 0]):
        room = cv2.distanceTransform(np.pad((picture.labels == number).astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
        y, x = np.unravel_index(int(np.argmax(room)), room.shape)
        text = str(number)
        (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
        radius = int(0.75 * max(width, height)) + 2
        centre = int(x), int(y)
        if room[y, x] < radius:
            # A mark would cover what little is seen: it stands above, and a line leads there.
            point, centre = centre, (centre[0], max(radius, centre[1] - 3 * radius))
            cv2.line(image, point, centre, MARK[0], 1, cv2.LINE_AA)
        cv2.circle(image, centre, radius, MARK[0], -1, cv2.LINE_AA)
        corner = centre[0] - width // 2, centre[1] + height // 2
        cv2.putText(image, text, corner, cv2.FONT_HERSHEY_SIMPLEX, size, MARK[1], 1, cv2.LINE_AA)
    return image


def png(image: np.ndarray) -> bytes:
    """A picture (height, width) or (height, width, 3) as a PNG file's content."""
    done, data = cv2.imencode(".png", image[..., ::-1] if image.ndim == 3 else image)
    if not done:
        raise EmbodiedError(f"cannot encode a picture of shape {image.shape} and type {image.dtype}")
    return data.tobytes()


def _first(
    objects: Sequence[PlacedObject], eye: np.ndarray, rays: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) m to the first object, its number and its part's; inf and -1 where there is none."""
    depth, owner, part = np.full(len(rays), np.inf), np.full(len(rays), -1), np.full(len(rays), -1)
    for number, placed in enumerate(objects):
        found, met = cast_rays(placed, eye, rays)
        nearer = found < depth
        depth[nearer], owner[nearer], part[nearer] = found[nearer], number, met[nearer]
    return depth, owner, part


def _table(eye: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """(n,) m to the plane z = 0."""
    return np.where(rays[:, 2] < 0, -eye[2] / np.minimum(rays[:, 2], -1e-9), np.inf)


def _shaded(objects: Sequence[PlacedObject], camera: Camera) -> np.ndarray:
    """(pixels, 3) linear light."""
    rays, eye = camera.rays, np.array(camera.pos)
    depth, owner, part = _first(objects, eye, rays)
    ground = _table(eye, rays)
    on_table = (owner < 0) & np.isfinite(ground)
    depth = np.where(on_table, ground, depth)
    hit = np.isfinite(depth)
    points = eye + np.where(hit, depth, 0.0)[:, None] * rays
    normals = np.tile([0.0, 0.0, 1.0], (len(rays), 1))
    # Rays past the table's edge meet a bright wall.
    albedo = np.full((len(rays), 3), 0.85)
    plank = np.floor(points[on_table, 0] / PLANK).astype(int) % 2
    albedo[on_table] = np.where(plank[:, None] == 0, *TABLE) ** 2.2
    for number, placed in enumerate(objects):
        seen = np.flatnonzero(owner == number)
        normals[seen] = surface_normals(placed, points[seen])
        colours = np.array([piece.rgba or placed.item.rgba for piece in placed.item.parts])[:, :3]
        albedo[seen] = colours[part[seen]] ** 2.2
    light = np.full((len(rays), 3), 1.0)
    light[hit] = AMBIENT * (0.75 + 0.25 * normals[hit, 2:])
    mirrored = np.zeros(len(rays))
    towards = _lamps(camera) - points
    distance = np.linalg.norm(towards, axis=1)
    towards /= distance[:, None]
    facing = np.einsum("nk,nk->n", normals, towards)
    lit = np.flatnonzero(hit & (facing > 0))
    lit = lit[~_shadowed(objects, points[lit] + LIFTED * normals[lit], towards[lit], distance[lit])]
    light[lit] += DIFFUSE * facing[lit, None]
    half = towards[lit] - rays[lit]
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    glance = np.clip(np.einsum("nk,nk->n", normals[lit], half), 0, 1) ** SHARPNESS
    mirrored[lit] = np.where(owner[lit] >= 0, SHINE * glance, 0.0)
    return albedo * light + mirrored[:, None]


def _lamps(camera: Camera) -> np.ndarray:
    """(pixels, 3) m: the rays of a pixel are lit by one of the lamp's points each."""
    row, column = np.indices((camera.height, camera.width))
    return LAMP[(FINER * (row % FINER) + column % FINER).ravel() % len(LAMP)]


def _shadowed(
    objects: Sequence[PlacedObject], points: np.ndarray, towards: np.ndarray, distance: np.ndarray
) -> np.ndarray:
    """(n,) bool, whether anything is between points and the lamp."""
    dark = np.zeros(len(points), bool)
    for placed in objects:
        lit = np.flatnonzero(~dark)
        found, _ = cast_rays(placed, points[lit], towards[lit])
        dark[lit[found < distance[lit]]] = True
    return dark
