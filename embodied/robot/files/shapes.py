"""Shapes of a URDF's links: those without extent, and links that end a limb and have none that collide."""

from __future__ import annotations

import copy
from xml.etree import ElementTree

from embodied.errors import listing
from embodied.robot.files.xml import jointed, reached

NAMED = 6  # links in a line
SOLIDS = ("box", "sphere", "cylinder", "capsule")


def is_empty(shape: ElementTree.Element) -> bool:
    """Whether a box, sphere or cylinder has a side of zero."""
    for kind in SOLIDS:
        if (solid := shape.find(f"./geometry/{kind}")) is not None:
            sides = " ".join(solid.get(key, "") for key in ("size", "radius", "length")).split()
            return any(_is_zero(side) for side in sides)
    return False


def collide_with_visuals(root: ElementTree.Element) -> list[str]:
    """Let visual shapes collide at the ends of limbs without collision shapes; returns a line on these.

    An end is what a last joint moves, with all that is fixed to it.
    """
    links = {link.get("name", ""): link for link in root.findall("link")}
    children: dict[str, list[str]] = {}
    for _, parent, child in jointed(root):
        children.setdefault(parent, []).append(child)
    moved = {child for kind, _, child in jointed(root) if kind != "fixed"}
    fixes = []
    for name in sorted(moved & set(links)):
        below = reached(name, children)
        parts = [links[part] for part in below if part in links]
        if below & moved != {name} or any(part.find("collision") is not None for part in parts):
            continue
        for part in parts:
            for visual in part.findall("visual"):
                shape = copy.deepcopy(visual)
                shape.tag = "collision"
                part.append(shape)
                fixes.append(part.get("name", ""))
    names = listing(dict.fromkeys(fixes), NAMED)
    return [f"no shapes that collide at the ends of limbs: those for the eye do ({names})"] if fixes else []


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0.0
    except ValueError:
        return False
