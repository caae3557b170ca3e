"""Reading MJCF and URDF files of other people: where meshes lie, what a parser refuses, and what is mended."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from embodied.core.scenes import one_line
from embodied.errors import ModelError
from embodied.storage.files import read_file

MESHES = (".stl", ".obj", ".msh")  # formats that MuJoCo reads
LARGEST = 64 * 2**20  # bytes of a model file: the largest known, with everything inlined, has 3 MB
LEAST_MASS = 1e-3  # kg, of a moving body that has less
LEAST_INERTIA = 1e-6  # kg m^2, likewise


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A parsed model and what had to be mended."""

    spec: mujoco.MjSpec
    is_urdf: bool
    mended: tuple[str, ...]
    """One line each."""
    mimics: dict[str, tuple[str, float, float]]
    """URDF: joint -> the joint that it follows, multiplier, offset (rad or m)."""


def read_model(path: Path) -> ModelFile:
    """Parse an MJCF or URDF file.

    Raises:
        ModelError: it is no such file, a mesh is missing or of an unknown format, or MuJoCo refuses it; one line that
            names the file and the element.
    """
    root = _parse(path)
    if root.tag == "mujoco":
        _refuse_includes(path, root)
        return ModelFile(_spec(path, None), False, (), {})
    if root.tag != "robot":
        raise ModelError(f"{path}: its root element is <{root.tag}>; expected <mujoco> (MJCF) or <robot> (URDF)")
    _refuse_several_robots(path, root)
    mended = _find_meshes(path, root)
    followers = [joint for joint in root.findall("joint") if joint.find("mimic") is not None]
    mimics = {joint.get("name", ""): _mimic(path, joint) for joint in followers}
    for joint in root.iter("joint"):
        if (limit := joint.find("limit")) is not None and joint.get("type") == "continuous":
            for side in ("lower", "upper"):
                limit.attrib.pop(side, None)
    mended += _mend_inertias(path, root)
    return ModelFile(_spec(path, _with_compiler(root)), True, tuple(mended), mimics)


def _parse(path: Path) -> ElementTree.Element:
    """The root of an XML file without entities, which could grow without end or read other files."""
    text = content(path)
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise ModelError(f"{path}: has a document type, which no MJCF or URDF needs; remove it")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ModelError(f"{path} is no XML: {error}") from None
    except RecursionError:
        raise ModelError(f"{path}: elements within elements, too deep to read") from None


def content(path: Path) -> bytes:
    """The bytes of a file of a stranger's.

    Raises:
        ModelError: it cannot be read, or is larger than any model.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise ModelError(f"{path} has {size:,} bytes; expected at most {LARGEST:,}")
        return read_file(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _refuse_several_robots(path: Path, root: ElementTree.Element) -> None:
    """Refuse links that hang on nothing: two robots in one file, which MuJoCo would take for one."""
    children = {child.get("link") for joint in root.findall("joint") if (child := joint.find("child")) is not None}
    roots = [link.get("name", "") for link in root.findall("link") if link.get("name") not in children]
    if len(roots) != 1:
        raise ModelError(
            f"{path}: {len(roots)} links are the child of no joint ({', '.join(roots[:4]) or 'none'}); expected one, "
            "the robot's base: split the file, or join them by fixed joints"
        )


def _refuse_includes(path: Path, root: ElementTree.Element) -> None:
    """Refuse files and folders outside the model's own folder."""
    home = path.resolve().parent
    compiler = root.find("compiler")
    folders = [] if compiler is None else [compiler.get(key, "") for key in ("meshdir", "texturedir", "assetdir")]
    files = [element.get("file", "") for element in root.iter() if element.get("file")]
    for name in [*folders, *files]:
        if Path(name).is_absolute() or not _within(home.parent, home / name):
            raise ModelError(f"{path}: refers to {name!r}, outside of {home.parent}; copy it beside the model")


