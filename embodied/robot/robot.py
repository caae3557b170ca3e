"""A robot as it was understood from its model file and its description."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from embodied.errors import ModelError, UnknownNameError
from embodied.robot.derivation import forms
from embodied.robot.derivation.checks import checked
from embodied.robot.derivation.pose import neutral_pose, place, reaching_pose, standing_pose
from embodied.robot.derivation.servos import ARMS, LEGS, Rule, Servo, effort_of, servo_for
from embodied.robot.derivation.standing import standing_torques
from embodied.robot.derivation.tree import Limb, Tree, lowest_point, sole
from embodied.robot.description import NAME, Description
from embodied.robot.files import COLLISIONS, PRIMITIVES, ModelFile, compiled, driven_joints, read_model
from embodied.robot.rotors import Airframe, Rotor, find_airframe, has_rotors, without_rotors

HAND_MASS = 3.0  # kg, and
HAND_SIZE = 0.6  # m: what has several limbs and is larger stands on them
FINGER = 7  # joints of a hand's longest limb: a wrist's and a thumb's
FOOT_LEVEL = 0.06  # of the standing height: limbs that end no higher than this above the lowest one are legs
GRIPPER = 0.06  # m: sideways moving fingers travel no further
FINGERS = ("finger", "gripper", "jaw", "claw")  # in the name of a last joint that ends an arm
HOME_KEYS = ("home", "stand", "standing", "default", "rest")


class Kind(StrEnum):
    """What a robot is."""

    LEGGED = "legged"
    ARM = "arm"
    HAND = "hand"
    MULTIROTOR = "multirotor"


@dataclasses.dataclass(frozen=True)
class Joint:
    """One actuated joint."""

    name: str
    slides: bool
    low: float
    """rad or m; -inf without a limit."""
    high: float
    drive: str
    """What the model file has: position, velocity, torque (or force), or none."""
    servo: Servo
    """The position servo that drives it in our tasks."""
    home: float
    """rad or m, in the home pose."""


@dataclasses.dataclass(frozen=True)
class Robot:
    """What was understood of a model file."""

    file: Path
    kind: Kind
    free: bool
    """Whether the base floats."""
    trunk: str
    """Body that carries the limbs."""
    collision: str
    """What collides where a URDF has meshes that do: primitives or meshes."""
    joints: tuple[Joint, ...]
    """In the order of actions."""
    feet: tuple[str, ...]
    """Names of the bodies that stand on the ground."""
    tip: str | None
    """Body that an arm reaches with."""
    height: float
    """m of the trunk's frame above the ground in the home pose, of legged robots."""
    mass: float
    """kg."""
    mended: tuple[str, ...]
    """What the reader changed, one line each."""
    warnings: tuple[str, ...]
    """What looks wrong, one line each."""
    foot_points: tuple[np.ndarray, ...] = dataclasses.field(repr=False, compare=False)
    """(3,) m each, world frame: the middle of each foot's lowest shapes in the home pose."""
    tip_point: np.ndarray | None = dataclasses.field(repr=False, compare=False)
    """(3,) m, world frame, in the home pose."""
    model: mujoco.MjModel = dataclasses.field(repr=False, compare=False)
    """Compiled; with a free joint where the base floats."""
    home: np.ndarray = dataclasses.field(repr=False, compare=False)
    """(nq,) the home pose."""
    home_targets: np.ndarray | None = dataclasses.field(repr=False, compare=False)
    """(n,) rad or m, with which the servos hold the home pose: of the file's key, else of legged robots by statics; or
    None."""
    airframe: Airframe | None = None
    """Of multirotors: one rigid body with its rotors, joints locked in the home pose."""

    @property
    def rotors(self) -> tuple[Rotor, ...]:
        """In the order of actions; none but on multirotors."""
        return () if self.airframe is None else self.airframe.rotors

    @classmethod
    def load(cls, path: Path | str, description: Description | None = None) -> Robot:
        """Read a model file, and the `robot.toml` beside it unless a description is given.

        Raises:
            ModelError: the file cannot be read, or something cannot be derived; one line that names the file, the
                element, and the key of `robot.toml` that settles it.
        """
        path = Path(path)
        said = description or Description.beside(path)
        collision = said.collision or PRIMITIVES
        if collision not in COLLISIONS:
            raise UnknownNameError(f"collision in {NAME}", collision, COLLISIONS)
        return _understood(path, read_model(path, collision), said)

    def description(self) -> Description:
        """All that was derived, as one would say it."""
        return Description(
            file=self.file.name,
            kind=self.kind.value,
            base="free" if self.free else "fixed",
            trunk=self.trunk,
            collision=self.collision,
            joints=tuple(joint.name for joint in self.joints),
            feet=self.feet,
            tip=self.tip,
            home={joint.name: joint.home for joint in self.joints},
            kp={joint.name: joint.servo.kp for joint in self.joints},
            kv={joint.name: joint.servo.kv for joint in self.joints},
            effort={joint.name: joint.servo.effort for joint in self.joints},
            **self._rotors_said(),
        )

    def _rotors_said(self) -> dict[str, Any]:
        """Keys of rotors, as one would say them."""
        airframe = self.airframe
        if airframe is None:
            return {}
        rotors = airframe.rotors
        torques = {rotor.torque_per_thrust for rotor in rotors}
        return {
            "rotors": airframe.places,
            "rotor_axes": tuple(rotor.axis for rotor in rotors) if airframe.is_tilted else (),
            "spin": tuple(rotor.spin for rotor in rotors),
            "thrust": tuple(rotor.max_thrust for rotor in rotors),
            "torque_per_thrust": torques.pop() if len(torques) == 1 else None,
            "rotor_lag": rotors[0].lag,
            "drag": airframe.drag,
        }


