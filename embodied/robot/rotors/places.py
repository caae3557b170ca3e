"""Places of a model's rotors: thrusters at sites, joints that spin, or sites and bodies named as rotors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import UnknownNameError
from embodied.robot.description import Description, Vector
from embodied.robot.rotors.urdf import Remarks
from embodied.robot.tree import Limb, Tree

FEWEST = 3  # rotors from which a robot is taken for a multirotor
TURNS = 8 * np.pi  # rad of range from which a joint turns round and round: four turns
VERTICAL = 0.5  # cosine: rotors' joints stand so upright; wheels' lie
CALLED = re.compile(r"(rotor|prop(eller)?|thrust(er)?)s?[_\W]*([0-9]+|[fb][lr]|(front|back|rear)?[_\W]*(left|right))\b")
"""Rotors' names, once words are parted: `rotor_1`, `prop0_link`, `thrust1`, `iris__rotor_0`, `propeller_front_left`."""
CLOCKWISE = re.compile(r"(?<![a-z])(ccw|cw|counter_?clockwise|clockwise)(?![a-z])")


@dataclasses.dataclass(frozen=True)
class Place:
    """One rotor, as far as the model file has it."""

    name: str
    """Body or site; empty where it was given by its place."""
    point: np.ndarray
    """(3,) m, world frame."""
    axis: np.ndarray
    """(3,) unit vector along which it pushes, world frame."""
    max_thrust: float | None = None
    """N."""
    torque_per_thrust: float | None = None
    """m."""
    spin: int | None = None
    """1 counter-clockwise, -1 clockwise."""


def spinning_limbs(tree: Tree) -> tuple[Limb, ...]:
    """Limbs of one hinge that stands upright and turns round and round; none if there are fewer than three."""
    model, data = tree.model, mujoco.MjData(tree.model)
    mujoco.mj_kinematics(model, data)
    limbs = tuple(
        limb
        for limb in tree.limbs
        if len(limb.joints) == 1
        and int(model.jnt_type[limb.joints[0]]) == int(mujoco.mjtJoint.mjJNT_HINGE)
        and (not model.jnt_limited[limb.joints[0]] or float(np.ptp(model.jnt_range[limb.joints[0]])) > TURNS)
        and abs(float(data.xaxis[limb.joints[0]] @ data.xmat[tree.root].reshape(3, 3)[:, 2])) > VERTICAL
    )
    return limbs if len(limbs) >= FEWEST else ()


def without_rotors(tree: Tree) -> Tree:
    """The tree without the joints of its rotors, which no servo moves."""
    rotors = {limb.joints[0] for limb in spinning_limbs(tree)}
    joints = tuple(joint for joint in tree.joints if joint not in rotors)
    limbs = tuple(limb for limb in tree.limbs if limb.joints[0] not in rotors)
    return dataclasses.replace(tree, joints=joints, limbs=limbs)


def has_rotors(tree: Tree, said: Description, floats: bool) -> bool:
    """Whether this is a multirotor: as described, or because three rotors or more were found."""
    if said.rotors or spinning_limbs(tree):
        return True
    if floats and len(thrusters(tree)) >= FEWEST:
        return True
    return not tree.joints and len(called(tree)) >= FEWEST


def find_places(path: Path, tree: Tree, data: mujoco.MjData, said: Description, remarks: Remarks) -> list[Place]:
    """The rotors in the pose of `data`, in the order of the file or of the description; `tree` has all joints.

    Raises:
        UnknownNameError: a body or site that was named does not exist.
    """
    found = thrusters(tree)
    if said.rotors:
        return [_said(path, tree, data, place, found, remarks) for place in said.rotors]
    if len(found) >= FEWEST:
        return [_at_site(data, remarks, site, found[site]) for site in found]
    if limbs := spinning_limbs(tree):
        return [_at_joint(data, remarks, limb.joints[0]) for limb in limbs]
    return [
        _at_site(data, remarks, number, None) if is_site else _at_body(data, remarks, number)
        for is_site, number in called(tree)
    ]


def thrusters(tree: Tree) -> dict[int, int]:
    """Site -> actuator that pushes there."""
    model, found = tree.model, {}
    for actuator in range(model.nu):
        site = int(model.actuator_trnid[actuator, 0])
        if int(model.actuator_trntype[actuator]) != int(mujoco.mjtTrn.mjTRN_SITE):
            continue
        pushes = bool(model.actuator_gear[actuator, :3].any()) and int(model.actuator_trnid[actuator, 1]) < 0
        if pushes and tree.carries(int(model.site_bodyid[site])):
            found[site] = actuator
    return found


def called(tree: Tree) -> list[tuple[bool, int]]:
    """Whether a site, and its id or the body's: those whose names are rotors' names; sites go first."""
    model = tree.model
    sites = [site for site in range(model.nsite) if tree.carries(int(model.site_bodyid[site]))]
    sites = [site for site in sites if _is_called(model.site(site).name)]
    if len(sites) >= FEWEST:
        return [(True, site) for site in sites]
    bodies = [body for body in range(1, model.nbody) if tree.carries(body) and body != tree.root]
    bodies = [body for body in bodies if _is_called(model.body(body).name)]
    return [(False, body) for body in bodies] if len(bodies) >= FEWEST else []


