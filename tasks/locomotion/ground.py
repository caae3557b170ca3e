"""Ground for legged robots: a flat floor, or rough ground in tiles from easy to hard."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

FLOOR = "scenes/floor.xml"
EARTH = (176, 170, 158)  # RGB of rough ground, 0 to 255


class Terrain(StrEnum):
    """Ground that a robot walks on."""

    FLAT = "flat"
    ROUGH = "rough"


@dataclasses.dataclass(frozen=True)
class Flat:
    """The plane z = 0."""

    levels: ClassVar[int] = 1

    def shape(self, spec: mujoco.MjSpec) -> None:
        """Turn the floor of a scene into this ground."""

    def place(self, uniform: Array, level: Array) -> Array:
        """Start (2,) m of an episode, from `uniform` (4,)."""
        del uniform, level
        return jnp.zeros(2)

    def height(self, xy: Array) -> Array:
        """Height of the ground (...) m below the points `xy` (..., 2) m."""
        return jnp.zeros(xy.shape[:-1])

    def clear_height(self, xy: Array) -> Array:
        """The highest ground (...) m below a robot that stands at `xy` (..., 2) m."""
        return self.height(xy)


@dataclasses.dataclass(frozen=True)
class Rough:
    """Tiles in a height field: a row for each level of difficulty, a column for each kind of ground.

    Every tile is level with the floor at its edge, so that robots may walk from tile to tile and off the field. Tasks
    read heights from the array that MuJoCo collides with, so foot clearance, falls and the critic's scan need no range
    sensors.
    Slopes, stairs and blocks after legged_gym's terrain (Rudin et al. 2021, arXiv:2109.11978), scaled to a quadruped
    of 28 cm height.
    """

    levels: int = 8
    """Rows, from easy to hard."""
    tile: float = 8.0
    """m, side of a tile."""
    cell: float = 0.08
    """m between the points of the height field."""
    max_slope: float = 0.45
    """Rise over run of the hardest slope (24 degrees)."""
    max_noise: float = 0.08
    """m, height of the hardest bumps."""
    max_step: float = 0.13
    """m, height of the hardest stair's steps."""
    max_block: float = 0.14
    """m, height of the hardest blocks."""
    footprint: float = 0.4
    """m around a robot's centre that must be free of ground at the start."""
    sunk: float = 0.02
    """m by which the surrounding floor lies lower, so that no foot touches both."""

    def shape(self, spec: mujoco.MjSpec) -> None:
        floor = spec.geom("floor")
        floor.pos = [0, 0, -self.sunk]
        heights = self.heights
        top = float(heights.max())
        rows, columns = heights.shape
        half_x, half_y = self.cell * (columns - 1) / 2, self.cell * (rows - 1) / 2
        spec.add_hfield(
            name="ground",
            nrow=rows,
            ncol=columns,
            size=[half_x, half_y, top, 1.0],
            userdata=(heights / top).ravel().tolist(),
        )
        spec.worldbody.add_geom(
            name="ground",
            type=mujoco.mjtGeom.mjGEOM_HFIELD,
            hfieldname="ground",
            contype=floor.contype,
            conaffinity=floor.conaffinity,
            condim=floor.condim,
            priority=floor.priority,
            friction=floor.friction,
            material=self._paint(spec),
        )
        # The floor's spot light reaches a few metres; here robots are spread over a field.
        spec.light("sun").type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL

    def _paint(self, spec: mujoco.MjSpec) -> str:
        """A material with the relief drawn on it: without it, pictures show a plain that robots stumble over."""
        shade = self._relief()
        rgb = np.clip(shade[..., None] * np.array(EARTH), 0, 255).astype(np.uint8)
        texture = spec.add_texture(name="relief", type=mujoco.mjtTexture.mjTEXTURE_2D)
        texture.height, texture.width, texture.nchannel = *shade.shape, 3
        texture.data = rgb[::-1].tobytes()  # a picture's first row is its top, the field's is its lower edge
        material = spec.add_material(name="relief", specular=0.1, shininess=0.1)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "relief"
        return "relief"

    def _relief(self) -> np.ndarray:
        """(points along y, points along x) brightness under a low sun, with a line around every tile."""
        along_y, along_x = np.gradient(self.heights, self.cell)
        normal = np.stack([-along_x, -along_y, np.ones_like(along_x)])
        light = np.array([-0.5, 0.4, 0.77])
        shade = 0.2 + 0.8 * np.maximum(np.einsum("i,i...", light, normal), 0) / np.linalg.norm(normal, axis=0)
        count = round(self.tile / self.cell)
        shade[::count], shade[:, ::count] = 0.5, 0.5
        return shade

    @functools.cached_property
    def heights(self) -> np.ndarray:
        """(points along y, points along x) m; the same on every machine."""
        rng = np.random.default_rng(0)
        count = round(self.tile / self.cell)
        rows = [
            np.concatenate([kind(self, count, level / max(self.levels - 1, 1), rng) for kind in KINDS.values()])
            for level in range(self.levels)
        ]
        field = np.concatenate(rows, axis=1)
        return np.pad(field, ((0, 1), (0, 1))).astype(np.float32)

    def place(self, uniform: Array, level: Array) -> Array:
        """Start (2,) m of an episode of `level`, from `uniform` (4,): on a tile of any kind, off its edge."""
        kind = jnp.floor(uniform[0] * len(KINDS))
        inside = 0.15 + 0.7 * uniform[1:3]
        tile = jnp.stack([jnp.asarray(level, jnp.float32), kind]) + inside
        return (tile - jnp.array([self.levels, len(KINDS)]) / 2) * self.tile

    def height(self, xy: Array) -> Array:
        """Height of the ground (...) m below the points `xy` (..., 2) m, interpolated between the field's points."""
        return self._look_up(self.heights, xy)

    def clear_height(self, xy: Array) -> Array:
        return self._look_up(self._highest_around, xy)

    @functools.cached_property
    def _highest_around(self) -> np.ndarray:
        """The largest height within the footprint of each point."""
        reach = round(self.footprint / self.cell)
        highest = self.heights
        for axis in (0, 1):
            padded = np.pad(highest, [(reach, reach) if i == axis else (0, 0) for i in (0, 1)], mode="edge")
            windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis)
            highest = windows.max(-1)
        return highest

    def _look_up(self, field: np.ndarray, xy: Array) -> Array:
        size = np.array(field.shape[::-1], np.float32)
        at = xy / self.cell + (size - 1) / 2
        outside = jnp.any((at < 0) | (at > size - 1), axis=-1)
        rows, columns = at[..., 1], at[..., 0]
        value = jnp.asarray(jax.scipy.ndimage.map_coordinates(jnp.asarray(field), [rows, columns], 1, mode="nearest"))
        return jnp.where(outside, -self.sunk, value)


