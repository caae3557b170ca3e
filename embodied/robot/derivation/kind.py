"""Kind of a robot: its base, whether that floats, and whether it is legged, an arm, a hand or a multirotor."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import mujoco

from embodied.errors import ModelError, UnknownNameError, listing
from embodied.robot.derivation import forms
from embodied.robot.description import NAME, Description
from embodied.robot.files import ModelFile
from embodied.robot.rotors import has_rotors
from embodied.robot.tree import Tree, is_below

LONGEST = 64  # joints of a limb: a snake's have some thirty, and the search for a pose grows with the cube
HAND_MASS = 3.0  # kg, and
HAND_SIZE = 0.6  # m: what has several limbs and is larger stands on them


class Kind(StrEnum):
    """Kind of a robot."""

    LEGGED = "legged"
    ARM = "arm"
    HAND = "hand"
    MULTIROTOR = "multirotor"


ARTICLES = {Kind.LEGGED: "a legged robot", Kind.ARM: "an arm", Kind.HAND: "a hand", Kind.MULTIROTOR: "a multirotor"}


def root_of(path: Path, model: mujoco.MjModel, said: Description) -> int:
    """The base: the body that was named, else the only one in the world that carries joints or floats."""
    if said.trunk is not None:
        names = [model.body(body).name for body in range(1, model.nbody)]
        if said.trunk not in names:
            raise UnknownNameError(f"body in {path} (key trunk)", said.trunk, names)
        return int(model.body(said.trunk).id)
    tops = [body for body in range(1, model.nbody) if int(model.body_parentid[body]) == 0]
    moving = [top for top in tops if any(is_below(model, int(body), top) for body in model.jnt_bodyid)]
    if len(moving) == 1:
        return moving[0]
    if not moving and len(tops) == 1:
        return tops[0]
    if not moving:
        names = listing([model.body(body).name or f"#{body}" for body in tops], 4)
        raise ModelError(
            f"{path}: 0 bodies in the world move ({names or 'none'}): a scene, or a part that another file includes; "
            f"if one is a robot, say which by trunk in {NAME}"
        )
    names = ", ".join(model.body(body).name or f"#{body}" for body in moving)
    raise ModelError(f"{path}: {len(moving)} bodies in the world move ({names}); say which by trunk in {NAME}")


def floats(model: mujoco.MjModel, root: int) -> bool:
    """Whether a base hangs on a free joint."""
    first = int(model.body_jntadr[root])
    return first >= 0 and int(model.jnt_type[first]) == int(mujoco.mjtJoint.mjJNT_FREE)


def refuse_joints(path: Path, tree: Tree) -> None:
    """Refuse a joint that no motor turns, and a limb of more than a search for its pose can take."""
    model = tree.model
    for limb in tree.limbs:
        if len(limb.joints) > LONGEST:
            raise ModelError(
                f"{path}: {len(limb.joints)} joints lead to {model.body(limb.end).name!r}; expected at most {LONGEST}"
            )
    for joint in range(model.njnt):
        if int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_BALL):
            raise ModelError(
                f"{path}: joint {model.joint(joint).name!r} is a ball, which no motor turns; make it three hinges"
            )


def kind_of(path: Path, tree: Tree, file: ModelFile, said: Description) -> tuple[Kind, bool]:
    """Kind of the robot, and whether its base floats."""
    floating = floats(tree.model, tree.root)
    if said.base is None and not floating and not file.is_urdf:
        _refuse_planar(path, tree)
    if said.kind is not None and said.kind not in [*Kind]:
        raise UnknownNameError(f"kind of robot in {NAME}", said.kind, Kind)
    if said.kind is not None:
        kind = Kind(said.kind)
    else:
        kind = Kind.MULTIROTOR if has_rotors(tree, said, floating) else _guessed(path, tree, floating)
    if said.base is not None and said.base not in ("free", "fixed"):
        raise UnknownNameError(f"base in {NAME}", said.base, ("free", "fixed"))
    held = not file.is_urdf and int(tree.model.body_jntnum[tree.root]) > 0  # by joints of its own
    free = floating or (not held and kind in (Kind.LEGGED, Kind.MULTIROTOR))
    return kind, said.base == "free" if said.base is not None else free


def _guessed(path: Path, tree: Tree, floating: bool) -> Kind:
    branches, model = tree.first_joints(), tree.model
    if not tree.joints:
        raise ModelError(
            f"{path}: no joint that a motor could turn and no rotors: an object, not a robot; if it flies, say rotors "
            f"in {NAME}"
        )
    long, arms = [limb for limb in tree.limbs if len(limb.joints) >= 2], forms.arms(tree)
    short, light = float(model.stat.extent) < HAND_SIZE, tree.mass() < HAND_MASS
    small = short and light
    is_hand = short and (light or len(arms) > 2) and not floating and forms.has_fingers(tree)
    several = len(arms) > 1 and not small and not is_hand
    if several and (len(branches) == 1 or forms.stands_on_its_base(tree)):
        raise ModelError(
            f"{path}: {len(arms)} arms on one base, which end in {', '.join(arms[:4])}; expected one: leave the others "
            "out of a copy of the file"
        )
    if len(branches) == 1 and not floating and max((len(limb.joints) for limb in tree.limbs), default=0) >= 3:
        return Kind.HAND if is_hand else Kind.ARM
    if (wheel := forms.wheel(tree)) is not None:
        raise ModelError(
            f"{path}: stands on {wheel!r}, which turns on one joint without limits: robots on wheels have no tasks here"
        )
    if len(branches) >= 2 and len(long) >= 2:
        fingers = max(len(limb.joints) for limb in long) <= forms.FINGER and not forms.has_four_corners(tree)
        return Kind.HAND if small and not floating and fingers else Kind.LEGGED
    if is_hand:
        return Kind.HAND
    limbs = ", ".join(f"{model.body(limb.end).name} ({len(limb.joints)})" for limb in tree.limbs[:6]) or "none"
    raise ModelError(
        f"{path}: cannot tell what this robot is, of {len(tree.joints)} joints and limbs that end in {limbs}; say kind "
        f"in {NAME}: {', '.join(Kind)}"
    )


def _refuse_planar(path: Path, tree: Tree) -> None:
    """Refuse a base on slides and hinges that no actuator drives: it moves in a plane."""
    model = tree.model
    first = int(model.body_jntadr[tree.root])
    own = range(first, first + int(model.body_jntnum[tree.root]))
    if own and not set(own) & set(tree.joints):
        raise ModelError(
            f"{path}: its base hangs on {', '.join(model.joint(joint).name for joint in own)}, which nothing drives; a "
            f"base that floats has a <freejoint/>, and one that does not has no joint (or say base in {NAME})"
        )
