"""Collada meshes whose files have y up: models made for readers that turn them, and for readers that do not.

ROS' viewers and Gazebo leave the axis alone, OpenSceneGraph and Bullet turn the mesh. A URDF does not state for which
it is made, but its joints show it: a link's mesh reaches to the joints of its children.
"""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

FAR = 0.01  # m from the children's joints, on average, from which on meshes are taken to lie
BETTER = 0.5  # of that distance, at most, that is left if they are turned
TURN = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])  # from y up to z up


def want_turning(root: ElementTree.Element, meshes: dict[ElementTree.Element, np.ndarray]) -> bool:
    """Whether a URDF's meshes fit its joints only if they are turned from y up to z up.

    Args:
        root: The URDF.
        meshes: Of files with y up: shape (visual or collision) -> (n, 3) vertices in m, not scaled.
    """
    children: dict[str, list[np.ndarray]] = {}
    for joint in root.findall("joint"):
        if joint.get("type") != "fixed" and (parent := joint.find("parent")) is not None:
            children.setdefault(parent.get("link", ""), []).append(_numbers(joint.find("origin"), "xyz"))
    lying, turned = [], []
    for link in root.findall("link"):
        hung = children.get(link.get("name", ""))
        for shape in link if hung else ():
            if shape in meshes:
                lying.append(_outside(shape, meshes[shape], np.eye(3), hung))
                turned.append(_outside(shape, meshes[shape], TURN, hung))
    return bool(lying) and float(np.mean(lying)) > FAR and float(np.mean(turned)) < BETTER * float(np.mean(lying))


def _outside(
    shape: ElementTree.Element, vertices: np.ndarray, turn: np.ndarray, points: list[np.ndarray] | None
) -> float:
    """m, on average, from points in the link's frame to the box around a shape's mesh."""
    origin, mesh = shape.find("origin"), shape.find("./geometry/mesh")
    pose = Rotation.from_euler("xyz", _numbers(origin, "rpy")).as_matrix()
    placed = vertices @ turn.T * _numbers(mesh, "scale", 1.0) @ pose.T + _numbers(origin, "xyz")
    low, high = placed.min(0), placed.max(0)
    return float(np.mean([np.linalg.norm(np.maximum(np.maximum(low - at, at - high), 0.0)) for at in points or ()]))


def _numbers(element: ElementTree.Element | None, key: str, default: float = 0.0) -> np.ndarray:
    """(3,) of an attribute; MuJoCo refuses those that are none later on."""
    text = "" if element is None else element.get(key, "")
    try:
        numbers = np.array(text.split(), float)
    except ValueError:
        numbers = np.zeros(0)
    return numbers if numbers.shape == (3,) and np.isfinite(numbers).all() else np.full(3, default)