def _understood(path: Path, file: ModelFile, said: Description) -> Robot:
    model = compiled(path, file.spec)
    tree = Tree.of(model, _root(path, model, said), _followers(model, file))
    _refuse_ball_joints(path, tree)
    kind, free = _kind(path, tree, file, said)
    if free and not _floats(model, tree.root):
        file.spec.body(model.body(tree.root).name).add_freejoint(name="root")
    elif not free and _floats(model, tree.root):
        file.spec.delete(file.spec.joint(model.joint(int(model.body_jntadr[tree.root])).name))
    if free != _floats(model, tree.root):
        model = compiled(path, file.spec)
        tree = Tree.of(model, _root(path, model, said), _followers(model, file))
    whole = tree
    tree = _in_order(path, without_rotors(tree) if kind is Kind.MULTIROTOR else tree, said)
    legs = _legs(path, tree, said) if kind is Kind.LEGGED else ()
    if legs and said.home == {} and _home_key(model) is None and (axis := forms.leaning(tree, legs)) is not None:
        raise ModelError(
            f"{path}: its legs point along {axis} and not down: z is to be up; turn the model by a fixed joint above "
            f"its base, or say home in {NAME}"
        )
    tip = _tip(path, tree, said, _leaders(model, file)) if kind is Kind.ARM else None
    angles = _home(path, tree, legs, tip, said)
    data = mujoco.MjData(model)
    place(model, data, tree.joints, angles)
    lowest = min((lowest_point(data, model, leg.bodies)[0] for leg in legs), default=0.0)
    if legs and free:
        data.qpos[model.jnt_qposadr[model.body_jntadr[tree.root]] + 2] -= lowest
    mujoco.mj_forward(model, data)
    rule = ARMS if kind is Kind.ARM else LEGS
    joints = _joints(path, tree, data, angles, said, rule, _least_stiffness(tree, data, legs))
    torques = standing_torques(tree, data, legs) if legs and free else None
    airframe, notes = find_airframe(path, whole, data, said) if kind is Kind.MULTIROTOR else (None, [])
    if airframe is not None and joints:
        notes.append(
            f"{', '.join(joint.name for joint in joints[:6])}: locked in the home pose in tasks of multirotors"
        )
    return Robot(
        file=path,
        kind=kind,
        free=free,
        trunk=model.body(tree.root).name,
        collision=said.collision or PRIMITIVES,
        joints=joints,
        feet=tuple(_foot(data, leg)[0] for leg in legs),
        tip=tip,
        height=float(data.xpos[tree.root, 2]) if legs else 0.0,
        mass=tree.mass() if airframe is None else airframe.mass,
        mended=file.mended,
        warnings=(*checked(tree, data, joints, legs, torques), *notes),
        foot_points=tuple(_foot(data, leg)[1] for leg in legs),
        tip_point=None if tip is None else _point_of(data, tip),
        model=model,
        home=data.qpos.copy(),
        home_targets=_home_targets(model, joints, torques),
        airframe=airframe,
    )


def _followers(model: mujoco.MjModel, file: ModelFile) -> set[str]:
    """Joints that are not moved by themselves: URDF's mimics; MJCF's equalities of two joints, and joints that no
    actuator drives where others are driven."""
    copies = {
        model.joint(int(model.eq_obj1id[index])).name
        for index in range(model.neq)
        if int(model.eq_type[index]) == int(mujoco.mjtEq.mjEQ_JOINT) and int(model.eq_obj2id[index]) >= 0
    }
    driven = driven_joints(model)
    passive = {model.joint(joint).name for joint in range(model.njnt)} - driven if driven else set()
    return copies | passive | set(file.mimics)


