"""Limits of joints and motors in a robot's file: those that contradict themselves are refused, never mended.

MuJoCo takes limits upside down for none, the absolute value of an effort, and numbers that are not finite as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from embodied.errors import ModelError

FARTHEST = 1e17
"""rad, m, N m or N: Gazebo writes 1e16 where there is no limit; sums of much larger ones overflow."""
LIMITS = ("lower", "upper", "effort")
"""URDF: attributes of a joint's limit; a `velocity` that is no positive number is none."""
RANGES = ("range", "ctrlrange", "forcerange", "actuatorfrcrange")
"""MJCF: attributes of two numbers, the smaller first; 0 0 stands for none."""


def refuse_urdf(path: Path, root: ElementTree.Element) -> None:
    """Refuse a URDF whose joints have limits that are no numbers, too large, negative or upside down.

    Raises:
        ModelError: one line that names file, joint and limit.
    """
    for joint in root.findall("joint"):
        if (limit := joint.find("limit")) is None:
            continue
        of = f"{path}: <limit> of joint {joint.get('name')!r}"
        numbers = {key: _number(f"{of}: {key}", text) for key, text in limit.attrib.items() if key in LIMITS}
        if numbers.get("effort", 0.0) < 0:
            raise ModelError(f'{of}: effort="{limit.get("effort")}"; expected 0 or more')
        if joint.get("type") != "continuous" and numbers.get("lower", 0.0) > numbers.get("upper", 0.0):
            lower, upper = (limit.get(key, "0") for key in ("lower", "upper"))
            raise ModelError(f'{of}: lower="{lower}" is above upper="{upper}"; expected the smaller first')


def refuse_mjcf(path: Path, root: ElementTree.Element) -> None:
    """Refuse an MJCF with ranges that are no numbers or upside down, or poses of keyframes that are not finite.

    Raises:
        ModelError: one line that names file, element and range.
    """
    for element, key, text in _attributes(root):
        of = f"{path}: {key} of <{element.tag}> {element.get('name', '')!r}"
        numbers = [_number(of, word) for word in text.split()]
        if element.tag != "key" and len(numbers) == 2 and numbers[0] > numbers[1]:
            raise ModelError(f'{of}: "{text}"; expected the smaller first')


def _attributes(root: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, str, str]]:
    """Ranges of all elements and poses of keyframes: the element, the attribute's name and its text."""
    for element in root.iter():
        names = ("qpos",) if element.tag == "key" else RANGES
        yield from ((element, name, element.attrib[name]) for name in names if name in element.attrib)


def _number(of: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= FARTHEST:  # NaN compares false
        raise ModelError(f'{of}: "{text}"; expected a number of at most {FARTHEST:g}')
    return number
