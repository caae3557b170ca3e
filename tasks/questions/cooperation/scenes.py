"""Scenes, drawn from seeds: robots, places, a goal; plain blocks, cylinders and balls, and household objects."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.clutter.ray_casting import depth_images
from tasks.grasping.clutter.scenes import visible_shares
from tasks.grasping.objects.household import household
from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.pointclouds import Camera, PlacedObject
from tasks.grasping.objects.shapes import box, cylinder, sphere
from tasks.questions.cooperation.facts import Facts, Goal, facts_of, smallest_teams
from tasks.questions.cooperation.places import KINDS, SHELF, Kind, Opening, Place
from tasks.questions.cooperation.robots import Robot, Team, team
from tasks.questions.object_names import COLOURS, object_phrases

PLAIN = ("red", "yellow", "green", "blue", "purple", "white")  # of `COLOURS`, easy to distinguish
SHAPES = {
    "block": (box((0.055, 0.055, 0.055), (0, 0, 0)),),
    "cylinder": (cylinder(0.05, (0, 0, 0), (0, 0, 0.08)),),
    "ball": (sphere(0.06, (0, 0, 0)),),
}
"""Word -> shape, m, our choice."""
HOUSE = (
    "cracker_box",
    "sugar_box",
    "gelatin_box",
    "pudding_box",
    "wood_block",
    "foam_brick",
    "master_chef_can",
    "tomato_soup_can",
    "tuna_fish_can",
    "potted_meat_can",
    "mustard_bottle",
    "apple",
    "tennis_ball",
)
"""Household objects that stand firmly; some are wider than a gripper opens."""


@functools.cache
def plain(colour: str, shape: str) -> ObjectSpec:
    """A block, cylinder or ball."""
    return object_spec(f"{colour}_{shape}", 0.1, SHAPES[shape], (*COLOURS[colour], 1.0), rolls=shape == "ball")


def drawn(count: int, random: np.random.Generator) -> tuple[ObjectSpec, ...]:
    """`count` >= 3 different objects in random order, of which two share a shape and nothing else."""
    shape = str(random.choice(list(SHAPES)))
    twins = [plain(str(colour), shape) for colour in random.choice(PLAIN, 2, replace=False)]
    others = [plain(colour, form) for colour in PLAIN for form in SHAPES if form != shape]
    others += [household(name) for name in HOUSE]
    # Tall household objects make detours: half of what is drawn, in the mean, is from the house.
    weights = np.array([1 / len(HOUSE) if item.name in HOUSE else 1 / (len(others) - len(HOUSE)) for item in others])
    chosen = random.choice(len(others), count - 2, replace=False, p=weights / weights.sum())
    items = [*twins, *(others[number] for number in chosen)]
    return tuple(items[number] for number in random.permutation(count))


VIEW = Camera.looking_at((0.0, 0.05, 0.17), eye=(0.0, -1.65, 1.20), fovy=42.0, width=800, height=600)
"""The camera `view`: 31 degrees down, from the table's long side."""
COARSE = dataclasses.replace(VIEW, width=200, height=150)  # for what is privileged: enough for objects of 5 cm
DISTANCES = (0.62, 0.88)  # m, range of an arm's foot from the table's middle: hands meet up to .76 m
AREA = (0.58, -0.28, 0.26)  # m, objects and bins: up to this far aside, from the front edge's side to the shelf's
SHELF_AREA = (0.25, 0.43)  # m, the shelf: up to this far aside; its distance behind the middle
FEET = 0.24  # m around an arm's foot that stay empty
GAP = 0.025  # m between the circles around two objects
VISIBLE = 0.6  # of each object's silhouette is seen, robots aside
COUNT = (4, 6)  # range of the number of objects, both ends included
SALT = 0xC0097E  # keeps these draws apart from others of the same seed


@dataclasses.dataclass(frozen=True)
class SceneConfig:
    """Scenes to draw."""

    team: Team | None = None
    """None: any."""
    need: int | None = None
    """Robots that the goal needs; 0: it cannot be reached; None: whatever comes."""
    tries: int = 400
    """Scenes drawn at most."""

    def __post_init__(self) -> None:
        if self.need not in (None, 0, 1, 2, 3) or self.tries < 1:
            raise EmbodiedError(f"need={self.need}, tries={self.tries}; expected 0 to 3 robots and at least one try")


@dataclasses.dataclass(frozen=True)
class CooperationScene:
    """Robots, objects, places, and a goal."""

    seed: int
    team: Team
    distance: float
    """m, of an arm's foot from the table's middle."""
    objects: tuple[PlacedObject, ...]
    """In the order of their marks, from 1."""
    places: tuple[Place, ...]
    goal: Goal

    @property
    def robots(self) -> tuple[Robot, ...]:
        return team(self.team, self.distance)

    @functools.cached_property
    def facts(self) -> Facts:
        return facts_of(self.robots, self.objects, self.places)

    @property
    def words(self) -> tuple[str, ...]:
        """Phrase for each object, after "the"."""
        return object_phrases([placed.item for placed in self.objects])