def _is_called(name: str) -> bool:
    words = re.sub(r"[_\W]+", " ", name.lower())
    return CALLED.search(words) is not None


def _said(
    path: Path, tree: Tree, data: mujoco.MjData, place: str | Vector, found: dict[int, int], remarks: Remarks
) -> Place:
    """A rotor of the description: by name, or by its place in the trunk's frame."""
    model = tree.model
    turn = data.xmat[tree.root].reshape(3, 3)
    if not isinstance(place, str):
        return Place("", data.xpos[tree.root] + turn @ np.array(place), turn[:, 2].copy())
    sites = {model.site(site).name: site for site in range(model.nsite)}
    if place in sites:
        return _at_site(data, remarks, sites[place], found.get(sites[place]))
    bodies = {model.body(body).name: body for body in range(1, model.nbody)}
    if place not in bodies:
        raise UnknownNameError(f"body or site in {path} (key rotors)", place, [*sites, *bodies])
    joint = int(model.body_jntadr[bodies[place]])
    spins = joint >= 0 and int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_HINGE)
    return _at_joint(data, remarks, joint) if spins else _at_body(data, remarks, bodies[place])


def _at_joint(data: mujoco.MjData, remarks: Remarks, joint: int) -> Place:
    """A rotor on a joint; it pushes along the joint's axis, upwards."""
    model = data.model
    axis = data.xaxis[joint].copy()
    body = int(model.jnt_bodyid[joint])
    name = model.body(body).name
    texts = (name, model.joint(joint).name, remarks.pictures.get(name, ""), *_geoms(model, body))
    return Place(name, data.xanchor[joint].copy(), -axis if axis[2] < 0 else axis, spin=_spin(texts))


def _at_body(data: mujoco.MjData, remarks: Remarks, body: int) -> Place:
    """A rotor that is a body: in its centre of mass, along its z."""
    model, name = data.model, data.model.body(body).name
    turn = data.xmat[body].reshape(3, 3)
    point = data.xipos[body].copy()
    if name in remarks.massless:
        point = data.xpos[body] + turn @ remarks.centres.get(name, np.zeros(3))
    texts = (name, remarks.pictures.get(name, ""), *_geoms(model, body))
    return Place(name, point, turn[:, 2].copy(), spin=_spin(texts))


def _at_site(data: mujoco.MjData, remarks: Remarks, site: int, actuator: int | None) -> Place:
    """A rotor at a site: along its z, or as its actuator pushes."""
    del remarks
    model, name = data.model, data.model.site(site).name
    turn, point = data.site_xmat[site].reshape(3, 3), data.site_xpos[site].copy()
    if actuator is None:
        return Place(name, point, turn[:, 2].copy(), spin=_spin((name,)))
    gear = model.actuator_gear[actuator]
    scale = float(np.linalg.norm(gear[:3]))
    thrust, backwards = _largest(model, actuator)
    axis = turn @ gear[:3] / scale * (-1 if backwards else 1)
    torque = float(gear[3:] @ gear[:3]) / scale**2
    spin = _spin((name, model.actuator(actuator).name)) if torque == 0 else (-1 if torque > 0 else 1)
    return Place(name, point, axis, None if thrust is None else scale * thrust, abs(torque) or None, spin)


def _largest(model: mujoco.MjModel, actuator: int) -> tuple[float | None, bool]:
    """N along the gear that an actuator gives at most, and whether only against it; None without a limit."""
    simple = int(model.actuator_gaintype[actuator]) == int(mujoco.mjtGain.mjGAIN_FIXED)
    low, high = -np.inf, np.inf
    if simple and model.actuator_ctrllimited[actuator]:
        low, high = sorted(float(model.actuator_gainprm[actuator, 0]) * model.actuator_ctrlrange[actuator])
    if model.actuator_forcelimited[actuator]:
        low, high = max(low, model.actuator_forcerange[actuator, 0]), min(high, model.actuator_forcerange[actuator, 1])
    backwards = high <= 0
    most = -low if backwards else high
    return (float(most) if np.isfinite(most) and most > 0 else None), bool(backwards)


def _geoms(model: mujoco.MjModel, body: int) -> list[str]:
    """Names of a body's geoms and of their meshes."""
    geoms = [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) == body]
    meshes = [int(model.geom_dataid[geom]) for geom in geoms if int(model.geom_dataid[geom]) >= 0]
    return [model.geom(geom).name for geom in geoms] + [model.mesh(mesh).name for mesh in meshes]


def _spin(texts: Iterable[str]) -> int | None:
    """Sense of rotation of a rotor, if a name states it."""
    for text in texts:
        if match := CLOCKWISE.search(text.lower()):
            return 1 if match.group().startswith(("ccw", "counter")) else -1
    return None
