"""Masses and inertias of a URDF's links: what no body can have is made what one could, and named."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from embodied.errors import ModelError

LEAST_MASS = 1e-3  # kg, of a moving body that has less
LEAST_INERTIA = 1e-6  # kg m^2, likewise
WATER = 1000.0  # kg/m^3, of the ball that stands for a link with a mass and no inertia
NAMED = 6  # links in a line


def mend_inertias(path: Path, root: ElementTree.Element) -> list[str]:
    """Change a URDF's inertials that no body can have; returns a line for each kind of fault.

    Inertia that is zero or negative becomes that of a ball of water of the link's mass, and a fixed link without mass
    loses its inertial. Moving links with next to no mass, and moments that break the triangle inequality, are left to
    MuJoCo's compiler, which is told to mend them.

    Raises:
        ModelError: an inertial has no finite numbers, or a mass is negative; names the link.
    """
    moving = _moving(root)
    light, round_, impossible = [], [], []
    for link in root.findall("link"):
        name, inertial = link.get("name", ""), link.find("inertial")
        mass, moments = _inertial(path, link)
        if mass < 0:
            raise ModelError(f"{path}: <mass> of link {name!r} is {mass:g}; expected at least 0 kg")
        if inertial is not None and moments[0] <= 0:
            _mend(link, inertial, mass)
            if mass > 0 and not (mass < LEAST_MASS and name in moving):
                round_.append(name)
                continue
        if name in moving and (mass < LEAST_MASS or moments[0] < LEAST_INERTIA / 100):
            light.append(name)
        elif moments[0] + moments[1] < moments[2] * (1 - 1e-3):
            impossible.append(name)
    notes = []
    if round_:
        notes.append(f"inertias that are not positive, made those of a ball of water of the mass: {_listed(round_)}")
    if light:
        notes.append(
            f"moving links with next to no mass or inertia, raised to {LEAST_MASS:g} kg and {LEAST_INERTIA:g} kg m^2: "
            f"{_listed(light)}"
        )
    if impossible:
        notes.append(f"inertias that break the triangle inequality, made round: {_listed(impossible)}")
    return notes


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _moving(root: ElementTree.Element) -> set[str]:
    """Links that a joint moves against their parent."""
    joints = [joint for joint in root.findall("joint") if joint.get("type") != "fixed"]
    return {child.get("link", "") for joint in joints if (child := joint.find("child")) is not None}


def _mend(link: ElementTree.Element, inertial: ElementTree.Element, mass: float) -> None:
    """The inertia of a ball of water; none at all without a mass."""
    if mass <= 0:
        link.remove(inertial)
        return
    radius = (3 * mass / (4 * math.pi * WATER)) ** (1 / 3)
    moment = max(0.4 * mass * radius**2, LEAST_INERTIA)
    inertia = inertial.find("inertia")
    if inertia is None:
        inertia = ElementTree.SubElement(inertial, "inertia")
    inertia.attrib.clear()
    inertia.attrib |= {key: f"{moment:.6g}" if key[1] == key[2] else "0" for key in MOMENTS}


MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def _inertial(path: Path, link: ElementTree.Element) -> tuple[float, list[float]]:
    """Mass in kg and principal moments (3,) in kg m^2, ascending; zeros where the link says nothing."""
    mass, inertia = link.find("./inertial/mass"), link.find("./inertial/inertia")
    try:
        kilograms = 0.0 if mass is None else float(mass.get("value", "0"))
        if inertia is None:
            return kilograms, [0.0, 0.0, 0.0]
        xx, yy, zz, xy, xz, yz = (float(inertia.get(key, "0")) for key in MOMENTS)
        if not np.isfinite([kilograms, xx, yy, zz, xy, xz, yz]).all():
            raise ValueError
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return kilograms, sorted(moments.tolist())
    except (ValueError, np.linalg.LinAlgError):
        raise ModelError(f"{path}: <inertial> of link {link.get('name')!r} has no finite numbers") from None
