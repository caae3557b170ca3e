"""Meshes of third-party models: their files, and copies of those that MuJoCo does not read itself."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import ModelError, listing
from embodied.robot.files.collada import collada_triangles
from embodied.robot.files.mjcf import compiled
from embodied.robot.files.upright import TURN
from embodied.robot.files.xml import ABOVE, content, package_of
from embodied.storage.files import write_atomic

SUFFIXES = (".stl", ".obj", ".msh", ".dae")
"""Formats that are read: the first three by MuJoCo."""
SCHEMES = ("package", "model")  # of ROS and of Gazebo
MOST_FACES = 200_000  # of an STL file that MuJoCo reads
VERSION = "1"  # of the copies; a new one where the conversion changes
FIND = re.compile(r"^\$\(find ([^)]+)\)/?")  # what xacro leaves in a file that it did not expand
UP = b"<up_axis>Y_UP"
UNREAD = "meshes for the eye that are missing or that MuJoCo does not read, left out of"
ELEMENT = re.compile(r"Element name '(.+?)', id")  # that MuJoCo's compiler complains of
VERTEX = re.compile(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)")


def find_mesh(model: Path, name: str) -> Path | None:
    """File of a mesh that a model names, its symbolic links followed; None where it does not exist.

    A relative path is one from the model's folder. `package://NAME/REST` is looked for in the folders above the model:
    REST in one that is called NAME, then NAME/REST and REST below each. Nothing is found outside of the package (for
    relative paths: outside of the folder that holds the model's), nor what has another suffix than a mesh.
    """
    home = model.resolve().parent
    above = [home, *home.parents][: ABOVE + 1]
    scheme, rest = _split(name)
    if not scheme:
        return _inside(above[min(1, len(above) - 1)], home / rest) or _inside(package_of(model), home / rest)
    if scheme not in SCHEMES:
        return None
    package, _, below = rest.partition("/")
    places = [(folder, below) for folder in above if folder.name == package]
    places += [place for folder in above for place in ((folder / package, below), (folder, below))]
    return next((found for folder, tail in places if (found := _inside(folder, folder / tail))), None)


def _split(name: str) -> tuple[str, str]:
    """Scheme and what follows it; `$(find NAME)/REST` is NAME's package, `file:PATH` is a path."""
    if found := FIND.match(name):
        return "package", f"{found[1].strip()}/{name[found.end() :]}"
    scheme, separator, rest = name.removeprefix("file:").partition("://")
    return (scheme, rest.lstrip("/")) if separator else ("", scheme)


def _inside(folder: Path, path: Path) -> Path | None:
    """A mesh file below a folder, or nothing."""
    try:
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            return None
        found = path.resolve()
    except (OSError, ValueError):  # a name that no file could have
        return None
    return found if found.suffix.lower() in SUFFIXES and found.is_relative_to(folder.resolve()) else None


def is_y_up(path: Path) -> bool:
    """Whether a mesh is Collada with y up."""
    return path.suffix.lower() == ".dae" and UP in content(path)


def readable_mesh(path: Path, turned: bool = False) -> Path:
    """The mesh itself if MuJoCo reads it, else a copy that it reads, kept in the user's cache.

    Copied are Collada, STL in text, and STL of more faces than MuJoCo takes.

    Args:
        turned: Whether Collada is turned from y up to z up.

    Raises:
        ModelError: it cannot be read, or is damaged.
    """
    suffix = path.suffix.lower()
    if suffix not in (".stl", ".dae"):
        return path
    text = content(path)
    binary = suffix == ".stl" and len(text) == 84 + 50 * int.from_bytes(text[80:84], "little")
    if binary and int.from_bytes(text[80:84], "little") <= MOST_FACES:
        return path
    copy = cache() / f"{hashlib.sha256(text).hexdigest()[:32]}-{VERSION}{'t' if turned else ''}.msh"
    if not copy.is_file():
        triangles = collada_triangles(str(path), text) if suffix == ".dae" else _stl(path, text, binary)
        triangles = triangles @ TURN.T if turned else triangles
        try:
            write_atomic(copy, _msh(triangles))
        except OSError as error:
            raise ModelError(f"cannot write {copy}, a copy of {path} that MuJoCo reads: {error.strerror}") from None
    return copy


def compiled_meshes(path: Path, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, list[str]]:
    """The model of a URDF whose meshes do not collide; meshes for the eye that MuJoCo refuses are removed.

    Returns it with a line on the links that lost one. Without contacts no mesh needs a convex hull, which flat ones
    have not.

    Raises:
        ModelError: MuJoCo does not compile it; a mesh that is to collide is named with its link.
    """
    contacts = {geom: (geom.contype, geom.conaffinity) for geom in spec.geoms if geom.contype or geom.conaffinity}
    for geom in contacts:
        geom.contype = geom.conaffinity = 0
    model, dropped = None, []
    while model is None:
        try:
            model = compiled(path, spec)
        except ModelError as error:
            named = ELEMENT.search(str(error))
            shapes = [geom for geom in spec.geoms if named and geom.meshname == named[1]]
            if not shapes:
                raise
            for shape in shapes:
                link = shape.parent.name
                if shape in contacts:
                    raise ModelError(f"{error} (the collision mesh of link {link!r})") from None
                dropped.append(link)
                spec.delete(shape)
            spec.delete(spec.mesh(shapes[0].meshname))
    for geom, flags in contacts.items():
        geom.contype, geom.conaffinity = flags
    return model, [f"{UNREAD}: {listing(dict.fromkeys(dropped), 6)}"] if dropped else []


def vertices_of(copy: Path) -> np.ndarray:
    """(n, 3) m of a copy that `readable_mesh` made."""
    numbers = content(copy)
    return np.frombuffer(numbers, "<f4", 3 * int.from_bytes(numbers[:4], "little"), 16).reshape(-1, 3).astype(float)


def cache() -> Path:
    """The folder of converted meshes: in the user's cache, or where that cannot be written, one of this process."""
    folder = Path.home() / ".cache" / "embodied" / "meshes"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(_temporary().name)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process: one of a name that is known beforehand may be another user's."""
    return tempfile.TemporaryDirectory(prefix="embodied-meshes-")


def _stl(path: Path, text: bytes, binary: bool) -> np.ndarray:
    """(n, 3, 3) corners of an STL file's triangles."""
    if binary:
        rows = np.frombuffer(text, np.uint8, offset=84).reshape(-1, 50)[:, 12:48]
        return rows.copy().view("<f4").reshape(-1, 3, 3).astype(float)
    try:
        numbers = np.array(VERTEX.findall(text)).astype(float)
    except ValueError as error:
        raise ModelError(f"{path} is no STL: {error}") from None
    if not numbers.size or len(numbers) % 3 or not np.isfinite(numbers).all():
        raise ModelError(f"{path} is no STL: {len(text):,} bytes with {len(numbers)} corners of triangles in text")
    return numbers.reshape(-1, 3, 3)


def _msh(triangles: np.ndarray) -> bytes:
    """MuJoCo's binary mesh: numbers of vertices, normals, texture coordinates and faces; vertices; faces."""
    vertices, faces = np.unique(triangles.reshape(-1, 3).astype("<f4"), axis=0, return_inverse=True)
    header = np.array([len(vertices), 0, 0, len(triangles)], "<i4")
    return header.tobytes() + vertices.tobytes() + faces.reshape(-1).astype("<i4").tobytes()
