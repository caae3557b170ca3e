"""Whether obstruction graphs are right: cast by our rays, against three other computations, on many scenes.

`pixels`: MuJoCo's own ray casting in the compiled scene (C, `mj_ray`), through the same pixels' middles. Shares no code
with ours behind the description of the objects. Must be equal, edge for edge. (Not `mj_multiRay`: MuJoCo 3.17's passes
over some rays that `mj_ray` finds to meet a box.)
`area`: our rays through `SUBDIVISION`^2 places in each pixel: shares are areas then, and no longer counts of pixels.
Edges may differ where the exact share is so near to `LEAST` that pixels cannot decide; how many are that near, and by
how much shares differ at all, is reported.
`opengl`: depth pictures of each object alone, drawn by MuJoCo's renderer; left out where nothing can draw. It draws
round shapes as polyhedra, and its depths are of single precision.

python -m benchmarks.clutter_graph --scenes 1000 --json FILE
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.rates import wilson
from embodied.rendering.opengl import choose_backend
from tasks.grasping.clutter.graph import LEAST, Difficulty, ratios_of
from tasks.grasping.clutter.ray_casting import depth_images
from tasks.grasping.clutter.scenes import ClutterConfig, ClutterScene, clutter_scene
from tasks.grasping.objects.pointclouds import Camera
from tasks.grasping.objects.shapes import matrix

SUBDIVISION = 3  # rays along each side of a pixel
SMALL = 2 * LEAST  # of a silhouette: shares below it show how exact pixels are where edges are decided
NEAR = 0.003  # of a silhouette: shares that near to `LEAST` count as undecided by pixels
HIDDEN, SHOWN = 5, 0  # groups of geoms
ONLY = np.array([1, 0, 0, 0, 0, 0], np.uint8)  # the group `SHOWN`
VISIBLE = (0, 2)  # groups that show an object's true shape; 3 holds the prisms that stand for cylinders in contacts
SLICES = 64  # of round shapes, when drawn
WANTED = (None, *Difficulty)
"""Difficulties, scene after scene: any, and each of them."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    scenes: int = 1000
    """Number of scenes, seeds from 0."""
    opengl: bool = True
    """Compare with drawn pictures, too, where this machine can draw."""
    json: Path | None = None
    """File for the results."""


@guard
def main() -> None:
    """Measure and print."""
    settings = tyro.cli(Settings)
    if settings.scenes < 1:
        raise EmbodiedError(f"--scenes {settings.scenes}; expected at least 1")
    methods: dict[str, Callable[[Sight], np.ndarray]] = {"pixels": Sight.pixels, "area": Sight.area}
    if settings.opengl and _can_draw():
        methods["opengl"] = Sight.opengl
    tallies = {name: Tally() for name in methods}
    seconds: collections.Counter[str] = collections.Counter()
    came: collections.Counter[str] = collections.Counter()
    objects = edges = 0
    began = time.monotonic()
    with cli.Line("scenes", settings.scenes) as line:
        for seed in range(settings.scenes):
            start = time.monotonic()
            scene = clutter_scene(seed, ClutterConfig(difficulty=WANTED[seed % len(WANTED)]))
            seconds["generate"] += time.monotonic() - start  # pyright: ignore
            start = time.monotonic()
            ours = ratios_of(scene.names, depth_images(scene.objects, scene.camera))
            seconds["graph"] += time.monotonic() - start  # pyright: ignore
            sight = Sight(scene)
            for name, method in methods.items():
                tallies[name].add(seed, ours, method(sight))
            objects, edges = objects + len(scene.names), edges + len(scene.graph.edges)
            came[scene.difficulty.value] += 1
            equal = ", ".join(f"{name} {tally.equal}" for name, tally in tallies.items())
            line.update(seed + 1, f"equal: {equal}")
    results = {name: tally.summary() for name, tally in tallies.items()}
    for name, row in results.items():
        cli.show(cli.table(name, {key: str(value) for key, value in row.items()}))
    values = {
        "scenes": settings.scenes,
        "objects": objects,
        "edges": edges,
        "difficulties": dict(came),
        "least": LEAST,
        "near": NEAR,
        "rays_per_pixel": SUBDIVISION**2,
        "generate_seconds": seconds["generate"],
        "graph_seconds": seconds["graph"],
        "seconds": time.monotonic() - began,
        "results": results,
    }
    cli.write_result(settings.json, cli.command_line("benchmarks.clutter_graph"), values)


