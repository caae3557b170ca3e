"""Objects of the scenes: plain blocks, cylinders and balls of one colour each, and household objects."""

from __future__ import annotations

import functools

import numpy as np

from tasks.grasping.clutter.words import COLOURS
from tasks.grasping.objects.build import box, cylinder, sphere
from tasks.grasping.objects.household import household
from tasks.grasping.objects.thing import Thing, thing

PLAIN = ("red", "yellow", "green", "blue", "purple", "white")  # of `COLOURS`, easy to tell apart
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
def plain(colour: str, shape: str) -> Thing:
    """A block, cylinder or ball."""
    return thing(f"{colour}_{shape}", 0.1, SHAPES[shape], (*COLOURS[colour], 1.0), rolls=shape == "ball")


def drawn(count: int, random: np.random.Generator) -> tuple[Thing, ...]:
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
