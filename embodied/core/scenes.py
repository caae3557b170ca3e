"""Composing scenes from assets with MjSpec, and MuJoCo's warnings as notes of ours."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import mujoco

from embodied.errors import ModelError
from embodied.storage.paths import asset

_warned: set[str] = set()


def say_once(warning: str) -> None:
    """Print a warning of MuJoCo, once whatever its numbers are."""
    if (kind := re.sub(r"[\d.]+", "", warning)) not in _warned:
        _warned.add(kind)
        print(f"warning: MuJoCo: {' '.join(warning.split())}", file=sys.stderr)


if mujoco.get_mju_user_warning() is None:
    mujoco.set_mju_user_warning(say_once)  # by itself it writes MUJOCO_LOG.TXT into the working folder


def load_spec(path: str | Path) -> mujoco.MjSpec:
    """Parse an MJCF file; a relative path names an asset.

    Raises:
        ModelError: the file does not exist or does not parse; says where and why.
    """
    file = path_of(path)
    try:
        return mujoco.MjSpec.from_file(str(file))
    except (ValueError, OSError) as error:
        raise ModelError(f"{file.name} is not a model that MuJoCo can read: {one_line(error)}") from None


def compose(scene: str | Path, *robots: str | Path) -> mujoco.MjSpec:
    """A scene with robots in its world, all names unchanged; compile it with `compile_spec`.

    The files are included, not attached: attaching without a prefix makes MuJoCo warn. For several robots of one
    kind, attach `load_spec(robot)` with a prefix each.

    Raises:
        ModelError: a file does not exist or does not parse; says which and why.
    """
    return _joined([path_of(part) for part in (scene, *robots)], {})


def compose_text(scene: str | Path, robot: str, name: str = "robot") -> mujoco.MjSpec:
    """A scene with a robot that is given as MJCF text; where both have a name, `robot_` stands before the robot's."""
    file = path_of(scene)
    return _joined([file, Path(f"{name}.xml")], {f"{name}.xml": _renamed(robot, file).encode()})


REFERENCES = {
    "material": ("material",), "texture": ("texture",), "mesh": ("mesh",), "hfield": ("hfield",),
    "geom": ("geom", "geom1", "geom2"), "light": (), "camera": (),
}  # fmt: skip
"""Elements whose names may meet -> attributes that refer to them; bodies, joints and sensors keep the robot's names."""


def _renamed(robot: str, scene: Path) -> str:
    """A robot's MJCF with other names where the scene has things of the same kind and name."""
    tree, taken = ElementTree.fromstring(robot), ElementTree.parse(scene)
    for kind, attributes in REFERENCES.items():
        names = {one.get("name") for one in taken.iter(kind)} & {one.get("name") for one in tree.iter(kind)} - {None}
        for element in tree.iter() if names else ():
            for attribute in (*attributes, *(("name",) if element.tag == kind else ())):
                if (name := element.get(attribute)) in names:
                    element.set(attribute, f"robot_{name}")
    return ElementTree.tostring(tree, encoding="unicode")


def _joined(files: list[Path], texts: dict[str, bytes]) -> mujoco.MjSpec:
    """A model that includes files, some of which are not on the disk but `texts`."""
    includes = "".join(f"<include file={quoteattr(str(file))}/>" for file in files)
    name = " + ".join(file.stem for file in files)
    try:
        return mujoco.MjSpec.from_string(f"<mujoco model={quoteattr(name)}>{includes}</mujoco>", include=texts)
    except ValueError as error:
        raise ModelError(f"{name} is not a model that MuJoCo can read: {one_line(error)}") from None


def path_of(file: str | Path) -> Path:
    """A path as it is if absolute, else the asset of that name."""
    return Path(file) if Path(file).is_absolute() else asset(str(file))


def compile_spec(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a composed scene.

    Raises:
        ModelError: MuJoCo rejects it; says why.
    """
    try:
        return spec.compile()
    except ValueError as error:
        raise ModelError(f"the model {spec.modelname!r} does not compile: {one_line(error)}") from None


def one_line(error: Exception) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())
