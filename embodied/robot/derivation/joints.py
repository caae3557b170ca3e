"""Actuated joints: which copy others, drives of the model file, and the servos of our tasks."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import ModelError, UnknownNameError, listing
from embodied.robot.derivation.servos import Rule, Servo, effort_of, servo_for
from embodied.robot.description import NAME, Description
from embodied.robot.files import content, driven_joints
from embodied.robot.files.xml import parse
from embodied.robot.tree import Limb, Tree, lowest_point


@dataclasses.dataclass(frozen=True)
class Joint:
    """One actuated joint."""

    name: str
    slides: bool
    low: float
    """rad or m; -inf without a limit."""
    high: float
    drive: str
    """Drive in the model file: position, velocity, torque (or force), or none."""
    servo: Servo
    """The position servo that drives it in our tasks."""
    home: float
    """rad or m, in the home pose."""
    speed: float
    """rad/s or m/s, the fastest that it moves; inf where neither file nor description states it."""
    acceleration: float
    """rad/s^2 or m/s^2, likewise."""


class EffortError(ModelError):
    """Joints without a largest torque."""

    def __init__(self, path: Path, joints: list[str]) -> None:
        self.path, self.joints = path, joints
        super().__init__(
            f"{path}: no largest torque of {listing(joints, 6)} (URDF <limit effort=...>, MJCF forcerange); say "
            f'effort = {{ "{joints[0]}" = N m }} in {NAME}, which python -m embodied.robot FILE --write begins; a name '
            'may be a pattern, such as "*"'
        )

    def __reduce__(self) -> tuple[type[EffortError], tuple[Path, list[str]]]:
        return type(self), (self.path, self.joints)


def followers(model: mujoco.MjModel, copies: Mapping[str, str]) -> set[str]:
    """Joints that are not moved by themselves: those that copy another, and those that no actuator drives where others
    are driven."""
    driven = driven_joints(model)
    passive = {model.joint(joint).name for joint in range(model.njnt)} - driven if driven else set()
    return passive | set(copies)


def copies_of(path: Path, model: mujoco.MjModel) -> dict[str, str]:
    """Joint -> the joint that it copies, by a URDF's mimic or an equality of two joints.

    Raises:
        ModelError: joints copy each other in a circle.
    """
    pairs = [
        (int(model.eq_obj1id[index]), int(model.eq_obj2id[index]))
        for index in range(model.neq)
        if int(model.eq_type[index]) == int(mujoco.mjtEq.mjEQ_JOINT)
    ]
    found = {model.joint(copy).name: model.joint(copied).name for copy, copied in pairs if copied >= 0}
    for first in found:
        chain = [first]
        while (copied := found.get(chain[-1])) is not None:
            if copied in chain:
                raise ModelError(
                    f"{path}: joints copy each other in a circle ({', '.join([*chain, copied])}), and none leads; "
                    "remove the <mimic> or <equality> of the one that a motor moves"
                )
            chain.append(copied)
    return found


def joints_of(
    path: Path,
    tree: Tree,
    data: mujoco.MjData,
    angles: np.ndarray,
    said: Description,
    rule: Rule,
    least: Mapping[int, float],
) -> tuple[Joint, ...]:
    """The joints in the order of actions, each with a servo: as described, as the file drives it, or derived.

    Args:
        path: The model file, for messages.
        tree: What is actuated.
        data: In the home pose.
        angles: (n,) rad or m, the home pose.
        said: Of which the tables of joints count.
        rule: By which servos are derived.
        least: Joint -> N m/rad that it has at least.

    Raises:
        EffortError: joints have no largest torque.
    """
    model = tree.model
    names = [model.joint(joint).name for joint in tree.joints]
    kps, kvs, efforts, speeds, accelerations = (
        by_joint(path, key, getattr(said, key), names) for key in ("kp", "kv", "effort", "speed", "acceleration")
    )
    speeds = _urdf_speeds(path) | speeds
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    joints, lacking = [], []
    for joint, name, angle in zip(tree.joints, names, angles, strict=True):
        dof = int(model.jnt_dofadr[joint])
        slides = int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
        drive, kp, kv, effort = driven(model, joint)
        effort = efforts.get(name, effort)
        if not effort:
            lacking.append(name)
            continue
        armature = float(model.dof_armature[dof])
        inertia_there = max(float(inertia[dof, dof]) - armature, 0.0)
        derived = servo_for(effort, inertia_there, armature, slides, rule, least.get(joint, 0.0))
        servo = Servo(kps.get(name, kp or derived.kp), kvs.get(name, kv or derived.kv), effort, derived.armature)
        low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-np.inf, np.inf)
        most = speeds.get(name, np.inf), accelerations.get(name, np.inf)
        joints.append(Joint(name, slides, float(low), float(high), drive, servo, float(angle), *most))
    if lacking:
        raise EffortError(path, lacking)
    return tuple(joints)


def _urdf_speeds(path: Path) -> dict[str, float]:
    """Joint -> `velocity` of its limit in a URDF file, where it is a positive number."""
    speeds = {}
    for joint in parse(path, content(path)).findall("joint"):
        limit = joint.find("limit")
        try:
            speed = float("" if limit is None else limit.get("velocity", ""))
        except ValueError:
            continue
        if 0 < speed < np.inf:
            speeds[joint.get("name", "")] = speed
    return speeds


def by_joint(path: Path, key: str, said: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Joint -> number, of a table whose keys are joints or patterns such as `*_knee`; later ones win.

    A joint's own name is no pattern, also where it is called `q[1]`.

    Raises:
        UnknownNameError: a pattern fits no joint.
    """
    found: dict[str, float] = {}
    for pattern, number in said.items():
        fitting = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not fitting:
            raise UnknownNameError(f"joint in {path} (key {key})", pattern, names)
        found |= dict.fromkeys(fitting, number)
    return found


