"""A robot as it was understood from its model file and its description."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from embodied.errors import ModelError, UnknownNameError, listing
from embodied.robot.derivation import forms
from embodied.robot.derivation.checks import checked
from embodied.robot.derivation.ends import (
    foot_of,
    height_of,
    legs_of,
    other_tips,
    point_of,
    refuse_unequal_feet,
    tip_of,
)
from embodied.robot.derivation.joints import Joint, by_joint, copies_of, followers, joints_of, least_stiffness
from embodied.robot.derivation.kind import ARTICLES, Kind, floats, kind_of, refuse_joints, root_of
from embodied.robot.derivation.pose import neutral_pose, place, reaching_pose, standing_pose
from embodied.robot.derivation.servos import ARMS, LEGS
from embodied.robot.derivation.standing import standing_torques
from embodied.robot.description import NAME, Description
from embodied.robot.files import COLLISIONS, PRIMITIVES, ModelFile, compiled, read_model
from embodied.robot.named import robot_file
from embodied.robot.rotors import Airframe, Rotor, find_airframe, without_rotors
from embodied.robot.tree import Limb, Tree, lowest_point

HOME_KEYS = ("home", "stand", "standing", "default", "rest")


@dataclasses.dataclass(frozen=True)
class Robot:
    """Interpretation of a model file."""

    file: Path
    kind: Kind
    free: bool
    """Whether the base floats."""
    trunk: str
    """Body that carries the limbs."""
    collision: str
    """Collision geometry where a URDF has meshes that collide: primitives or meshes."""
    joints: tuple[Joint, ...]
    """In the order of actions."""
    feet: tuple[str, ...]
    """Names of the bodies that stand on the ground."""
    tip: str | None
    """Body that an arm reaches with."""
    height: float
    """m above the ground in the home pose of the frame by which tasks measure legged robots: the trunk's, or the hips'
    where that is `lift` below them."""
    lift: float
    """m from the trunk's frame up to the hips, if it lies near the soles; else 0."""
    mass: float
    """kg."""
    fixes: tuple[str, ...]
    """Changes by the reader, one line each."""
    warnings: tuple[str, ...]
    """Warnings, one line each."""
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

    @property
    def home_angles(self) -> dict[str, float]:
        """Joint -> rad or m, in the home pose."""
        return {joint.name: joint.home for joint in self.joints}

    @classmethod
    def load(cls, path: Path | str, description: Description | None = None) -> Robot:
        """Read a model file, given by its path or by a name such as `go1`, and the `robot.toml` beside it.

        A given description takes the place of the one beside the file.

        Raises:
            UnknownNameError: no robot has this name.
            ModelError: the file cannot be read, or something cannot be derived; one line that names the file, the
                element, and the key of `robot.toml` that settles it.
        """
        path = robot_file(path)
        said = description or Description.beside(path)
        collision = said.collision or PRIMITIVES
        if collision not in COLLISIONS:
            raise UnknownNameError(f"collision in {NAME}", collision, COLLISIONS)
        return _understood(path, read_model(path, collision), said)

    def description(self) -> Description:
        """All that was derived, as a description."""
        return Description(
            file=self.file.name,
            kind=self.kind.value,
            base="free" if self.free else "fixed",
            trunk=self.trunk,
            collision=self.collision,
            joints=tuple(joint.name for joint in self.joints),
            feet=self.feet,
            tip=self.tip,
            home=self.home_angles,
            kp={joint.name: joint.servo.kp for joint in self.joints},
            kv={joint.name: joint.servo.kv for joint in self.joints},
            effort={joint.name: joint.servo.effort for joint in self.joints},
            speed={joint.name: joint.speed for joint in self.joints if np.isfinite(joint.speed)},
            acceleration={joint.name: joint.acceleration for joint in self.joints if np.isfinite(joint.acceleration)},
            **self._rotors_said(),
        )

    def _rotors_said(self) -> dict[str, Any]:
        """Keys of rotors, as in a description."""
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


def require_kind(robot: Robot, kind: Kind) -> None:
    """Refuse a robot of another kind."""
    if robot.kind is not kind:
        raise ModelError(
            f"{robot.file} is understood as {ARTICLES[robot.kind]}; expected {ARTICLES[kind]} (key kind in {NAME})"
        )


