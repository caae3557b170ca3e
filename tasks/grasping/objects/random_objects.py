"""Random objects for generalisation: one to three primitives in a row, thin enough for a hand, each from its seed."""

from __future__ import annotations

import functools

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.shapes import Colour, Part, box, capsule, cylinder, sphere

THIN = (0.025, 0.070)  # m, across: what hands of 8 cm and more take
LONG = (0.05, 0.14)  # m, along the object's axis, of its first part
TALLEST = 0.20  # m, of the whole
DENSITY = (150.0, 900.0)  # kg/m^3: foam to a full can, the range of the household objects
HEAVIEST = 0.8  # kg
HOLD_OUT = 5  # every fifth seed


def is_held_out(seed: int) -> bool:
    """Whether a seed's object is never trained with."""
    return seed % HOLD_OUT == HOLD_OUT - 1


@functools.lru_cache(maxsize=1024)
def random_object(seed: int) -> ObjectSpec:
    """The object of a seed, which is not negative: always the same, standing on its largest end."""
    if seed < 0:
        raise EmbodiedError(f"seed={seed}; expected at least 0")
    random = np.random.default_rng([seed, 0x0B7EC7])
    parts = [_base(random)]
    for _ in range(random.integers(0, 3)):
        added = _on_top(random, parts)
        if added is None:
            break
        parts.append(added)
    rgba: Colour = (*(float(value) for value in random.uniform(0.15, 0.95, 3)), 1.0)  # pyright: ignore
    bare = object_spec(f"random_{seed}", 1.0, tuple(parts), rgba)
    mass = min(HEAVIEST, float(random.uniform(*DENSITY)) * bare.volume)
    return object_spec(f"random_{seed}", mass, tuple(parts), rgba, rolls=len(parts) == 1 and len(parts[0].size) < 3)


def _base(random: np.random.Generator) -> Part:
    """Part that the object stands on: a box, a cylinder, or a ball or capsule that lies."""
    kind = random.integers(0, 4)
    thin = float(random.uniform(*THIN))
    long = float(random.uniform(*LONG))
    if kind == 0:
        return box((thin, float(random.uniform(thin, 0.10)), long), (0, 0, long / 2))
    if kind == 1:
        return cylinder(thin, (0, 0, 0), (0, 0, long))
    if kind == 2:
        return capsule(thin, (-long / 2, 0, thin / 2), (long / 2, 0, thin / 2))
    return sphere(thin, (0, 0, thin / 2))


def _on_top(random: np.random.Generator, parts: list[Part]) -> Part | None:
    """A smaller part on the last one, sunk into it a little; None where it would be too tall or is not flat on top."""
    below = parts[-1]
    low, high = below.bounds
    top, room = float(high[2]), TALLEST - float(high[2])
    across = float(min(high[:2] - low[:2]))
    thin = float(random.uniform(0.5, 0.9)) * across
    length = float(random.uniform(0.03, 0.07))
    if length + thin / 2 > room or thin < 0.012:
        return None
    shift = 0.2 * (across - thin) * random.uniform(-1, 1, 2)
    x, y = (float(value) for value in shift + np.array(below.pos[:2]))
    sunk = min(0.25 * thin, 0.01)
    kind = random.integers(0, 3)
    if kind == 0:
        return box((thin, float(random.uniform(0.5, 0.9)) * thin, length), (x, y, top + length / 2 - sunk))
    if kind == 1:
        return cylinder(thin, (x, y, top - sunk), (x, y, top + length - sunk))
    return capsule(thin, (x, y, top - sunk), (x, y, top + length - thin / 2))