def _within(folder: Path, path: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def _find_meshes(path: Path, root: ElementTree.Element) -> list[str]:
    """Make the meshes' file names absolute; drop pictures that are missing, refuse collision shapes that are."""
    mended, dropped, empty = [], 0, 0
    for link in root.findall("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            if (mesh := shape.find("./geometry/mesh")) is None:
                if _is_empty(shape):
                    link.remove(shape)
                    empty += 1
                continue
            name = mesh.get("filename", "")
            found = _mesh(path, name)
            if found is not None and found.suffix.lower() in MESHES:
                mesh.set("filename", str(found))
            elif shape.tag == "visual":
                link.remove(shape)
                dropped += 1
            else:
                why = "does not exist" if found is None else f"is no {', '.join(MESHES)}: convert it"
                raise ModelError(f"{path}: the collision mesh {name!r} of link {link.get('name')!r} {why}")
    if dropped:
        mended.append(f"{dropped} meshes for the eye are missing or in a format that MuJoCo does not read: left out")
    if empty:
        mended.append(f"{empty} shapes without extent: left out")
    return mended


def _is_empty(shape: ElementTree.Element) -> bool:
    """Whether a box, sphere or cylinder has a side of zero."""
    for kind in ("box", "sphere", "cylinder"):
        if (solid := shape.find(f"./geometry/{kind}")) is not None:
            sides = " ".join(solid.get(key, "") for key in ("size", "radius", "length")).split()
            return any(_is_zero(side) for side in sides)
    return False


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0.0
    except ValueError:
        return False


def _mesh(path: Path, name: str) -> Path | None:
    """Where a mesh lies: beside the model, or for `package://`, below one of the three folders above it."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        scheme, rest = "", name
    if scheme == "file":
        return None
    home = path.resolve().parent
    shorter = rest.split("/", 1)[-1]  # without the package's name
    for folder in (home, *list(home.parents)[:2]):
        for tail in (rest, shorter) if scheme else (rest,):
            candidate = folder / tail
            if candidate.is_file() and _within(home.parents[1] if len(home.parents) > 1 else home, candidate):
                return candidate.resolve()
    return None


def _mimic(path: Path, joint: ElementTree.Element) -> tuple[str, float, float]:
    """The joint that a joint follows, with multiplier and offset."""
    mimic = joint.find("mimic")
    assert mimic is not None
    try:
        return mimic.get("joint", ""), float(mimic.get("multiplier", "1")), float(mimic.get("offset", "0"))
    except ValueError:
        raise ModelError(f"{path}: <mimic> of joint {joint.get('name')!r} has no numbers: {mimic.attrib}") from None


def _with_compiler(root: ElementTree.Element) -> str:
    """The URDF as text, with the options of MuJoCo's compiler that keep links, pictures and paths."""
    for old in root.findall("mujoco"):
        root.remove(old)
    extension = ElementTree.SubElement(root, "mujoco")
    options = {
        "strippath": "false",
        "fusestatic": "false",
        "discardvisual": "false",
        "balanceinertia": "true",
        "boundmass": str(LEAST_MASS),
        "boundinertia": str(LEAST_INERTIA),
    }
    ElementTree.SubElement(extension, "compiler", options)
    return ElementTree.tostring(root, encoding="unicode")


def _spec(path: Path, text: str | None) -> mujoco.MjSpec:
    try:
        return mujoco.MjSpec.from_file(str(path)) if text is None else mujoco.MjSpec.from_string(text)
    except (ValueError, OSError) as error:
        raise ModelError(f"{path}: MuJoCo does not read it: {one_line(error)}") from None


def _mend_inertias(path: Path, root: ElementTree.Element) -> list[str]:
    """Name the moving links whose mass or inertia no body can have; MuJoCo's compiler then mends them."""
    moving = set()
    for joint in root.findall("joint"):
        if joint.get("type") != "fixed" and (child := joint.find("child")) is not None:
            moving.add(child.get("link"))
    light, impossible = [], []
    for link in root.findall("link"):
        if link.get("name") not in moving:
            continue
        mass, moments = _inertial(path, link)
        if mass < LEAST_MASS or moments[0] < LEAST_INERTIA / 100:
            light.append(link.get("name", ""))
        elif moments[0] + moments[1] < moments[2] * (1 - 1e-3):
            impossible.append(link.get("name", ""))
    notes = []
    if light:
        notes.append(
            f"moving links with next to no mass or inertia, raised to {LEAST_MASS:g} kg and {LEAST_INERTIA:g} kg m^2: "
            f"{', '.join(light[:6])}"
        )
    if impossible:
        notes.append(f"inertias that break the triangle inequality, made round: {', '.join(impossible[:6])}")
    return notes


def _inertial(path: Path, link: ElementTree.Element) -> tuple[float, list[float]]:
    """Mass in kg and principal moments (3,) in kg m^2, ascending; zeros where the link says nothing."""
    mass, inertia = link.find("./inertial/mass"), link.find("./inertial/inertia")
    if mass is None or inertia is None:
        return 0.0, [0.0, 0.0, 0.0]
    try:
        xx, yy, zz, xy, xz, yz = (float(inertia.get(key, "0")) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return float(mass.get("value", "0")), sorted(moments.tolist())
    except (ValueError, np.linalg.LinAlgError):
        raise ModelError(f"{path}: <inertial> of link {link.get('name')!r} has no finite numbers") from None
