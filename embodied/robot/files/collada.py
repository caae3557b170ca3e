"""Collada (`.dae`) meshes: their triangles and nothing else, neither images nor materials nor other files."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np

from embodied.errors import ModelError
from embodied.robot.files.xml import parse

MOST_TRIANGLES = 4_000_000  # of a file with all its instances, which could otherwise grow without end
DEEPEST = 50  # nodes within nodes
FACES = ("triangles", "polylist", "polygons", "tristrips", "trifans")


def collada_triangles(name: str, text: bytes) -> np.ndarray:
    """(n, 3, 3) m: the corners of all triangles of a scene, by its nodes' transforms and its unit.

    The file's up axis is left alone, as ROS' viewers and Gazebo do: models are made for them.

    Raises:
        ModelError: it is no Collada, or has no triangles.
    """
    root = parse(name, text)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
    if root.tag != "COLLADA":
        raise ModelError(f"{name}: its root element is <{root.tag}>; expected <COLLADA>")
    try:
        scene = _Scene(root)
        triangles = scene.triangles()
        unit = root.find("./asset/unit")
        scale = 1.0 if unit is None else float(unit.get("meter", "1"))
    except (ValueError, IndexError, KeyError) as error:
        raise ModelError(f"{name}: is damaged, or no Collada that is understood: {error}") from None
    if not len(triangles) or not np.isfinite(triangles).all():
        raise ModelError(f"{name}: has no triangles, or numbers that are not finite")
    return triangles * scale


class _Scene:
    """The geometries of a file and where its nodes put them."""

    def __init__(self, root: ElementTree.Element) -> None:
        self.root = root
        self.nodes = {node.get("id", ""): node for node in root.iter("node")}
        self.geometries = {
            geometry.get("id", ""): _geometry(mesh)
            for geometry in root.iter("geometry")
            if (mesh := geometry.find("mesh")) is not None
        }
        self.skinned = {
            controller.get("id", ""): skin.get("source", "")[1:]
            for controller in root.iter("controller")
            if (skin := controller.find("skin")) is not None
        }
        self.found: list[np.ndarray] = []
        self.count = 0

    def triangles(self) -> np.ndarray:
        """(n, 3, 3) in the file's unit."""
        shown = self.root.find("./scene/instance_visual_scene")
        scenes = list(self.root.iter("visual_scene"))
        wanted = [scene for scene in scenes if shown is not None and scene.get("id") == shown.get("url", "")[1:]]
        for scene in wanted or scenes:
            for node in scene.findall("node"):
                self._visit(node, np.eye(4), 0)
        if not scenes:
            for geometry in self.geometries:
                self._place(geometry, np.eye(4))
        return np.concatenate(self.found) if self.found else np.zeros((0, 3, 3))

    def _visit(self, node: ElementTree.Element, above: np.ndarray, depth: int) -> None:
        if depth > DEEPEST:
            raise ValueError("nodes within nodes, too deep to read")
        pose = above @ _transform(node)
        for child in node:
            if child.tag == "node":
                self._visit(child, pose, depth + 1)
            elif child.tag == "instance_node":
                self._visit(self.nodes[child.get("url", "")[1:]], pose, depth + 1)
            elif child.tag == "instance_geometry":
                self._place(child.get("url", "")[1:], pose)
            elif child.tag == "instance_controller":
                self._place(self.skinned[child.get("url", "")[1:]], pose)

    def _place(self, geometry: str, pose: np.ndarray) -> None:
        corners = self.geometries.get(geometry)  # None: splines, which have no triangles
        if corners is None or not len(corners):
            return
        self.count += len(corners)
        if self.count > MOST_TRIANGLES:
            raise ValueError(f"more than {MOST_TRIANGLES:,} triangles")
        self.found.append(corners @ pose[:3, :3].T + pose[:3, 3])


def _transform(node: ElementTree.Element) -> np.ndarray:
    """(4, 4) of a node's matrix, translations, rotations and scales, in their order."""
    pose = np.eye(4)
    for element in node:
        step = np.eye(4)
        if element.tag == "matrix":
            step = _floats(element).reshape(4, 4)
        elif element.tag == "translate":
            step[:3, 3] = _floats(element)
        elif element.tag == "scale":
            step[[0, 1, 2], [0, 1, 2]] = _floats(element)
        elif element.tag == "rotate":
            x, y, z, degrees = _floats(element)
            step[:3, :3] = _rotation(np.array([x, y, z]), math.radians(degrees))
        pose = pose @ step
    return pose


def _rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """(3, 3) about an axis (Rodrigues)."""
    x, y, z = axis / (np.linalg.norm(axis) or 1.0)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def _geometry(mesh: ElementTree.Element) -> np.ndarray:
    """(n, 3, 3) corners of a mesh's triangles."""
    sources = {source.get("id", ""): source for source in mesh.iter("source")}
    positions = {}
    for vertices in mesh.iter("vertices"):
        for given in vertices.findall("input"):
            if given.get("semantic") == "POSITION":
                positions[vertices.get("id", "")] = _points(sources[given.get("source", "")[1:]])
    found = [np.zeros((0, 3, 3))]
    for faces in mesh:
        if faces.tag in FACES:
            inputs = faces.findall("input")
            stride = 1 + max((int(given.get("offset", "0")) for given in inputs), default=0)
            given = next((given for given in inputs if given.get("semantic") == "VERTEX"), None)
            if given is None:
                continue
            points = positions[given.get("source", "")[1:]]
            corners = _corners(faces, stride, int(given.get("offset", "0")))
            if corners.size and (corners.min() < 0 or corners.max() >= len(points)):
                raise ValueError(f"a face of corner {corners.max()}, of {len(points)} points")
            found.append(points[corners])
    return np.concatenate(found)


def _points(source: ElementTree.Element) -> np.ndarray:
    """(n, 3) of a source of floats."""
    array, accessor = source.find("float_array"), source.find("./technique_common/accessor")
    if array is None:
        raise ValueError(f"the source {source.get('id')!r} has no numbers")
    stride = 3 if accessor is None else int(accessor.get("stride", "3"))
    numbers = _floats(array)
    return numbers[: len(numbers) // stride * stride].reshape(-1, stride)[:, :3]


def _corners(faces: ElementTree.Element, stride: int, offset: int) -> np.ndarray:
    """(n, 3) numbers of points, of triangles; faces with more corners are cut into fans."""
    lists = [_integers(p).reshape(-1, stride)[:, offset] for p in faces.findall("p")]
    if faces.tag == "triangles":
        return np.concatenate([np.zeros(0, int), *lists]).reshape(-1, 3)
    if faces.tag == "polylist":
        counts = faces.find("vcount")
        ends = np.cumsum(_integers(counts)) if counts is not None else []
        lists = np.split(lists[0], ends[:-1]) if lists and len(ends) else []
    if faces.tag == "tristrips":
        strips = [np.stack([run[:-2], run[1:-1], run[2:]], 1) for run in lists if len(run) >= 3]
        for strip in strips:
            strip[1::2] = strip[1::2, ::-1]
        return np.concatenate([np.zeros((0, 3), int), *strips])
    fans = [np.stack([np.full(len(run) - 2, run[0]), run[1:-1], run[2:]], 1) for run in lists if len(run) >= 3]
    return np.concatenate([np.zeros((0, 3), int), *fans])


def _floats(element: ElementTree.Element) -> np.ndarray:
    return np.array((element.text or "").split(), float)


def _integers(element: ElementTree.Element) -> np.ndarray:
    return np.array((element.text or "").split(), int)