def _leaders(model: mujoco.MjModel, file: ModelFile) -> set[str]:
    """Joints that others copy."""
    copied = {
        model.joint(int(model.eq_obj2id[index])).name
        for index in range(model.neq)
        if int(model.eq_type[index]) == int(mujoco.mjtEq.mjEQ_JOINT) and int(model.eq_obj2id[index]) >= 0
    }
    return copied | {leader for leader, _, _ in file.mimics.values()}


def _root(path: Path, model: mujoco.MjModel, said: Description) -> int:
    """The base: the body that was named, else the only one in the world that carries joints or floats."""
    if said.trunk is not None:
        names = [model.body(body).name for body in range(1, model.nbody)]
        if said.trunk not in names:
            raise UnknownNameError(f"body in {path} (key trunk)", said.trunk, names)
        return int(model.body(said.trunk).id)
    tops = [body for body in range(1, model.nbody) if int(model.body_parentid[body]) == 0]
    moving = [top for top in tops if any(_carries(model, top, joint) for joint in range(model.njnt))]
    if len(moving) == 1:
        return moving[0]
    if not moving and len(tops) == 1:
        return tops[0]
    if not moving:
        raise ModelError(f"{path}: 0 bodies in the world move (none): a scene, or a part that another file includes")
    names = ", ".join(model.body(body).name or f"#{body}" for body in moving)
    raise ModelError(f"{path}: {len(moving)} bodies in the world move ({names}); say which by trunk in {NAME}")


def _carries(model: mujoco.MjModel, top: int, joint: int) -> bool:
    body = int(model.jnt_bodyid[joint])
    while int(model.body_parentid[body]) != 0:
        body = int(model.body_parentid[body])
    return body == top


def _refuse_ball_joints(path: Path, tree: Tree) -> None:
    model = tree.model
    for joint in range(model.njnt):
        if int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_BALL):
            raise ModelError(
                f"{path}: joint {model.joint(joint).name!r} is a ball, which no motor turns; make it three hinges"
            )


def _floats(model: mujoco.MjModel, root: int) -> bool:
    first = int(model.body_jntadr[root])
    return first >= 0 and int(model.jnt_type[first]) == int(mujoco.mjtJoint.mjJNT_FREE)


def _kind(path: Path, tree: Tree, file: ModelFile, said: Description) -> tuple[Kind, bool]:
    """What the robot is, and whether its base floats."""
    floats = _floats(tree.model, tree.root)
    if said.base is None and not floats and not file.is_urdf:
        _refuse_planar(path, tree)
    if said.kind is not None and said.kind not in [*Kind]:
        raise UnknownNameError(f"kind of robot in {NAME}", said.kind, Kind)
    if said.kind is not None:
        kind = Kind(said.kind)
    else:
        kind = Kind.MULTIROTOR if has_rotors(tree, said, floats) else _guessed(path, tree, floats)
    if said.base is not None and said.base not in ("free", "fixed"):
        raise UnknownNameError(f"base in {NAME}", said.base, ("free", "fixed"))
    held = not file.is_urdf and int(tree.model.body_jntnum[tree.root]) > 0  # by joints of its own
    free = floats or (not held and kind in (Kind.LEGGED, Kind.MULTIROTOR))
    return kind, said.base == "free" if said.base is not None else free


def _guessed(path: Path, tree: Tree, floats: bool) -> Kind:
    branches, model = tree.first_joints(), tree.model
    if not tree.joints:
        raise ModelError(
            f"{path}: no joint that a motor could turn and no rotors: an object, not a robot; if it flies, say rotors "
            f"in {NAME}"
        )
    long = [limb for limb in tree.limbs if len(limb.joints) >= 2]
    small = tree.mass() < HAND_MASS and float(model.stat.extent) < HAND_SIZE
    if len(arms := forms.arms(tree)) > 1 and not small and (len(branches) == 1 or forms.stands_on_its_base(tree)):
        raise ModelError(
            f"{path}: {len(arms)} arms on one base, which end in {', '.join(arms[:4])}; expected one: leave the others "
            "out of a copy of the file"
        )
    if len(branches) == 1 and not floats and max((len(limb.joints) for limb in tree.limbs), default=0) >= 3:
        return Kind.ARM
    if (wheel := forms.wheel(tree)) is not None:
        raise ModelError(
            f"{path}: stands on {wheel!r}, which turns on one joint without limits: robots on wheels have no tasks here"
        )
    if len(branches) >= 2 and len(long) >= 2:
        fingers = max(len(limb.joints) for limb in long) <= FINGER and not forms.has_four_corners(tree)
        return Kind.HAND if small and not floats and fingers else Kind.LEGGED
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


