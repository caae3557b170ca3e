"""Data of URDF files on rotors that MuJoCo does not read: massless links, pictures' names, gym-pybullet-drones' tag."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from embodied.robot.files import content


@dataclasses.dataclass(frozen=True)
class Remarks:
    """Data of one file; all empty for MJCF."""

    massless: frozenset[str] = frozenset()
    """Links without mass, to which MuJoCo would give some."""
    centres: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Massless link -> (3,) m, the origin of its inertial in its frame: where gym-pybullet-drones puts propellers."""
    pictures: dict[str, str] = dataclasses.field(default_factory=dict)
    """Link -> file names of its meshes for the eye."""
    thrust_to_weight: float | None = None
    """-, gym-pybullet-drones' `<properties thrust2weight>`."""
    torque_per_thrust: float | None = None
    """m, its `km` over its `kf`."""

    @classmethod
    def of(cls, path: Path) -> Remarks:
        """Read a file that `read_model` has read, so that it is XML without entities."""
        root = ElementTree.fromstring(content(path))
        if root.tag != "robot":
            return cls()
        links = root.findall("link")
        massless = [link for link in links if not _number(link.find("./inertial/mass"), "value")]
        tag = root.find("properties")
        force, torque = _number(tag, "kf"), _number(tag, "km")
        return cls(
            massless=frozenset(link.get("name", "") for link in massless),
            centres={link.get("name", ""): centre for link in massless if (centre := _origin(link)) is not None},
            pictures={link.get("name", ""): _pictures(link) for link in links},
            thrust_to_weight=_number(tag, "thrust2weight"),
            torque_per_thrust=torque / force if torque and force else None,
        )


def _number(element: ElementTree.Element | None, key: str) -> float | None:
    """A positive number, or None."""
    try:
        number = float("nan") if element is None else float(element.get(key, "nan"))
    except ValueError:
        return None
    return number if np.isfinite(number) and number > 0 else None


def _origin(link: ElementTree.Element) -> np.ndarray | None:
    """(3,) m of a link's inertial."""
    origin = link.find("./inertial/origin")
    try:
        place = np.array([float(number) for number in ("" if origin is None else origin.get("xyz", "")).split()])
    except ValueError:
        return None
    return place if place.shape == (3,) and np.isfinite(place).all() else None


def _pictures(link: ElementTree.Element) -> str:
    meshes = link.findall("./visual/geometry/mesh")
    return " ".join(mesh.get("filename", "").rsplit("/", 1)[-1] for mesh in meshes)