class Tally:
    """Comparison of our graphs with those of another computation."""

    def __init__(self) -> None:
        """Nothing compared yet."""
        self.equal = self.scenes = self.edges = self.clear_scenes = self.clear_equal = 0
        self.near = self.differ = self.differ_clear = 0
        self.errors: list[np.ndarray] = []
        self.small: list[np.ndarray] = []
        self.unequal: list[int] = []

    def add(self, seed: int, ours: np.ndarray, theirs: np.ndarray) -> None:
        """One scene: hidden shares (n, n), before `LEAST` is applied."""
        off = ~np.eye(len(ours), dtype=bool)
        ours, theirs = ours[off], theirs[off]
        wrong = (ours >= LEAST) != (theirs >= LEAST)
        near = np.abs(theirs - LEAST) < NEAR
        self.scenes += 1
        self.equal += not wrong.any()
        self.clear_scenes += not near.any()
        self.clear_equal += not near.any() and not wrong.any()
        self.edges += int((theirs >= LEAST).sum())
        self.near += int(near.sum())
        self.differ += int(wrong.sum())
        self.differ_clear += int((wrong & ~near).sum())
        self.errors.append(np.abs(ours - theirs)[(ours > 0) | (theirs > 0)])
        self.small.append(np.abs(ours - theirs)[(theirs > 0) & (theirs < SMALL)])
        if wrong.any():
            self.unequal.append(seed)

    def summary(self) -> dict[str, object]:
        """Numbers for the table and the file."""
        errors, small = np.concatenate(self.errors), np.concatenate(self.small)
        low, high = wilson(self.equal, self.scenes)
        return {
            "equal_scenes": self.equal,
            "equal_scenes_low": low,
            "equal_scenes_high": high,
            "scenes": self.scenes,
            "edges": self.edges,
            "edges_that_differ": self.differ,
            "pairs_near_least": self.near,
            "edges_that_differ_elsewhere": self.differ_clear,
            "scenes_without_near_pairs": self.clear_scenes,
            "of_them_equal": self.clear_equal,
            "share_error_mean": float(errors.mean()) if len(errors) else 0.0,
            "share_error_99": float(np.quantile(errors, 0.99)) if len(errors) else 0.0,
            "share_error_max": float(errors.max(initial=0.0)),
            "small_shares": len(small),
            "small_share_error_99": float(np.quantile(small, 0.99)) if len(small) else 0.0,
            "small_share_error_max": float(small.max(initial=0.0)),
            "unequal_seeds": self.unequal[:100],
        }