def _in_order(path: Path, tree: Tree, said: Description) -> Tree:
    """The tree with its actuated joints as they were named."""
    if not said.joints:
        return tree
    names = {tree.model.joint(joint).name: joint for joint in tree.joints}
    for name in said.joints:
        if name not in names:
            raise UnknownNameError(f"joint in {path} (key joints)", name, names)
    return dataclasses.replace(tree, joints=tuple(names[name] for name in said.joints))


def _legs(path: Path, tree: Tree, said: Description) -> tuple[Limb, ...]:
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
    ends = [(lowest_point(data, model, limb.bodies)[0], limb) for limb in tree.limbs if len(limb.joints) >= 2]
    finite = [z for z, _ in ends if np.isfinite(z)]
    if not finite:
        raise ModelError(f"{path}: no limb ends in a shape that collides; give the feet's links a <collision>")
    ground, base = min(finite), float(data.xpos[tree.root, 2])
    level = ground + max(FOOT_LEVEL * abs(base - ground), 0.02)
    legs = tuple(limb for z, limb in ends if z <= level)
    if len(legs) < 2:
        ends_in = ", ".join(f"{model.body(limb.end).name} at {z - base:.2f} m" for z, limb in ends[:6])
        raise ModelError(f"{path}: limbs end at different heights below the base ({ends_in}); name feet in {NAME}")
    return legs


def _has(model: mujoco.MjModel, limb: Limb, name: str) -> bool:
    return any(model.body(body).name == name for body in limb.bodies)


def _home(path: Path, tree: Tree, legs: tuple[Limb, ...], tip: str | None, said: Description) -> np.ndarray:
    """(n,) the joints' angles in the home pose: a keyframe, else found; single ones as they were said."""
    model = tree.model
    named = _home_key(model)
    if named is not None:
        angles = model.key_qpos[named][model.jnt_qposadr[list(tree.joints)]].copy()
    else:
        angles = _posed(tree, legs, tip)
    names = [model.joint(joint).name for joint in tree.joints]
    for name, angle in _by_joint(path, "home", said.home, names).items():
        angles[names.index(name)] = angle
    return angles


def _posed(tree: Tree, legs: tuple[Limb, ...], tip: str | None) -> np.ndarray:
    """(n,) rad or m, a pose of robots whose file has none."""
    if legs:
        return standing_pose(tree, legs)
    return neutral_pose(tree.model, tree.joints) if tip is None else reaching_pose(tree, tip)


def _home_key(model: mujoco.MjModel) -> int | None:
    """The keyframe of the home pose: by its name, else the first."""
    keys = {model.key(index).name: index for index in range(model.nkey)}
    return next((keys[name] for name in HOME_KEYS if name in keys), next(iter(keys.values()), None))


def _home_targets(model: mujoco.MjModel, joints: tuple[Joint, ...], torques: np.ndarray | None) -> np.ndarray | None:
    """Targets of the file's key; without them, those from which the servos give the torques (N m, N) of statics."""
    key = _home_key(model)
    if key is not None and all(joint.drive == "position" for joint in joints) and model.key_ctrl[key].any():
        of_joint = {int(model.actuator_trnid[actuator, 0]): actuator for actuator in range(model.nu)}
        places = [of_joint.get(int(model.joint(joint.name).id)) for joint in joints]
        if None not in places:
            return model.key_ctrl[key][places].copy()
    if torques is None:
        return None
    held = [np.clip(torque, -j.servo.effort, j.servo.effort) for j, torque in zip(joints, torques, strict=True)]
    return np.array([joint.home + torque / joint.servo.kp for joint, torque in zip(joints, held, strict=True)])