def cooperation_scene(seed: int, config: SceneConfig | None = None) -> CooperationScene:
    """The scene of a seed: always the same. An `EmbodiedError` where none of `config.tries` draws has such a goal."""
    if seed < 0:
        raise EmbodiedError(f"seed={seed}; expected at least 0")
    config = config or SceneConfig()
    random = np.random.default_rng([seed, SALT])
    for _ in range(config.tries):
        found = _draw(seed, config, random)
        if found is not None:
            return found
    raise EmbodiedError(
        f"seed {seed}: no scene of {config.team.value if config.team else 'any team'} whose goal needs {config.need} "
        f"robots in {config.tries} tries; another team, number or more tries may have one"
    )


def _draw(seed: int, config: SceneConfig, random: np.random.Generator) -> CooperationScene | None:
    kind = config.team or list(Team)[int(random.integers(len(Team)))]
    distance = float(random.uniform(*DISTANCES))
    items = drawn(int(random.integers(COUNT[0], COUNT[1] + 1)), random)
    found = _arranged(items, distance, random)
    if found is None:
        return None
    objects, places = found
    goal = _goal(len(objects), random)
    facts = facts_of(team(kind, distance), objects, places)
    able = smallest_teams(facts, goal)
    if config.need is not None and (len(able[0]) if able else 0) != config.need:
        return None
    # Rays are what costs time: last.
    depths = depth_images([*objects, *(place.placed for place in places)], COARSE)
    if visible_shares(depths)[: len(objects)].min() < VISIBLE:
        return None
    return CooperationScene(seed, kind, distance, objects, places, goal)


def _arranged(
    items: tuple[ObjectSpec, ...], distance: float, random: np.random.Generator
) -> tuple[tuple[PlacedObject, ...], tuple[Place, ...]] | None:
    """Everything on the table, nothing touching; None where the room did not suffice."""
    taken: list[tuple[float, float, float]] = [(side * distance, 0.0, FEET) for side in (-1, 1)]
    places = []
    for kind in KINDS:
        spot = _spot(kind.item, taken, random, kind is SHELF)
        if spot is None:
            return None
        places.append(_place(kind, spot))
    objects = []
    for item in items:
        spot = _spot(item, taken, random)
        if spot is None:
            return None
        yaw = float(random.uniform(-math.pi, math.pi))
        pos = (*spot, float(item.extents[2]) / 2)
        objects.append(PlacedObject(item, pos, (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))))
    return tuple(objects), tuple(places)


def _place(kind: Kind, spot: tuple[float, float]) -> Place:
    return Place(kind, PlacedObject(kind.item, (*spot, float(kind.item.extents[2]) / 2)))


def _spot(
    item: ObjectSpec, taken: list[tuple[float, float, float]], random: np.random.Generator, behind: bool = False
) -> tuple[float, float] | None:
    """A free spot, which is taken from then on; None where none of some tries was."""
    radius = float(np.linalg.norm(item.extents[:2])) / 2
    for _ in range(60):
        x = float(random.uniform(-1, 1)) * (SHELF_AREA[0] if behind else AREA[0])
        y = SHELF_AREA[1] if behind else float(random.uniform(AREA[1], AREA[2]))
        if all(math.hypot(x - a, y - b) > radius + other + GAP for a, b, other in taken):
            taken.append((x, y, radius))
            return x, y
    return None


def _goal(objects: int, random: np.random.Generator) -> Goal:
    """One or two objects that are to be somewhere, and in half of the scenes a place to look into."""
    open_above = [kind.words for kind in KINDS if kind.opening is Opening.ABOVE]
    count = 1 + int(random.uniform() < 0.35)
    numbers = random.choice(objects, count, replace=False) + 1
    deliveries = tuple((int(number), str(random.choice(open_above))) for number in numbers)
    looked = (str(random.choice([kind.words for kind in KINDS])),) if random.uniform() < 0.5 else ()
    return Goal(deliveries, looked)


def instruction(scene: CooperationScene) -> str:
    """The goal in words."""
    kinds = {place.name: place.kind for place in scene.places}
    put = [
        f"the {scene.words[number - 1]} {'onto' if kinds[place].flat else 'into'} the {place}"
        for number, place in scene.goal.deliveries
    ]
    filled = {place for _, place in scene.goal.deliveries}
    looks = [
        f", {'then' if place in filled else 'and'} have somebody look "
        f"{'at' if kinds[place].flat else 'into'} the {place}"
        for place in scene.goal.inspections
    ]
    return f"Put {' and '.join(put)}{''.join(looks)}."
