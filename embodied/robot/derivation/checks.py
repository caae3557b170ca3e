"""Warnings about an interpreted robot: limits, home pose, strength; one line each."""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.errors import listing
from embodied.robot.derivation import forms
from embodied.robot.derivation.joints import Joint
from embodied.robot.derivation.pose import limits
from embodied.robot.derivation.servos import LEGS, effort_of
from embodied.robot.tree import MOVES, NEIGHBOURS, Limb, Tree, joints_between

NAMED = 6  # joints in a line
DEEP = 0.005  # m that shapes may be inside each other
POSES = 64  # of an arm, drawn inside its limits, in which its joints are to hold it


def checked(
    tree: Tree, data: mujoco.MjData, joints: tuple[Joint, ...], legs: tuple[Limb, ...], torques: np.ndarray | None
) -> list[str]:
    """Warnings.

    Args:
        data: In its home pose.
        torques: (n,) N m or N that hold it where it stands; None: its base is fixed.
    """
    notes = []
    if unlimited := [joint.name for joint in joints if not np.isfinite(joint.low)]:
        notes.append(f"no limits: {listing(unlimited, NAMED)}")
    if outside := _outside(data):
        notes.append(f"the home pose is beyond the limits of {listing(outside, NAMED)}")
    if ruled := [j.name for j in joints if j.drive == "position" and j.servo.effort == effort_of(j.servo.kp, j.slides)]:
        notes.append(f"no largest torque, taken to be what the servo gives at {LEGS.full} rad: {listing(ruled, NAMED)}")
    notes += _overlaps(tree, data)
    if legs and (wheels := forms.wheels(tree, legs)):
        notes.append(f"legs end in wheels, which servos hold still: {listing(wheels, NAMED)}")
    if torques is None:
        return notes + _too_weak_to_hold(tree, joints)
    return notes + _too_weak(joints, dict(zip((j.name for j in joints), abs(torques).tolist(), strict=True)), "stand")


def _outside(data: mujoco.MjData) -> list[str]:
    """Joints beyond their limits, those that copy another among them."""
    model = data.model
    limited = [joint for joint in range(model.njnt) if model.jnt_limited[joint] and int(model.jnt_type[joint]) in MOVES]
    angles, ranges = data.qpos[model.jnt_qposadr[limited]], model.jnt_range[limited]
    beyond = (angles < ranges[:, 0] - 1e-6) | (angles > ranges[:, 1] + 1e-6)
    return [model.joint(joint).name for joint, is_beyond in zip(limited, beyond, strict=True) if is_beyond]


def _overlaps(tree: Tree, data: mujoco.MjData) -> list[str]:
    """The two bodies that are deepest inside each other, neighbours left out."""
    model, worst, pair = tree.model, -DEEP, (0, 0)
    for contact in data.contact:
        first, second = (int(model.geom_bodyid[geom]) for geom in contact.geom)
        if float(contact.dist) < worst and first and second and joints_between(model, first, second) > NEIGHBOURS:
            worst, pair = float(contact.dist), (first, second)
    if pair == (0, 0):
        return []
    names = " and ".join(model.body(body).name for body in pair)
    return [f"in the home pose {names} are {-1000 * worst:.0f} mm inside each other"]


def _too_weak_to_hold(tree: Tree, joints: tuple[Joint, ...]) -> list[str]:
    """Joints that cannot hold what they carry in some pose inside the limits."""
    model, data = tree.model, mujoco.MjData(tree.model)
    numbers = tuple(int(model.joint(joint.name).id) for joint in joints)
    if not numbers:
        return []
    low, high = limits(model, numbers)
    places, dofs = model.jnt_qposadr[list(numbers)], model.jnt_dofadr[list(numbers)]
    most, torques = np.zeros(len(numbers)), np.zeros(model.nv)
    draw = np.random.default_rng(0)
    for _ in range(POSES):
        data.qpos[places] = draw.uniform(low, high)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_rne(model, data, 0, torques)
        most = np.maximum(most, np.abs(torques[dofs]))
    taken = dict(zip((joint.name for joint in joints), most.tolist(), strict=True))
    return _too_weak(joints, taken, "hold what they carry in every pose")


def _too_weak(joints: tuple[Joint, ...], taken: dict[str, float], what: str) -> list[str]:
    """A line about the joints of which more torque (N m) or force (N) is taken than they give."""
    weak = [
        f"{joint.name} ({joint.servo.effort:.3g}, takes {taken[joint.name]:.3g})"
        for joint in joints
        if taken.get(joint.name, 0.0) > joint.servo.effort
    ]
    return [f"too weak to {what} (N m, N): {listing(weak, NAMED)}"] if weak else []
