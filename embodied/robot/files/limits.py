"""Numbers in a robot's file: those that mean nothing or contradict each other are refused, never mended.

MuJoCo takes limits upside down for none, the absolute value of an effort, and numbers that are not finite as they are.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from embodied.errors import ModelError

FARTHEST = 1e17
"""rad, m, N m or N: Gazebo writes 1e16 where there is no limit; sums of much larger ones overflow."""
LIMITS = ("lower", "upper", "effort", "multiplier", "offset")
"""URDF: attributes of a joint's limit and mimic; a `velocity` that is no positive number is none."""
RANGES = ("range", "ctrlrange", "forcerange", "actuatorfrcrange")
"""MJCF: attributes of two numbers, the smaller first; 0 0 stands for none."""
NOT_NEGATIVE = ("damping", "friction", "armature", "frictionloss", "stiffness", "kp", "effort")
"""Attributes of joints and motors that MuJoCo takes with any sign."""
MOST = {
    "link": 1000,
    "body": 1000,
    "joint": 1000,
    "visual": 10_000,
    "collision": 10_000,
    "geom": 10_000,
    "attach": 100,
    "model": 100,
}
"""Elements of a kind in a file; the largest known robot, an iCub with its frames, has 250 links."""
LARGEST = {
    "size.nkey": 10_000,
    "size.nuserdata": 1_000_000,
    "user.dim": 10_000,
    "nsample": 10_000,
    "texture.width": 8192,
    "texture.height": 8192,
    "hfield.nrow": 4096,
    "hfield.ncol": 4096,
    "map.shadowsize": 16_384,
    "quality.shadowsize": 16_384,
    "global.offwidth": 16_384,
    "global.offheight": 16_384,
    "resolution": 16_384,
    "quality.numslices": 1000,
    "quality.numstacks": 1000,
    "quality.numquads": 1000,
    "option.iterations": 10_000,
    "option.ls_iterations": 10_000,
    "option.noslip_iterations": 10_000,
    "option.ccd_iterations": 10_000,
    "option.sdf_iterations": 10_000,
    "option.sdf_initpoints": 10_000,
}
"""MJCF: element and attribute, or attribute alone -> how many MuJoCo is asked to keep or compute; it takes any."""
USER = ("nuser_", 1000)
"""MJCF: how names of counts of user's numbers begin, and the most of an element."""
GRIDS = ("composite", "flexcomp")
"""MJCF: elements that stand for a body at each point of a grid."""
SHORTEST = 1e-5
"""s, of a time step: shorter ones make a second of simulation last for minutes."""


def refuse_urdf(path: Path, root: ElementTree.Element) -> None:
    """Refuse a URDF whose links or joints have numbers that are not finite or too large, and limits upside down.

    Raises:
        ModelError: one line that names file, link or joint, and number.
    """
    refuse_many(path, root)
    for part in [*root.findall("link"), *root.findall("joint")]:
        for element in part.iter():
            of = f"{path}: <{element.tag}> of {part.tag} {part.get('name')!r}"
            for key, words in _numbers(element, LIMITS):
                if key == "velocity":
                    continue
                numbers = [_number(f"{of}: {key}", word) for word in words]
                if key in NOT_NEGATIVE and min(numbers) < 0:
                    raise ModelError(f'{of}: {key}="{element.get(key)}"; expected 0 or more')
        limit = part.find("limit")
        if part.tag == "joint" and part.get("type") != "continuous" and limit is not None:
            lower, upper = (limit.get(key, "0") for key in ("lower", "upper"))
            of = f"{path}: <limit> of joint {part.get('name')!r}"
            if _number(f"{of}: lower", lower) > _number(f"{of}: upper", upper):
                raise ModelError(f'{of}: lower="{lower}" is above upper="{upper}"; expected the smaller first')


def refuse_mjcf(path: Path, root: ElementTree.Element) -> None:
    """Refuse an MJCF with numbers that are not finite or too large, negative where none can be, or upside down.

    Raises:
        ModelError: one line that names file, element and number.
    """
    for element in root.iter():
        for key, words in _numbers(element, RANGES):
            of = f"{path}: {key} of <{element.tag}> {element.get('name', '')!r}"
            numbers, text = [_number(of, word) for word in words], element.get(key)
            if key in RANGES and len(numbers) == 2 and numbers[0] > numbers[1]:
                raise ModelError(f'{of}: "{text}"; expected the smaller first')
            if key in NOT_NEGATIVE and min(numbers) < 0:
                raise ModelError(f'{of}: "{text}"; expected 0 or more')
            most = (
                USER[1] if key.startswith(USER[0]) else LARGEST.get(f"{element.tag}.{key}", LARGEST.get(key, FARTHEST))
            )
            if max(numbers) > most:
                raise ModelError(f'{of}: "{text}"; expected at most {most:,}')
            if key == "timestep" and numbers[0] < SHORTEST:
                raise ModelError(f'{of}: "{text}"; expected {SHORTEST:g} s or more')


def refuse_many(path: Path, root: ElementTree.Element) -> None:
    """Refuse more links or shapes than a robot has: what is done for pairs of them would take minutes.

    Raises:
        ModelError: one line that names the element, how many there are and how many there may be.
    """
    found, waiting = collections.Counter[str](), [(root, 1)]
    while waiting:
        element, times = waiting.pop()
        found[element.tag] += times
        copies = [float(word) for word in element.get("count", "1").split() if is_number(word)]
        waiting += [(child, times * max(int(math.prod(copies)), 1)) for child in element]
        if element.tag in GRIDS:
            found["body"] += times * int(math.prod(copies))
    refuse_counts(path, found)


def refuse_counts(path: Path, found: Mapping[str, int]) -> None:
    """Refuse a model with more elements of a kind than `MOST`; `found`: kind -> how many it has."""
    for tag, most in MOST.items():
        if found.get(tag, 0) > most:
            raise ModelError(f"{path}: {found[tag]:,} elements <{tag}>; expected at most {most:,}")


def _numbers(element: ElementTree.Element, expected: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Attributes that hold numbers, or that are expected to, and their words."""
    for key, text in element.items():
        words = text.split() or [""] * (key in expected)
        if words and key != "name" and (key in expected or all(map(is_number, words))):
            yield key, words


def is_number(word: str) -> bool:
    """Whether a word is a number, finite or not."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _number(of: str, text: str) -> float:
    number = float(text) if is_number(text) else math.nan
    if not abs(number) <= FARTHEST:  # NaN compares false
        raise ModelError(f'{of}: "{text}"; expected a number of at most {FARTHEST:g}')
    return number