def least_stiffness(tree: Tree, data: mujoco.MjData, legs: tuple[Limb, ...]) -> dict[int, float]:
    """Joint -> N m/rad that it has at least: of the legs of a robot on two feet, weight times height."""
    if len(legs) != 2:
        return {}
    weight = tree.mass() * float(np.linalg.norm(tree.model.opt.gravity))
    height = float(data.subtree_com[tree.root, 2]) - min(lowest_point(data, tree.model, leg.bodies)[0] for leg in legs)
    slides = int(mujoco.mjtJoint.mjJNT_SLIDE)
    hinges = [joint for leg in legs for joint in leg.joints if int(tree.model.jnt_type[joint]) != slides]
    return dict.fromkeys(hinges, weight * max(height, 0.0) if np.isfinite(height) else 0.0)


def driven(model: mujoco.MjModel, joint: int) -> tuple[str, float, float, float]:
    """Drive, stiffness, damping and largest torque that the file gives a joint; zeros where it gives none."""
    slides = int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
    effort = float(np.abs(model.jnt_actfrcrange[joint]).max()) if model.jnt_actfrclimited[joint] else 0.0
    for actuator in range(model.nu):
        lever = _lever(model, actuator, joint)
        if not lever:
            continue
        gear, gain, bias = (
            abs(float(model.actuator_gear[actuator, 0]) * lever) or 1.0,
            float(model.actuator_gainprm[actuator, 0]),
            model.actuator_biasprm[actuator],
        )
        if model.actuator_forcelimited[actuator]:
            effort = gear * float(np.abs(model.actuator_forcerange[actuator]).max())
        if int(model.actuator_biastype[actuator]) == int(mujoco.mjtBias.mjBIAS_NONE):
            if model.actuator_ctrllimited[actuator]:
                strongest = gear * abs(gain) * float(np.abs(model.actuator_ctrlrange[actuator]).max())
                effort = min(effort, strongest) if effort else strongest
            return "torque", 0.0, 0.0, effort
        if bias[1] < 0:
            kp = gear**2 * -float(bias[1])
            return "position", kp, gear**2 * -float(bias[2]), effort or effort_of(kp, slides)
        return "velocity", 0.0, 0.0, effort
    return "none", 0.0, 0.0, effort


def _lever(model: mujoco.MjModel, actuator: int, joint: int) -> float:
    """Lever of an actuator on a joint: 1 on the joint itself, a fixed tendon's coefficient."""
    kind, target = int(model.actuator_trntype[actuator]), int(model.actuator_trnid[actuator, 0])
    if kind in (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)):
        return float(target == joint)
    if kind != int(mujoco.mjtTrn.mjTRN_TENDON):
        return 0.0
    first, count = int(model.tendon_adr[target]), int(model.tendon_num[target])
    for wrap in range(first, first + count):
        joint_wrap = int(model.wrap_type[wrap]) == int(mujoco.mjtWrap.mjWRAP_JOINT)
        if joint_wrap and int(model.wrap_objid[wrap]) == joint:
            return float(model.wrap_prm[wrap])
    return 0.0
