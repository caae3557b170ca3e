"""Reading MJCF and URDF files of other people: where meshes lie, what a parser refuses, and what is mended."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import mujoco

from embodied.core.scenes import one_line
from embodied.errors import ModelError
from embodied.robot.files.inertias import LEAST_INERTIA, LEAST_MASS, mend_inertias
from embodied.robot.files.meshes import SUFFIXES, find_mesh, readable_mesh
from embodied.robot.files.xml import content, parse


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
    root = parse(path, content(path))
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
    mended += mend_inertias(path, root)
    return ModelFile(_spec(path, _with_compiler(root)), True, tuple(mended), mimics)


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
            try:
                mesh.set("filename", str(_mesh(path, link, mesh)))
            except ModelError:
                if shape.tag == "collision":
                    raise
                link.remove(shape)
                dropped += 1
    if dropped:
        mended.append(f"{dropped} meshes for the eye are missing or in a format that MuJoCo does not read: left out")
    if empty:
        mended.append(f"{empty} shapes without extent: left out")
    return mended


def _mesh(path: Path, link: ElementTree.Element, mesh: ElementTree.Element) -> Path:
    """The file of a mesh, as MuJoCo reads it."""
    name = mesh.get("filename", "")
    which = f"{path}: the collision mesh {name!r} of link {link.get('name')!r}"
    if (suffix := Path(name).suffix.lower()) and suffix not in SUFFIXES:
        raise ModelError(f"{which} is no {', '.join(SUFFIXES)}: convert it")
    found = find_mesh(path, name)
    if found is None:
        raise ModelError(f"{which} does not exist among the folders above the model; unpack its package there")
    return readable_mesh(found)


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
