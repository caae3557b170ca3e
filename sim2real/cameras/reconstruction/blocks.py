"""Poses of blocks on a table from their outlines in one picture.

A block of known size that lies on a table of known height has three unknowns: x, y and yaw. They are those at which the
outline of its eight projected corners lies on the outline in the picture, by least squares over the outline's points.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from embodied.errors import EmbodiedError
from embodied.math import transforms
from sim2real.cameras.camera import Camera
from sim2real.cameras.lens import undistort
from sim2real.cameras.reconstruction.colours import Region, regions

TURNS = 8  # yaws to begin with, over those that differ
BAND = 1.0  # pixels of distance beyond which a point of the outline counts less: another block may hide it
POINTS = 240  # of an outline, at most
WORST = 3.0  # pixels, rms: beyond, what is seen is no such block
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


@dataclasses.dataclass(frozen=True)
class Block:
    """A box that is looked for."""

    name: str
    colour: str
    """One of `sim2real.cameras.reconstruction.colours.HUES`."""
    half: tuple[float, float, float] | None = None
    """m, half its edges as it lies; None: a cube of unknown size."""


@dataclasses.dataclass(frozen=True)
class Found:
    """A box that was found."""

    block: Block
    position: np.ndarray
    """(3,) m, its middle, world frame."""
    yaw: float
    """rad about the world's z: the least of those that look alike."""
    half: tuple[float, float, float]
    """m, half its edges."""
    residual: float
    """pixels, rms distance of the outline from the one that the pose has."""

    @property
    def quat(self) -> np.ndarray:
        """(4,) wxyz, block to world."""
        return np.array([np.cos(self.yaw / 2), 0.0, 0.0, np.sin(self.yaw / 2)])


def find(
    image: np.ndarray, camera: Camera, camera_to_world: np.ndarray, blocks: Sequence[Block], table: float = 0.0
) -> list[Found]:
    """The blocks in a picture, in the order of `blocks`; of several of one colour, the larger regions go first.

    Args:
        image: (height, width, 3) uint8 RGB, as the camera took it.
        camera: Calibrated, lens included.
        camera_to_world: (4, 4) in OpenCV's axes.
        blocks: What to look for.
        table: m, height of the table's top in the world.

    Raises:
        EmbodiedError: a block is not seen, or what has its colour does not look like it; names it.
    """
    straight = undistort(image, camera)
    seen: dict[str, list[Region]] = {}
    result = []
    for block in blocks:
        left = seen.setdefault(block.colour, regions(straight, block.colour))
        if not left:
            raise EmbodiedError(f"no {block.colour} region is left in the picture for the block '{block.name}'")
        found = fit(left.pop(0), camera.pinhole, camera_to_world, block, table)
        if found.residual > WORST:
            raise EmbodiedError(
                f"the {block.colour} region does not look like the block '{block.name}': its outline is off by "
                f"{found.residual:.1f} pixels; is it hidden, another size, or not on the table?"
            )
        result.append(found)
    return result


def fit(region: Region, camera: Camera, camera_to_world: np.ndarray, block: Block, table: float) -> Found:
    """The pose whose outline is nearest to a region's; `camera`: a pinhole."""
    from scipy.optimize import least_squares

    outline = region.contour
    outline = outline[:: max(1, len(outline) // POINTS)]
    known = block.half is not None
    square = not known or abs(block.half[0] - block.half[1]) < 1e-9  # type: ignore[index]
    half = np.array(block.half if known else [_edge_guess(region, camera, camera_to_world, table)] * 3)

    def off(values: np.ndarray) -> np.ndarray:
        sizes = half if known else np.full(3, values[3])
        return _off(values, sizes, table, camera, camera_to_world, outline)

    middle = _on_plane(region.centre, camera, camera_to_world, table + half[2])
    best = None
    for turn in np.arange(TURNS) * (np.pi / 2 if square else np.pi) / TURNS:
        start = np.array([*middle, turn] + ([] if known else [half[0]]))
        scale = np.array([0.01, 0.01, 0.1] + ([] if known else [0.005]))
        solution = least_squares(off, start, x_scale=scale, loss="soft_l1", f_scale=BAND, max_nfev=40)
        if best is None or solution.cost < best.cost:
            best = solution
    assert best is not None
    sizes = half if known else np.full(3, best.x[3])
    period = np.pi / 2 if square else np.pi
    return Found(
        block=block,
        position=np.array([best.x[0], best.x[1], table + sizes[2]]),
        yaw=float((best.x[2] + period / 2) % period - period / 2),
        half=tuple(sizes.tolist()),
        residual=float(np.sqrt(np.mean(off(best.x) ** 2))),
    )


def _off(
    values: np.ndarray, half: np.ndarray, table: float, camera: Camera, camera_to_world: np.ndarray, outline: np.ndarray
) -> np.ndarray:
    """(n,) pixels, how far outside of a block's outline each point (n, 2) lies; negative inside."""
    x, y, yaw = values[:3]
    turn = transforms.exponential(np.array([0.0, 0.0, yaw]))
    block_to_world = transforms.pose(turn, np.array([x, y, table + half[2]]))
    corners = camera.project(CORNERS * half, transforms.inverse(camera_to_world) @ block_to_world)
    hull = _hull(corners)
    ahead = np.roll(hull, -1, axis=0) - hull
    normal = np.stack([ahead[:, 1], -ahead[:, 0]], axis=1) / np.linalg.norm(ahead, axis=1, keepdims=True)
    return ((outline[:, None] - hull) * normal).sum(-1).max(axis=1)


def _hull(points: np.ndarray) -> np.ndarray:
    """(m, 2) corners of the convex hull, in such an order that `_off`'s normals point outwards."""
    from scipy.spatial import ConvexHull

    return points[ConvexHull(points).vertices]


def _on_plane(pixel: np.ndarray, camera: Camera, camera_to_world: np.ndarray, height: float) -> np.ndarray:
    """(2,) m, where the ray through a pixel meets a height in the world.

    Raises:
        EmbodiedError: it never does.
    """
    ray = np.array([(pixel[0] - camera.cx) / camera.fx, (pixel[1] - camera.cy) / camera.fy, 1.0])
    direction, origin = camera_to_world[:3, :3] @ ray, camera_to_world[:3, 3]
    along = (height - origin[2]) / direction[2] if abs(direction[2]) > 1e-9 else -1.0
    if along <= 0:
        raise EmbodiedError(f"the camera sees a block above the horizon; is the table at a height of {height:g} m?")
    return (origin + along * direction)[:2]


def _edge_guess(region: Region, camera: Camera, camera_to_world: np.ndarray, table: float) -> float:
    """m, half the edge of a cube whose picture has about as many pixels as a region."""
    place = np.array([*_on_plane(region.centre, camera, camera_to_world, table), table])
    depth = float(np.linalg.norm(place - camera_to_world[:3, 3]))
    # A cube seen from above and aside shows about 1.5 of its faces' area.
    return 0.5 * depth * np.sqrt(region.mask.sum() / 1.5) / np.sqrt(camera.fx * camera.fy)
