"""Ends of limbs: the legs that a robot stands on, and the tip that an arm reaches with."""

from __future__ import annotations

import itertools
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import ModelError, UnknownNameError, listing
from embodied.robot.derivation.pose import neutral_pose, place
from embodied.robot.description import NAME, Description
from embodied.robot.tree import Limb, Tree, ancestors, lowest_point, sole

FOOT_LEVEL = 0.06  # of the standing height: limbs that end no higher than this above the lowest one are legs
FEWEST = 2  # joints of a leg
LOW = 0.5  # of the height of the hips: a base whose frame is lower is no measure of the robot
UNEQUAL = 1.5  # times as far from the last joint as another foot is: another part of the leg
ELSEWHERE = 0.02  # m between two ends of an arm that are not the same
GRIPPER = 0.06  # m: sideways moving fingers travel no further
FINGERS = ("finger", "gripper", "jaw", "claw")  # in the name of a last joint that ends an arm


def legs_of(path: Path, tree: Tree, said: Description) -> tuple[Limb, ...]:
    """The limbs that stand on the ground."""
    model = tree.model
    if said.feet:
        found = [next((limb for limb in tree.limbs if _has(model, limb, foot)), None) for foot in said.feet]
        for foot, limb in zip(said.feet, found, strict=True):
            if limb is None:
                ends = [model.body(body).name for limb in tree.limbs for body in limb.bodies]
                raise UnknownNameError(f"foot in {path} (key feet)", foot, ends)
        return tuple(limb for limb in found if limb is not None)
    data = mujoco.MjData(model)
    place(model, data, tree.joints, neutral_pose(model, tree.joints))
    ends = [(lowest_point(data, model, limb.bodies)[0], limb) for limb in tree.limbs if len(limb.joints) >= FEWEST]
    finite = [z for z, _ in ends if np.isfinite(z)]
    if not finite:
        raise ModelError(f"{path}: no limb ends in a shape that collides; give the feet's links a <collision>")
    ground, base = min(finite), float(data.xpos[tree.root, 2])
    level = ground + max(FOOT_LEVEL * abs(base - ground), 0.02)
    legs = tuple(limb for z, limb in ends if z <= level)
    if len(legs) < 2:
        ends_in = ", ".join(f"{model.body(limb.end).name} at {z - base:.2f} m" for z, limb in ends[:6])
        raise ModelError(f"{path}: limbs end at different heights below the base ({ends_in}); name feet in {NAME}")
    _refuse_one_leg_twice(path, model, legs)
    return legs


def _refuse_one_leg_twice(path: Path, model: mujoco.MjModel, legs: tuple[Limb, ...]) -> None:
    """Refuse limbs that end low and share joints: the fingers of an arm."""
    for first, second in itertools.combinations(legs, 2):
        shared = [model.joint(joint).name for joint in first.joints if joint in second.joints]
        if shared and len(first.joints) < len(shared) + FEWEST:  # legs below a waist share its joints
            ends = " and ".join(model.body(leg.end).name for leg in (first, second))
            raise ModelError(
                f"{path}: {ends} end lowest and share {listing(shared, 3)}: fingers of an arm, or two feet of a leg; "
                f"say kind, or name feet, in {NAME}"
            )


def refuse_unequal_feet(path: Path, data: mujoco.MjData, legs: tuple[Limb, ...], said: Description) -> None:
    """Refuse legs of as many joints of which some stand on another part than others, unless feet are named.

    Raises:
        ModelError: names each foot and how far it is from the last joint.
    """
    feet = [foot_of(data, leg) for leg in legs]
    far = [float(np.linalg.norm(at - data.xanchor[leg.joints[-1]])) for leg, (_, at) in zip(legs, feet, strict=True)]
    for count in {len(leg.joints) for leg in legs}:
        alike = [index for index, leg in enumerate(legs) if len(leg.joints) == count]
        least, most = (pick(far[index] for index in alike) for pick in (min, max))
        if not said.feet and most > UNEQUAL * least + 0.01:
            listed = ", ".join(f"{feet[index][0]} {far[index]:.2f} m" for index in alike)
            raise ModelError(
                f"{path}: its legs stand on different parts, so far from the last joint: {listed}; name feet in "
                f"{NAME}, or say another home"
            )


def _has(model: mujoco.MjModel, limb: Limb, name: str) -> bool:
    return any(model.body(body).name == name for body in limb.bodies)


def foot_of(data: mujoco.MjData, leg: Limb) -> tuple[str, np.ndarray]:
    """Body of a leg's foot, and the middle (3,) m of its lowest shapes in the world frame."""
    body, point = sole(data, data.model, leg)
    return data.model.body(body).name, point


def height_of(data: mujoco.MjData, root: int, legs: tuple[Limb, ...]) -> tuple[float, float]:
    """m of the base's frame above the ground, and from there up to the hips if it lies in the lower half; else 0."""
    if not legs:
        return 0.0, 0.0
    base = float(data.xpos[root, 2])
    hips = float(np.mean([data.xanchor[leg.joints[0]][2] for leg in legs]))
    return base, hips - base if base < LOW * hips else 0.0


def tip_of(path: Path, tree: Tree, said: Description, leaders: set[str]) -> str:
    """The body that an arm reaches with: as described, else the last one before the fingers part."""
    model = tree.model
    if said.tip is not None:
        names = [model.body(body).name for body in range(1, model.nbody)]
        names += [model.site(site).name for site in range(model.nsite)]
        if said.tip not in names:
            raise UnknownNameError(f"body or site in {path} (key tip)", said.tip, names)
        return said.tip
    arm = sorted(joint for joint in tree.joints if all(joint in limb.joints for limb in tree.limbs))
    grips = [_is_finger(model, joint) or model.joint(joint).name in leaders for joint in arm]
    while len(arm) > 1 and grips[len(arm) - 1] and not all(grips):  # what is a finger as a whole ends in its tip
        arm.pop()
    if not arm:
        raise ModelError(f"{path}: the arm's limbs have no joint in common; say tip in {NAME}")
    beyond = [joint for joint in tree.joints if joint not in arm]
    if beyond:  # what carries all fingers
        carriers = [ancestors(model, int(model.body_parentid[model.jnt_bodyid[joint]])) for joint in beyond]
        return model.body(next(body for body in carriers[0] if all(body in above for above in carriers))).name
    return model.body(tree.limbs[0].bodies[-1]).name


def _is_finger(model: mujoco.MjModel, joint: int) -> bool:
    """Whether a joint is named as a gripper's, or slides no further than the finger of one does."""
    if any(word in model.joint(joint).name.lower() for word in FINGERS):
        return True
    slides = int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
    return slides and bool(model.jnt_limited[joint]) and float(np.ptp(model.jnt_range[joint])) <= GRIPPER


def other_tips(data: mujoco.MjData, tree: Tree, tip: str) -> list[str]:
    """Where a tip is one of several last bodies, fixed to each other: those that are elsewhere."""
    model, bodies = tree.model, tree.limbs[0].bodies
    last = [body for body in bodies if body not in model.body_parentid]
    if tip not in [model.body(body).name for body in last]:
        return []
    far = [np.linalg.norm(data.xpos[body] - data.body(tip).xpos) > ELSEWHERE for body in last]
    return [model.body(body).name for body, is_far in zip(last, far, strict=True) if is_far]


def point_of(data: mujoco.MjData, name: str) -> np.ndarray:
    """(3,) m, world frame, of a site or body."""
    sites = {data.model.site(site).name for site in range(data.model.nsite)}
    return (data.site(name).xpos if name in sites else data.body(name).xpos).copy()