class Sight:
    """A compiled scene, seen by MuJoCo's means alone."""

    def __init__(self, scene: ClutterScene) -> None:
        """Compile it."""
        self.scene, self.model = scene, scene.model()
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)
        self.groups = self.model.geom_group.copy()
        self._eye, self._geom = np.array(scene.camera.pos), np.zeros(1, np.int32)

    def pixels(self) -> np.ndarray:
        """(n, n) hidden shares, through pixels' middles."""
        rays = rays_of(self.scene.camera)
        depths = np.full((len(self.scene.names), len(rays)), np.inf)
        for number, name in enumerate(self.scene.names):
            self._only(name)
            for ray in np.flatnonzero(self._towards(name, rays)):
                depths[number, ray] = self._cast(rays[ray])
        return ratios_of(self.scene.names, depths[:, None, :])

    def area(self) -> np.ndarray:
        """(n, n) hidden shares, through `SUBDIVISION`^2 places in each pixel."""
        camera = self.scene.camera
        fine = dataclasses.replace(camera, width=SUBDIVISION * camera.width, height=SUBDIVISION * camera.height)
        depths = depth_images(self.scene.objects, fine).reshape(len(self.scene.names), 1, -1)
        # Rays that meet nothing do not count in any share.
        return ratios_of(self.scene.names, depths[:, :, np.isfinite(depths).any(axis=(0, 1))])

    def opengl(self) -> np.ndarray:
        """(n, n) hidden shares, as drawn."""
        camera, model = self.scene.camera, self.model
        model.vis.quality.offsamples = 0  # one sample, in each pixel's middle
        model.vis.quality.numslices = model.vis.quality.numstacks = SLICES
        model.vis.global_.fovy = camera.fovy
        pictures = []
        with mujoco.Renderer(model, camera.height, camera.width) as renderer:
            renderer.enable_depth_rendering()
            for name in self.scene.names:
                self._only(name)
                renderer.update_scene(self.data, self._view())
                _aim(renderer.scene, camera)
                depth = renderer.render()
                pictures.append(np.where(depth < 0.9 * depth.max(), depth, np.inf))
        return ratios_of(self.scene.names, np.array(pictures))

    def _cast(self, ray: np.ndarray) -> float:
        """m to what is shown, inf where the ray passes."""
        distance = mujoco.mj_ray(self.model, self.data, self._eye, ray, ONLY, True, -1, self._geom, None)
        return distance if distance >= 0 else np.inf

    def _only(self, name: str) -> None:
        """Show one object, by its true shape."""
        body = self.model.body(name).id
        ours = (self.model.geom_bodyid == body) & np.isin(self.groups, VISIBLE)
        self.model.geom_group[:] = np.where(ours, SHOWN, HIDDEN)

    def _towards(self, name: str, rays: np.ndarray) -> np.ndarray:
        """(n,) bool, rays that meet the balls around an object's shapes."""
        found = np.zeros(len(rays), bool)
        for geom in np.flatnonzero(self.model.geom_group == SHOWN):
            offset = self.data.geom_xpos[geom] - self._eye
            distance = float(np.linalg.norm(offset))
            sine = 1.001 * self.model.geom_rbound[geom] / distance
            found |= rays @ offset / distance > np.sqrt(max(0.0, 1 - sine**2))
        return found

    def _view(self) -> mujoco.MjvCamera:
        view = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(self.model, view)
        return view


@functools.cache
def rays_of(camera: Camera) -> np.ndarray:
    """(n, 3) unit directions, world frame, through the pixels' middles; written anew, not as in `Camera`."""
    width, height = camera.width, camera.height
    right, up = np.meshgrid((np.arange(width) + 0.5) / width - 0.5, 0.5 - (np.arange(height) + 0.5) / height)
    tangent = np.tan(np.radians(camera.fovy) / 2)
    seen = np.stack([2 * tangent * width / height * right, 2 * tangent * up, -np.ones_like(up)], -1).reshape(-1, 3)
    return seen / np.linalg.norm(seen, axis=1, keepdims=True) @ matrix(camera.quat).T


def _aim(scene: mujoco.MjvScene, camera: Camera) -> None:
    """Point both of a scene's cameras as ours."""
    turn = matrix(camera.quat)
    for number in range(2):
        view = scene.camera[number]
        view.pos[:], view.forward[:], view.up[:] = camera.pos, -turn[:, 2], turn[:, 1]
        half = view.frustum_near * np.tan(np.radians(camera.fovy) / 2)
        view.frustum_bottom, view.frustum_top, view.frustum_center = -half, half, 0.0
        view.frustum_width = half * camera.width / camera.height


def _can_draw() -> bool:
    try:
        choose_backend()
    except EmbodiedError as error:
        cli.say(f"no comparison with drawn pictures: {error}")
        return False
    return True


if __name__ == "__main__":
    main()
