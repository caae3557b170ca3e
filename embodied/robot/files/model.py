"""Reading third-party MJCF and URDF files: paths of meshes, elements that a parser refuses, and fixes."""

from __future__ import annotations

import collections
import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import mujoco

from embodied.core.scenes import one_line
from embodied.errors import ModelError, listing
from embodied.robot.files import limits
from embodied.robot.files.fit import fit_solids
from embodied.robot.files.inertias import LEAST_INERTIA, LEAST_MASS, fix_inertias, has_masses
from embodied.robot.files.meshes import (
    SUFFIXES,
    UNREAD,
    compiled_meshes,
    find_mesh,
    is_y_up,
    readable_mesh,
    vertices_of,
)
from embodied.robot.files.mjcf import keep_robot, refuse_unsound
from embodied.robot.files.shapes import collide_with_visuals, is_empty
from embodied.robot.files.upright import want_turning
from embodied.robot.files.xml import content, parse

PRIMITIVES, HULLS = "primitives", "meshes"
COLLISIONS = (PRIMITIVES, HULLS)
"""Collision geometry where a URDF has meshes that collide."""
VECTORS = {"origin": ("xyz", "rpy"), "axis": ("xyz",), "mesh": ("scale",)}
MOVING = ("revolute", "continuous", "prismatic")  # types of a URDF's joints that a motor moves


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A parsed model and its fixes."""

    spec: mujoco.MjSpec
    is_urdf: bool
    fixes: tuple[str, ...]
    """One line each."""


def read_model(path: Path, collision: str = PRIMITIVES) -> ModelFile:
    """Parse an MJCF or URDF file.

    Args:
        collision: Collision shapes of a URDF's meshes that collide: primitives that hold them, or the meshes' hulls.

    Raises:
        ModelError: it is no such file, a mesh is missing or of an unknown format, or MuJoCo refuses it; one line that
            names the file and the element.
    """
    root = parse(path, content(path))
    if root.tag == "mujoco":
        refuse_unsound(path, root)
        spec = _spec(path, None)
        attached = {"body": len(spec.bodies), "joint": len(spec.joints), "geom": len(spec.geoms)}
        limits.refuse_counts(path, attached)
        return ModelFile(spec, False, tuple(keep_robot(path, spec)))
    if root.tag != "robot":
        raise ModelError(f"{path}: its root element is <{root.tag}>; expected <mujoco> (MJCF) or <robot> (URDF)")
    limits.refuse_urdf(path, root)
    _refuse_doubles(path, root)
    _refuse_several_robots(path, root)
    _refuse_vectors(path, root)
    fixes = _find_meshes(path, root) + collide_with_visuals(root)
    fixes += _drop_lost_mimics(root)
    for joint in root.iter("joint"):
        if (limit := joint.find("limit")) is not None and joint.get("type") == "continuous":
            for side in ("lower", "upper"):
                limit.attrib.pop(side, None)
    weighed = has_masses(root)
    if weighed:
        fixes += fix_inertias(path, root)
    else:
        for link in root.findall("link"):
            for inertial in link.findall("inertial"):
                link.remove(inertial)
        fixes.append("no link has a mass: made those of water in the place of the shapes")
    spec = _spec(path, _with_compiler(root, weighed))
    for mesh in spec.meshes:  # the volume of one that is open or flat is none
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    model, unread = compiled_meshes(path, spec)
    fixes += unread
    if collision == PRIMITIVES:
        fit_solids(spec, model)
    for geom in spec.geoms if weighed else ():  # a link without an inertial is one without a mass
        geom.mass = 0.0
    return ModelFile(spec, True, tuple(fixes))


def _refuse_doubles(path: Path, root: ElementTree.Element) -> None:
    """Refuse two links or two joints of one name, of which MuJoCo's reader leaves one nameless."""
    for tag in ("link", "joint"):
        counts = collections.Counter(part.get("name", "") for part in root.findall(tag))
        if doubles := [name for name, count in counts.items() if count > 1]:
            raise ModelError(f"{path}: two {tag}s are called {doubles[0]!r}; expected a name of its own for each")


def _refuse_several_robots(path: Path, root: ElementTree.Element) -> None:
    """Refuse several links without a parent: two robots in one file, which MuJoCo would take for one."""
    children = {child.get("link") for joint in root.findall("joint") if (child := joint.find("child")) is not None}
    roots = [link.get("name", "") for link in root.findall("link") if link.get("name") not in children]
    if not children and not roots:
        raise ModelError(
            f"{path}: has no links; a xacro file is expanded by 'xacro FILE > robot.urdf', with the call of its macro"
        )
    if len(roots) != 1:
        raise ModelError(
            f"{path}: {len(roots)} links are the child of no joint ({', '.join(roots[:4]) or 'none'}); expected one, "
            "the robot's base: split the file, or join them by fixed joints"
        )


