"""Forms of robots, found in the kinematic tree in its neutral pose: wheels, several arms, four legs, a pedestal."""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.robot.derivation.pose import neutral_pose, place
from embodied.robot.tree import Limb, Tree, lowest_point

LONG = 4  # joints of an arm beyond what it has in common with another, which no finger has
COMMON = 3  # joints that two arms have in common: a torso's; an arm that carries a hand has more
WRIST = 2  # joints that carry a hand's palm
FINGER = 7  # joints of a hand's longest limb: a wrist's and a thumb's
DEEPER = 0.1  # of a limb's length, by which a base reaches lower than its limbs if it stands on its own
ROUND = 0.2  # of a wheel's radius: how far from its middle its joint may be
LYING = 0.7  # horizontal part of the direction in which all legs together point, if z is not up


def neutral(tree: Tree) -> mujoco.MjData:
    """The robot with its joints at zero, or at the nearest angle inside their limits."""
    data = mujoco.MjData(tree.model)
    place(tree.model, data, tree.joints, neutral_pose(tree.model, tree.joints))
    return data


def wheel(tree: Tree) -> str | None:
    """The body that is lowest, if it is a wheel, which one joint turns, or a castor's, which another swivels."""
    data = neutral(tree)
    lowest = min(tree.limbs, key=lambda limb: lowest_point(data, tree.model, limb.bodies)[0], default=None)
    if lowest is None or len(tree.limbs) < 2 or len(lowest.joints) > 2:
        return None
    return tree.model.body(lowest.end).name if _rolls(tree.model, data, lowest) else None


def wheels(tree: Tree, legs: tuple[Limb, ...]) -> list[str]:
    """Bodies at the ends of legs that are wheels."""
    data = neutral(tree)
    return [tree.model.body(leg.end).name for leg in legs if _rolls(tree.model, data, leg)]


def _rolls(model: mujoco.MjModel, data: mujoco.MjData, limb: Limb) -> bool:
    """Whether a limb's last joint turns without limits, about the middle of its lowest shape."""
    last = limb.joints[-1]
    bottom, geom = lowest_point(data, model, limb.bodies)
    if model.jnt_limited[last] or geom < 0:
        return False
    away = data.geom_xpos[geom] - data.xanchor[last]
    across = away - (away @ data.xaxis[last]) * data.xaxis[last]
    return float(np.linalg.norm(across)) < ROUND * (float(data.geom_xpos[geom, 2]) - bottom)


def arms(tree: Tree) -> list[str]:
    """The last bodies of the arms of a robot that has several on one base or torso; else nothing."""
    common = [joint for joint in tree.joints if all(joint in limb.joints for limb in tree.limbs)]
    beyond = [(limb, limb.joints[len(common) :]) for limb in tree.limbs if len(limb.joints) - len(common) >= LONG]
    first = {joints[0]: limb for limb, joints in beyond}
    if len(common) > COMMON or len(first) < 2:
        return []
    return [tree.model.body(limb.end).name for limb in first.values()]


def has_fingers(tree: Tree) -> bool:
    """Whether three limbs or more, none longer than a finger on its wrist, hang on a palm; not at four corners."""
    common = [joint for joint in tree.joints if all(joint in limb.joints for limb in tree.limbs)]
    first = {joints[0] for limb in tree.limbs if (joints := limb.joints[len(common) :])}
    longest = max((len(limb.joints) for limb in tree.limbs), default=0)
    return len(first) > 2 and len(common) <= WRIST and longest <= FINGER and not has_four_corners(tree)


def stands_on_its_base(tree: Tree) -> bool:
    """Whether what is fixed to the base reaches lower than every limb: a table or a pedestal, which carries arms."""
    model, data = tree.model, neutral(tree)
    carried = [int(model.jnt_bodyid[joint]) for joint in range(model.njnt)]
    fixed = [body for body in range(1, model.nbody) if _fixed_to(model, body, tree.root, carried)]
    bottoms = [lowest_point(data, model, limb.bodies)[0] for limb in tree.limbs]
    bottom = min((z for z in bottoms if np.isfinite(z)), default=-np.inf)
    lengths = [float(np.linalg.norm(data.xpos[limb.end] - data.xanchor[limb.joints[0]])) for limb in tree.limbs]
    return lowest_point(data, model, tuple(fixed))[0] < bottom - DEEPER * max(lengths, default=0.0)


def _fixed_to(model: mujoco.MjModel, body: int, root: int, carried: list[int]) -> bool:
    while body > root and body not in carried:
        body = int(model.body_parentid[body])
    return body == root


def has_four_corners(tree: Tree) -> bool:
    """Whether four limbs of as many joints hang at the corners of a rectangle: no hand, however small."""
    data = neutral(tree)
    if len(tree.limbs) != 4 or len({len(limb.joints) for limb in tree.limbs}) != 1:
        return False
    hips = np.array([data.xanchor[limb.joints[0]][:2] for limb in tree.limbs])
    hips -= hips.mean(0)
    corners = {(bool(x > 0), bool(y > 0)) for x, y in hips}
    size = np.abs(hips).max(0)
    return len(corners) == 4 and bool((np.abs(np.abs(hips) - size) < 0.2 * size.max()).all()) and bool(size.min() > 0)


def leaning(tree: Tree, legs: tuple[Limb, ...]) -> str | None:
    """The axis along which the legs of a robot that lies point: x, -x, y or -y; as many limbs like them are no legs."""
    data = neutral(tree)
    if sum(len(limb.joints) == len(legs[0].joints) for limb in tree.limbs) < 2 * len(legs):
        return None
    away = np.array([data.xpos[leg.end] - data.xanchor[leg.joints[0]] for leg in legs])
    lengths = np.linalg.norm(away, axis=1, keepdims=True)
    x, y, _ = (away / np.maximum(lengths, 1e-6)).mean(0)
    if max(abs(x), abs(y)) < LYING:
        return None
    axis, sign = ("x", x) if abs(x) > abs(y) else ("y", y)
    return axis if sign > 0 else f"-{axis}"
