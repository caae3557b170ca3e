"""Clutter from a seed: a few objects on a table, of which one, the target, is obstructed as badly as requested.

    scene = clutter_scene(seed=7, config=ClutterConfig(difficulty=Difficulty.MEDIUM))
    scene.target, scene.graph.obstructors(scene.target), removal_order(scene.graph, scene.target)
    model = scene.model()          # the objects on a table, at rest at qpos0

Frame of the scene: x to the right, y away from the camera (and from the arm), z up; the table's top at z = 0, the
clutter around the origin.
"""

from __future__ import annotations

import collections
import dataclasses

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec
from embodied.errors import EmbodiedError, UnknownNameError
from tasks.grasping.clutter.arrange import Arrangement, arrange_objects
from tasks.grasping.clutter.graph import (
    LEAST,
    Difficulty,
    ObstructionGraph,
    graph_from_depths,
    ratios_of,
    removal_order,
)
from tasks.grasping.clutter.ray_casting import depth_images
from tasks.grasping.objects.drop_and_settle import settle, table_of
from tasks.grasping.objects.household import HOUSEHOLD, household
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import Camera, PlacedObject
from tasks.grasping.objects.random_objects import random_object
from tasks.grasping.objects.shapes import matrix

VIEW = Camera.looking_at((0.0, 0.0, 0.05), eye=(0.0, -0.65, 0.60), fovy=37.0, width=320, height=240)
"""40 degrees down, from the arm's side."""
FEWEST, MOST = 3, 12  # objects in a scene
ENOUGH = {Difficulty.NONE: 1, Difficulty.EASY: 2, Difficulty.MEDIUM: 3, Difficulty.HARD: 5}
"""Objects that a scene of a difficulty needs, knots aside."""
CLOSE = Arrangement()
SALT = 0xC1077E2  # keeps these draws apart from others of the same seed


@dataclasses.dataclass(frozen=True)
class ClutterConfig:
    """Scenes to draw."""

    count: tuple[int, int] = (FEWEST, MOST)
    """Range of the number of objects, both ends included."""
    difficulty: Difficulty | None = None
    """Of the target; None: whatever comes."""
    pool: tuple[str, ...] = tuple(HOUSEHOLD)
    """Household objects to draw from, each at most once."""
    targets: tuple[str, ...] | None = None
    """Household objects that may be the target; None: all that are drawn."""
    random_share: float = 0.2
    """Share of random objects, in the mean."""
    arrangement: Arrangement = CLOSE
    camera: Camera = VIEW
    margin: float = 0.0
    """Scenes in which any object hides a share of another that is so near to `LEAST` are thrown away: their graph would
    depend on the resolution of the picture."""
    visible: float = 0.0
    """Scenes in which less of any object's silhouette is seen are thrown away."""
    freeable: bool = False
    """Only targets that removing one free object after the other frees: no knots."""
    tries: int = 60
    """Scenes drawn at most."""

    def __post_init__(self) -> None:
        low, high = self.count
        if not 1 <= low <= high:
            raise EmbodiedError(f"count={self.count}; expected a range of at least one object")
        shares = self.random_share, self.visible
        if not 0 <= min(shares) <= max(shares) <= 1 or not 0 <= self.margin < LEAST or self.tries < 1:
            raise EmbodiedError(
                f"random_share={self.random_share}, visible={self.visible}, margin={self.margin}, tries={self.tries}; "
                f"expected shares in [0, 1], a margin in [0, {LEAST}) and at least one try"
            )
        for name in (*self.pool, *(self.targets or ())):
            household(name)
        if high > len(self.pool) and self.random_share == 0:
            raise EmbodiedError(
                f"up to {high} objects from a pool of {len(self.pool)}; expected enough, or random ones"
            )


@dataclasses.dataclass(frozen=True)
class ClutterScene:
    """Objects at rest, one of them the target."""

    seed: int
    objects: tuple[PlacedObject, ...]
    names: tuple[str, ...]
    """Of the objects, each once: those of `ObjectSpec.name`."""
    target: str
    camera: Camera
    graph: ObstructionGraph

    def __post_init__(self) -> None:
        if self.target not in self.names:
            raise UnknownNameError("object", self.target, self.names)

    @property
    def difficulty(self) -> Difficulty:
        return self.graph.difficulty(self.target)

    def model(self) -> mujoco.MjModel:
        """The objects on a table, each a body and a free joint of its name; qpos0 is the scene, at rest."""
        spec = table_of([entry.item for entry in self.objects], self.names)
        for entry, name in zip(self.objects, self.names, strict=True):
            body = spec.body(name)
            body.pos, body.quat = entry.pos, entry.quat
        return compile_spec(spec)