def _understood(path: Path, file: ModelFile, said: Description) -> Robot:
    model = compiled(path, file.spec)
    copies = copies_of(path, model)
    tree = Tree.of(model, root_of(path, model, said), followers(model, copies))
    refuse_joints(path, tree)
    kind, free = kind_of(path, tree, file, said)
    if free and not floats(model, tree.root):
        file.spec.body(model.body(tree.root).name).add_freejoint(name="root")
    elif not free and floats(model, tree.root):
        file.spec.delete(file.spec.joint(model.joint(int(model.body_jntadr[tree.root])).name))
    if free != floats(model, tree.root):
        model = compiled(path, file.spec)
        tree = Tree.of(model, root_of(path, model, said), followers(model, copies))
    whole = tree
    tree = _in_order(path, without_rotors(tree) if kind is Kind.MULTIROTOR else tree, said)
    legs = legs_of(path, tree, said) if kind is Kind.LEGGED else ()
    if legs and said.home == {} and _home_key(model) is None and (axis := forms.leaning(tree, legs)) is not None:
        raise ModelError(
            f"{path}: its legs point along {axis} and not down: z is to be up; turn the model by a fixed joint above "
            f"its base, or say home in {NAME}"
        )
    tip = tip_of(path, tree, said, set(copies.values())) if kind is Kind.ARM else None
    angles = _home(path, tree, legs, tip, said)
    data = mujoco.MjData(model)
    place(model, data, tree.joints, angles)
    lowest = min((lowest_point(data, model, leg.bodies)[0] for leg in legs), default=0.0)
    if legs and free:
        data.qpos[model.jnt_qposadr[model.body_jntadr[tree.root]] + 2] -= lowest
    mujoco.mj_forward(model, data)
    refuse_unequal_feet(path, data, legs, said)
    height, lift = height_of(data, tree.root, legs)
    rule = ARMS if kind is Kind.ARM else LEGS
    joints = joints_of(path, tree, data, angles, said, rule, least_stiffness(tree, data, legs))
    torques = standing_torques(tree, data, legs) if legs and free else None
    airframe, notes = find_airframe(path, whole, data, said) if kind is Kind.MULTIROTOR else (None, [])
    if airframe is not None and joints:
        notes.append(
            f"{', '.join(joint.name for joint in joints[:6])}: locked in the home pose in tasks of multirotors"
        )
    if tip is not None and said.tip is None and (others := other_tips(data, tree, tip)):
        notes.append(f"the tip is {tip}, one of several last bodies; others: {listing(others, 4)} (key tip in {NAME})")
    if lift:
        name = model.body(tree.root).name
        notes.append(f"the frame of the base {name!r} is {height:.3f} m above the soles; tasks take one at the hips")
    return Robot(
        file=path,
        kind=kind,
        free=free,
        trunk=model.body(tree.root).name,
        collision=said.collision or PRIMITIVES,
        joints=joints,
        feet=tuple(foot_of(data, leg)[0] for leg in legs),
        tip=tip,
        height=height + lift,
        lift=lift,
        mass=tree.mass() if airframe is None else airframe.mass,
        fixes=file.fixes,
        warnings=(*checked(tree, data, joints, legs, torques), *notes),
        foot_points=tuple(foot_of(data, leg)[1] for leg in legs),
        tip_point=None if tip is None else point_of(data, tip),
        model=model,
        home=data.qpos.copy(),
        home_targets=_home_targets(model, joints, torques),
        airframe=airframe,
    )


def _in_order(path: Path, tree: Tree, said: Description) -> Tree:
    """The tree with its actuated joints in the order of the description."""
    if not said.joints:
        return tree
    names = {tree.model.joint(joint).name: joint for joint in tree.joints}
    for name in said.joints:
        if name not in names:
            raise UnknownNameError(f"joint in {path} (key joints)", name, names)
    return dataclasses.replace(tree, joints=tuple(names[name] for name in said.joints))


def _home(path: Path, tree: Tree, legs: tuple[Limb, ...], tip: str | None, said: Description) -> np.ndarray:
    """(n,) the joints' angles in the home pose: a keyframe, else found; single ones as described."""
    model = tree.model
    named = _home_key(model)
    if named is not None:
        angles = model.key_qpos[named][model.jnt_qposadr[list(tree.joints)]].copy()
    else:
        angles = _posed(tree, legs, tip)
    names = [model.joint(joint).name for joint in tree.joints]
    for name, angle in by_joint(path, "home", said.home, names).items():
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
