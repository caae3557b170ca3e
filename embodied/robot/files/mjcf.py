"""Third-party MJCF files: parts of the robot, and parts of its scene."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from xml.etree import ElementTree

import mujoco

from embodied.core.scenes import one_line
from embodied.errors import ModelError, listing
from embodied.robot.files import limits
from embodied.robot.files.xml import content, package_of, parse

TRANSMISSIONS = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
MOST_FILES = 200  # of a model, which include each other


def refuse_unsound(path: Path, root: ElementTree.Element) -> None:
    """Refuse numbers that mean nothing, and files and folders outside the model's package.

    Files that it includes or attaches are held to the same; elements of those that it includes are added to `root`.
    """
    _refuse_unsound(path, root, _Whole(path, {path.resolve()}))
    limits.refuse_many(path, root)


@dataclasses.dataclass(frozen=True)
class _Whole:
    """A model of one or several files, while they are looked at."""

    file: Path
    """The one that includes the others, from whose folder MuJoCo reads all of them."""
    included: set[Path]
    """Those that are part of the model already, which MuJoCo reads once."""
    attached: bool = False
    """Whether another model attaches parts of it."""


def _refuse_unsound(path: Path, root: ElementTree.Element, whole: _Whole) -> None:
    """Refuse what is unsound in one file of a model and in those that it refers to."""
    home, package, included = whole.file.resolve().parent, package_of(whole.file), whole.included
    limits.refuse_mjcf(path, root)
    compilers = root.findall("compiler")
    folders = [element.get(key, "") for element in compilers for key in ("meshdir", "texturedir", "assetdir")]
    files = [name for element in root.iter() for key, name in element.items() if key.startswith("file") and name]
    for name in [*folders, *files]:
        there = (home / name).resolve()
        if not there.is_relative_to(package) and not there.is_relative_to(home.parent):
            raise ModelError(f"{path}: refers to {name!r}, outside of {package}; copy it beside the model")
    for element in root.findall("./asset/model"):
        if whole.attached:
            raise ModelError(f"{path}: attaches parts of {element.get('file', '')!r}, but is attached itself")
        _refuse_attached(path, home / element.get("file", ""))
    for element in list(root.iter("include")):
        file = home / element.get("file", "")
        if not file.is_file():
            raise ModelError(f"{path}: includes {element.get('file', '')!r}, which does not exist in {home}")
        if file.resolve() in included:
            raise ModelError(f"{path}: includes {element.get('file', '')!r}, which is part of the model already")
        included.add(file.resolve())
        if len(included) > MOST_FILES:
            raise ModelError(
                f"{path}: includes {element.get('file', '')!r}; expected a model of no more than {MOST_FILES} files"
            )
        part = parse(file, content(file))
        _refuse_unsound(file, part, whole)
        element.extend(part)


def _refuse_attached(path: Path, file: Path) -> None:
    """Refuse what is unsound in a model of which `path` attaches parts."""
    if not file.is_file():
        raise ModelError(f"{path}: attaches parts of {file}, which does not exist")
    root = parse(file, content(file))
    if root.tag != "mujoco":
        raise ModelError(f"{path}: attaches parts of {file}, whose root element is <{root.tag}>; expected <mujoco>")
    _refuse_unsound(file, root, _Whole(file, {file.resolve()}, attached=True))
    limits.refuse_many(file, root)


def keep_robot(path: Path, spec: mujoco.MjSpec) -> list[str]:
    """Name unnamed elements, and remove moving parts of the scene that no actuator drives; returns a line on these.

    Raises:
        ModelError: MuJoCo does not compile it.
    """
    for kind, elements in (("body", spec.bodies[1:]), ("joint", spec.joints)):
        taken = {element.name for element in elements}
        for number, element in enumerate(elements):
            if not element.name:
                free = (f"{kind}{number}{'_' * more}" for more in range(len(taken) + 1))
                element.name = next(name for name in free if name not in taken)
    tops = [body for body in spec.worldbody.bodies if body.joints or body.find_all(mujoco.mjtObj.mjOBJ_JOINT)]
    if len(tops) < 2:
        return []
    driven = driven_joints(compiled(path, spec))
    props = [body for body in tops if not driven & {joint.name for joint in _joints_of(body)}]
    if not driven or len(props) == len(tops):
        return []
    names = [body.name for body in props]
    parts = {part.name for body in props for part in [body, *body.find_all(mujoco.mjtObj.mjOBJ_BODY)]}
    for watcher in [*spec.cameras, *spec.lights]:
        if watcher.targetbody in parts:
            spec.delete(watcher)
    for body in props:
        spec.delete(body)
    return [f"bodies that move and that nothing drives, left out: {listing(names, 6)}"] if names else []


def _joints_of(body: mujoco.MjsBody) -> list[mujoco.MjsJoint]:
    return [*body.joints, *body.find_all(mujoco.mjtObj.mjOBJ_JOINT)]


def driven_joints(model: mujoco.MjModel) -> set[str]:
    """Names of the joints that actuators drive, directly or by a tendon that joins joints."""
    found = set()
    for actuator in range(model.nu):
        kind, target = int(model.actuator_trntype[actuator]), int(model.actuator_trnid[actuator, 0])
        if kind in TRANSMISSIONS:
            found.add(model.joint(target).name)
        elif kind == int(mujoco.mjtTrn.mjTRN_TENDON):
            first = int(model.tendon_adr[target])
            for wrap in range(first, first + int(model.tendon_num[target])):
                if int(model.wrap_type[wrap]) == int(mujoco.mjtWrap.mjWRAP_JOINT):
                    found.add(model.joint(int(model.wrap_objid[wrap])).name)
    return found


def compiled(path: Path, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """The model of a spec.

    Raises:
        ModelError: MuJoCo does not compile it; says why in one line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of textures, and of what `fixes` reports
            return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(f"{path}: MuJoCo does not compile it: {one_line(error)}") from None