def look(objects: tuple[PlacedObject, ...], camera: Camera, least: float = LEAST) -> ObstructionGraph:
    """The obstruction graph of some objects as a camera sees them; each must be wholly in the picture."""
    names = tuple(entry.item.name for entry in objects)
    if not names:
        raise EmbodiedError("a scene without objects has no obstruction graph; expected at least one")
    if outside := [name for name, entry in zip(names, objects, strict=True) if not in_view(entry, camera)]:
        raise EmbodiedError(f"not wholly in the camera's view: {', '.join(outside)}; its silhouettes would be cut off")
    return graph_from_depths(names, depth_images(objects, camera), least)


def in_view(placed: PlacedObject, camera: Camera) -> bool:
    """Whether the whole bounding box of an object is in a camera's picture."""
    low, high = placed.item.bounds
    corners = np.array(np.meshgrid(*np.stack([low, high], -1))).reshape(3, -1).T
    world = corners @ matrix(placed.quat).T + np.array(placed.pos)
    seen = (world - np.array(camera.pos)) @ matrix(camera.quat)
    if (seen[:, 2] >= 0).any():
        return False
    tangent = np.tan(np.radians(camera.fovy) / 2)
    limits = np.array([camera.width / camera.height, 1.0]) * tangent
    return bool((np.abs(seen[:, :2] / -seen[:, 2:]) <= limits).all())


def visible_shares(depths: np.ndarray) -> np.ndarray:
    """(n,) share of each object's silhouette that is seen, from a depth image of each alone, (n, height, width) m."""
    alone = np.isfinite(depths)
    first = alone & (depths == depths.min(axis=0))
    return first.sum((1, 2)) / np.maximum(alone.sum((1, 2)), 1)


def clutter_scene(seed: int, config: ClutterConfig | None = None) -> ClutterScene:
    """The scene of a seed: always the same.

    Raises:
        EmbodiedError: a negative seed, or none of `config.tries` draws came to rest with such a target; says what came.
    """
    if seed < 0:
        raise EmbodiedError(f"seed={seed}; expected at least 0")
    config = config or ClutterConfig()
    random = np.random.default_rng([seed, SALT])
    seen: collections.Counter[str] = collections.Counter()
    for _ in range(config.tries):
        found = _draw(seed, config, random, seen)
        if found is not None:
            return found
    came = ", ".join(f"{what} {number}" for what, number in seen.most_common())
    wanted = f"a target of difficulty {config.difficulty.value!r}" if config.difficulty else "a target"
    raise EmbodiedError(
        f"seed {seed}: no scene of {config.count[0]} to {config.count[1]} objects with {wanted} in {config.tries} "
        f"tries (came: {came}); other counts, gaps or more tries may have one"
    )


def _draw(
    seed: int, config: ClutterConfig, random: np.random.Generator, seen: collections.Counter[str]
) -> ClutterScene | None:
    settled = settle(arrange_objects(_items(config, random), config.arrangement, random), config.arrangement.radius)
    objects = settled.objects
    if settled.failure:
        seen[settled.failure] += 1
        return None
    if not all(in_view(entry, config.camera) for entry in objects):
        seen["out of view"] += 1
        return None
    names = tuple(entry.item.name for entry in objects)
    depths = depth_images(objects, config.camera)
    if config.visible and visible_shares(depths).min() < config.visible:
        seen["hidden"] += 1
        return None
    ratios = ratios_of(names, depths)
    if (np.abs(ratios - LEAST) < config.margin).any():
        seen["ambiguous"] += 1
        return None
    graph = ObstructionGraph.of(names, ratios)
    levels = {name: graph.difficulty(name) for name in names if config.targets is None or name in config.targets}
    fitting = [name for name, level in levels.items() if config.difficulty in (None, level)]
    if config.freeable:
        fitting = [name for name in fitting if removal_order(graph, name) or not graph.obstructors(name)]
    if not fitting:
        seen.update({level.value for level in levels.values()} or {"no such object"})
        return None
    return ClutterScene(seed, objects, names, str(random.choice(fitting)), config.camera, graph)


def _items(config: ClutterConfig, random: np.random.Generator) -> list[ObjectSpec]:
    """The objects of a scene, in random order."""
    low, high = config.count
    if config.difficulty is not None:
        low = min(max(low, ENOUGH[config.difficulty]), high)
    count = int(random.integers(low, high + 1))
    ours = max(count - len(config.pool), int(random.binomial(count, config.random_share)))
    names = random.choice(config.pool, count - ours, replace=False)
    seeds = random.choice(100_000, ours, replace=False)
    items = [*(household(str(name)) for name in names), *(random_object(int(number)) for number in seeds)]
    return [items[number] for number in random.permutation(count)]
