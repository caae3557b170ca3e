"""Objects in words: "mustard bottle"; for random ones colour and shape, "green cylinder"; each once in a scene."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from tasks.grasping.objects.household import HOUSEHOLD
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.shapes import Colour, Shape

COLOURS: Mapping[str, tuple[float, float, float]] = {
    "red": (0.80, 0.15, 0.15),
    "orange": (0.95, 0.50, 0.12),
    "yellow": (0.95, 0.85, 0.20),
    "green": (0.20, 0.65, 0.25),
    "turquoise": (0.20, 0.75, 0.72),
    "blue": (0.20, 0.35, 0.80),
    "purple": (0.50, 0.22, 0.70),
    "pink": (0.92, 0.45, 0.70),
    "lilac": (0.70, 0.60, 0.85),
    "beige": (0.85, 0.66, 0.52),
    "brown": (0.45, 0.28, 0.16),
    "white": (0.92, 0.92, 0.92),
    "grey": (0.55, 0.55, 0.55),
    "black": (0.15, 0.15, 0.15),
}
"""Colour word -> red, green, blue in [0, 1]; the nearest names a colour."""
SHAPES = {Shape.BOX: "block", Shape.CYLINDER: "cylinder", Shape.CAPSULE: "rounded bar", Shape.SPHERE: "ball"}


def object_phrases(items: Sequence[ObjectSpec]) -> tuple[str, ...]:
    """Phrase for each object, in a sentence after "the"; equal ones are distinguished by their marks."""
    words = [_described(item) for item in items]
    often = collections.Counter(words)
    return tuple(f"{word} (number {n})" if often[word] > 1 else word for n, word in enumerate(words, 1))


def colour_word(rgba: Colour) -> str:
    """The nearest of `COLOURS`."""
    names, values = list(COLOURS), np.array(list(COLOURS.values()))
    return names[int(np.argmin(np.linalg.norm(values - np.array(rgba[:3]), axis=1)))]


def _described(item: ObjectSpec) -> str:
    if item.name in HOUSEHOLD:
        return item.name.replace("_", " ")
    # A random object is named after the part that it stands on.
    return f"{colour_word(item.rgba)} {SHAPES[item.parts[0].shape]}"
