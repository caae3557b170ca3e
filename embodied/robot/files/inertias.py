"""Masses and inertias of a URDF's links: impossible ones are corrected and reported."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from embodied.errors import ModelError, listing
from embodied.robot.files.xml import jointed, reached

LEAST_MASS = 1e-3  # kg, of what a joint moves and has less
LEAST_INERTIA = 1e-6  # kg m^2, likewise
NOT_POSITIVE = 1e-12  # kg m^2: MuJoCo takes no moment below 1e-15
WATER = 1000.0  # kg/m^3, of the ball that stands for a link with a mass and no inertia
MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
NAMED = 6  # links in a line


def fix_inertias(path: Path, root: ElementTree.Element) -> list[str]:
    """Correct a URDF's inertials that no body can have; returns a line for each kind of fault.

    Inertia that is not positive becomes that of a ball of water of the link's mass; a link without mass loses its
    inertial. What a joint moves, with all that is fixed to it, gets a mass where it has next to none. Moments that
    break the triangle inequality are left to MuJoCo's compiler, which makes them equal.

    Raises:
        ModelError: a link has several inertials, one has no numbers, or a mass is negative; names the link.
    """
    balls, light, unequal, masses = [], [], [], {}
    for link in root.findall("link"):
        name, inertial = link.get("name", ""), link.find("inertial")
        mass, moments = _inertial(path, link)
        masses[name] = mass
        if mass < 0:
            raise ModelError(f"{path}: <mass> of link {name!r} is {mass:g} kg; expected at least 0")
        if inertial is None:
            continue
        if mass == 0:
            link.remove(inertial)
        elif moments[0] < NOT_POSITIVE:
            _make_ball(link, mass)
            balls.append(name)
        elif moments[0] + moments[1] < moments[2] * (1 - 1e-3):
            unequal.append(name)
    for name, fixed in _moving(root).items():
        if sum(masses.get(part, 0.0) for part in fixed) < LEAST_MASS:
            _make_ball(next(link for link in root.findall("link") if link.get("name") == name), LEAST_MASS)
            light.append(name)
    notes = {
        "inertias that are not positive, made those of a ball of water of the same mass": balls,
        f"moving links with next to no mass, raised to {LEAST_MASS:g} kg and {LEAST_INERTIA:g} kg m^2": light,
        "inertias that break the triangle inequality, moments made equal": unequal,
    }
    return [f"{what}: {listing(names, NAMED)}" for what, names in notes.items() if names]


def has_masses(root: ElementTree.Element) -> bool:
    """Whether any link of a URDF has a mass."""
    return any(mass.get("value", "0").strip("0. ") for mass in root.iterfind("./link/inertial/mass"))


def _moving(root: ElementTree.Element) -> dict[str, set[str]]:
    """Links that a joint moves against their parent -> names of all that is fixed to them, themselves included.

    The base is one where several joints hang on it: that of an arm is bolted down, that of legs or rotors moves.
    """
    joints = jointed(root)
    names = {link.get("name", "") for link in root.findall("link")}
    fixed: dict[str, list[str]] = {}
    for kind, parent, child in joints:
        if kind == "fixed":
            fixed.setdefault(parent, []).append(child)
    found = {child: reached(child, fixed) for kind, _, child in joints if kind != "fixed" and child in names}
    for base in names - {child for _, _, child in joints}:
        group = reached(base, fixed)
        if sum(kind != "fixed" and parent in group for kind, parent, _ in joints) > 1:
            found[base] = group
    return found


def _make_ball(link: ElementTree.Element, mass: float) -> None:
    """Give a link the inertia of a ball of water of a mass in kg, where its centre of mass is."""
    if (inertial := link.find("inertial")) is None:
        inertial = ElementTree.SubElement(link, "inertial")
    for part in ("mass", "inertia"):
        if (old := inertial.find(part)) is not None:
            inertial.remove(old)
    radius = (3 * mass / (4 * math.pi * WATER)) ** (1 / 3)
    moment = f"{max(0.4 * mass * radius**2, LEAST_INERTIA):.6g}"
    ElementTree.SubElement(inertial, "mass", {"value": f"{mass:.9g}"})
    ElementTree.SubElement(inertial, "inertia", {key: moment if key[1] == key[2] else "0" for key in MOMENTS})


def _inertial(path: Path, link: ElementTree.Element) -> tuple[float, list[float]]:
    """Mass in kg and principal moments (3,) in kg m^2, ascending; zeros where the link has none."""
    if len(link.findall("inertial")) > 1:
        raise ModelError(f"{path}: link {link.get('name')!r} has several <inertial>; expected one")
    mass, inertia = link.find("./inertial/mass"), link.find("./inertial/inertia")
    try:
        kilograms = 0.0 if mass is None else float(mass.get("value", "0"))
        xx, yy, zz, xy, xz, yz = (0.0 if inertia is None else float(inertia.get(key, "0")) for key in MOMENTS)
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return kilograms, sorted(moments.tolist())
    except (ValueError, np.linalg.LinAlgError):
        raise ModelError(f"{path}: <inertial> of link {link.get('name')!r} has no numbers") from None