def _refuse_vectors(path: Path, root: ElementTree.Element) -> None:
    """Refuse places, angles, axes and scales that are not three numbers, which other readers truncate silently."""
    for part in [*root.findall("link"), *root.findall("joint")]:
        for element in part.iter():
            for key in VECTORS.get(str(element.tag), ()):
                text = element.get(key)
                if text is not None and not _is_vector(text):
                    of = f"{part.tag} {part.get('name')!r}"
                    raise ModelError(f"{path}: <{element.tag} {key}={text!r}> of {of}; expected three numbers")


def _is_vector(text: str) -> bool:
    words = text.split()
    return len(words) == 3 and all(map(limits.is_number, words))


def _find_meshes(path: Path, root: ElementTree.Element) -> list[str]:
    """Make the meshes' file names absolute; drop pictures that are missing, refuse collision shapes that are."""
    fixes, dropped, empty, y_up = [], [], 0, {}
    for link in root.findall("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            if (mesh := shape.find("./geometry/mesh")) is None:
                if is_empty(shape):
                    link.remove(shape)
                    empty += 1
                continue
            try:
                file, readable = _mesh(path, link, mesh)
                mesh.set("filename", str(readable))
                if is_y_up(file):
                    y_up[shape] = file
            except ModelError:
                if shape.tag == "collision":
                    raise
                link.remove(shape)
                dropped.append(link.get("name", ""))
    if want_turning(root, {shape: vertices_of(readable_mesh(file)) for shape, file in y_up.items()}):
        for shape, file in y_up.items():
            shape.find("./geometry/mesh").set("filename", str(readable_mesh(file, turned=True)))
        fixes.append(f"{len(y_up)} meshes with y up fit the joints only with z up: turned")
    if dropped:
        fixes.append(f"{UNREAD}: {listing(dict.fromkeys(dropped), 6)}")
    if empty:
        fixes.append(f"{empty} shapes without extent: left out")
    return fixes


def _mesh(path: Path, link: ElementTree.Element, mesh: ElementTree.Element) -> tuple[Path, Path]:
    """A link's mesh, and what MuJoCo reads in its place."""
    name = mesh.get("filename", "")
    which = f"{path}: the collision mesh {name!r} of link {link.get('name')!r}"
    if (suffix := Path(name).suffix.lower()) and suffix not in SUFFIXES:
        raise ModelError(f"{which} is no {', '.join(SUFFIXES)}: convert it")
    found = find_mesh(path, name)
    if found is None:
        raise ModelError(f"{which} does not exist among the folders above the model; unpack its package there")
    try:
        return found, readable_mesh(found)
    except ModelError as error:
        raise ModelError(f"{which}: {error}") from None


def _drop_lost_mimics(root: ElementTree.Element) -> list[str]:
    """Remove each <mimic> without meaning; returns a line on the joints that follow no existing joint."""
    lost = []
    moving = {joint.get("name", "") for joint in root.findall("joint") if joint.get("type") in MOVING}
    for joint in root.findall("joint"):
        if (mimic := joint.find("mimic")) is None:
            continue
        name = joint.get("name", "")
        if name not in moving or mimic.get("joint") not in moving:
            joint.remove(mimic)
            lost += [name] if name in moving else []
    return [f"joints that follow none that exists, on their own now: {listing(lost, 6)}"] if lost else []


def _with_compiler(root: ElementTree.Element, weighed: bool) -> str:
    """The URDF as text, with the options of MuJoCo's compiler that keep links, pictures and paths.

    None of these would carry over to the robot's scene, such as how its objects get their masses.
    """
    for old in root.findall("mujoco"):
        root.remove(old)
    for shape in [*root.iterfind("./link/visual"), *root.iterfind("./link/collision")]:
        shape.attrib.pop("name", None)  # MuJoCo prints a warning for every one that is given twice
    extension = ElementTree.SubElement(root, "mujoco")
    options = {
        "strippath": "false",
        "fusestatic": "false",
        "discardvisual": "false",
        "balanceinertia": "true",
        **({} if weighed else {"boundmass": str(LEAST_MASS), "boundinertia": str(LEAST_INERTIA)}),
    }
    ElementTree.SubElement(extension, "compiler", options)
    return ElementTree.tostring(root, encoding="unicode")


def _spec(path: Path, text: str | None) -> mujoco.MjSpec:
    try:
        return mujoco.MjSpec.from_file(str(path)) if text is None else mujoco.MjSpec.from_string(text)
    except (ValueError, OSError, RuntimeError) as error:
        said = one_line(error)
        if text is not None:  # line numbers of this text are not the file's
            said = re.sub(r",? line \d+", "", said)
        raise ModelError(f"{path}: MuJoCo does not read it: {said}") from None