def _by_joint(path: Path, key: str, said: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Joint -> number, of a table whose keys are joints or patterns such as `*_knee`; later ones win.

    Raises:
        UnknownNameError: a pattern fits no joint.
    """
    found: dict[str, float] = {}
    for pattern, number in said.items():
        fitting = fnmatch.filter(names, pattern)
        if not fitting:
            raise UnknownNameError(f"joint in {path} (key {key})", pattern, names)
        found |= dict.fromkeys(fitting, number)
    return found


def _least_stiffness(tree: Tree, data: mujoco.MjData, legs: tuple[Limb, ...]) -> dict[int, float]:
    """Joint -> N m/rad that it has at least: of the legs of a robot on two feet, weight times height."""
    if len(legs) != 2:
        return {}
    weight = tree.mass() * float(np.linalg.norm(tree.model.opt.gravity))
    height = float(data.subtree_com[tree.root, 2]) - min(lowest_point(data, tree.model, leg.bodies)[0] for leg in legs)
    slides = int(mujoco.mjtJoint.mjJNT_SLIDE)
    hinges = [joint for leg in legs for joint in leg.joints if int(tree.model.jnt_type[joint]) != slides]
    return dict.fromkeys(hinges, weight * max(height, 0.0) if np.isfinite(height) else 0.0)


def _joints(
    path: Path,
    tree: Tree,
    data: mujoco.MjData,
    angles: np.ndarray,
    said: Description,
    rule: Rule,
    least: Mapping[int, float],
) -> tuple[Joint, ...]:
    model = tree.model
    names = [model.joint(joint).name for joint in tree.joints]
    kps, kvs, efforts = (_by_joint(path, key, getattr(said, key), names) for key in ("kp", "kv", "effort"))
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    joints = []
    for joint, name, angle in zip(tree.joints, names, angles, strict=True):
        dof = int(model.jnt_dofadr[joint])
        slides = int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
        drive, kp, kv, effort = _driven(model, joint)
        effort = efforts.get(name, effort)
        if not effort:
            raise ModelError(
                f"{path}: joint {name!r} has no largest torque (URDF <limit effort=...>, MJCF forcerange); say "
                f'effort = {{ "{name}" = N m }} in {NAME}; a name may be a pattern, such as "*"'
            )
        armature = float(model.dof_armature[dof])
        inertia_there = max(float(inertia[dof, dof]) - armature, 0.0)
        derived = servo_for(effort, inertia_there, armature, slides, rule, least.get(joint, 0.0))
        servo = Servo(kps.get(name, kp or derived.kp), kvs.get(name, kv or derived.kv), effort, derived.armature)
        low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-np.inf, np.inf)
        joints.append(Joint(name, slides, float(low), float(high), drive, servo, float(angle)))
    return tuple(joints)


def _driven(model: mujoco.MjModel, joint: int) -> tuple[str, float, float, float]:
    """Drive, stiffness, damping and largest torque that the file gives a joint; zeros where it says nothing."""
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
    """By how much an actuator's force turns or pushes a joint: 1 on the joint itself, a fixed tendon's coefficient."""
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


def _tip(path: Path, tree: Tree, said: Description, leaders: set[str]) -> str:
    """The body that an arm reaches with: what was said, else the last one before the fingers part."""
    model = tree.model
    if said.tip is not None:
        names = [model.body(body).name for body in range(1, model.nbody)]
        names += [model.site(site).name for site in range(model.nsite)]
        if said.tip not in names:
            raise UnknownNameError(f"body or site in {path} (key tip)", said.tip, names)
        return said.tip
    arm = sorted(joint for joint in tree.joints if all(joint in limb.joints for limb in tree.limbs))
    while len(arm) > 1 and (_is_finger(model, arm[-1]) or model.joint(arm[-1]).name in leaders):
        arm.pop()
    if not arm:
        raise ModelError(f"{path}: the arm's limbs have no joint in common; say tip in {NAME}")
    beyond = [joint for joint in tree.joints if joint not in arm]
    if beyond:  # what carries the fingers
        return model.body(int(model.body_parentid[model.jnt_bodyid[beyond[0]]])).name
    return model.body(tree.limbs[0].bodies[-1]).name


def _foot(data: mujoco.MjData, leg: Limb) -> tuple[str, np.ndarray]:
    """Body, and the middle (3,) m of its lowest shapes in the world frame, of what a leg stands on."""
    body, point = sole(data, data.model, leg)
    return data.model.body(body).name, point


def _point_of(data: mujoco.MjData, name: str) -> np.ndarray:
    """(3,) m, world frame, of a site or body."""
    sites = {data.model.site(site).name for site in range(data.model.nsite)}
    return (data.site(name).xpos if name in sites else data.body(name).xpos).copy()


def _is_finger(model: mujoco.MjModel, joint: int) -> bool:
    """Whether a joint is called a gripper's, or slides no further than the finger of one does."""
    if any(word in model.joint(joint).name.lower() for word in FINGERS):
        return True
    slides = int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
    return slides and bool(model.jnt_limited[joint]) and float(np.ptp(model.jnt_range[joint])) <= GRIPPER