Kind = Callable[[Rough, int, float, np.random.Generator], np.ndarray]


def _ring(count: int, cell: float) -> np.ndarray:
    """(count, count) m from each point of a tile to its nearest edge."""
    edge = np.minimum(np.arange(count), np.arange(count)[::-1]) * cell
    return np.minimum(edge[:, None], edge[None, :])


def _slope(ground: Rough, count: int, level: float, rng: np.random.Generator) -> np.ndarray:
    """A pyramid with a platform on top."""
    del rng
    return ground.max_slope * (0.1 + 0.9 * level) * np.minimum(_ring(count, ground.cell), 0.35 * ground.tile)


def _noise(ground: Rough, count: int, level: float, rng: np.random.Generator) -> np.ndarray:
    """Bumps, independent every 16 cm."""
    coarse = rng.uniform(0, 1, (-(-count // 2), -(-count // 2)))
    bumps = np.kron(coarse, np.ones((2, 2)))[:count, :count]
    return ground.max_noise * (0.15 + 0.85 * level) * bumps * (_ring(count, ground.cell) > ground.cell)


def _stairs(ground: Rough, count: int, level: float, rng: np.random.Generator) -> np.ndarray:
    """A pyramid of steps 32 cm deep with a platform on top."""
    del rng
    steps = np.floor(np.minimum(_ring(count, ground.cell), 0.35 * ground.tile) / 0.32)
    return ground.max_step * (0.15 + 0.85 * level) * steps


def _blocks(ground: Rough, count: int, level: float, rng: np.random.Generator) -> np.ndarray:
    """Flat blocks of many sizes, scattered."""
    heights = np.zeros((count, count))
    for _ in range(40):
        size = rng.integers(4, 16, 2)
        corner = rng.integers(2, count - 18, 2)
        rise = ground.max_block * (0.15 + 0.85 * level) * rng.uniform(0.3, 1.0)
        heights[corner[0] : corner[0] + size[0], corner[1] : corner[1] + size[1]] = rise
    return heights


KINDS: Mapping[str, Kind] = {"slope": _slope, "noise": _noise, "stairs": _stairs, "blocks": _blocks}
"""Kinds of rough ground -> (ground, points a side, level in [0, 1], random numbers) -> heights (points, points) m."""
