"""Joint limits of a robot, under assets/ or from a user's file, and its model with the base held."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec, load_spec
from embodied.errors import EmbodiedError, UnknownNameError, listing
from embodied.robot import Robot, standard_model
from embodied.storage.paths import asset, asset_roots
from sim2real.contract.model_files import is_file
from sim2real.contract.speeds import top_speeds

COLLISION_GROUP = 3  # geoms that collide, in every robot under assets/; in files of others, those that may collide
CLEARANCE = 0.01  # m that parts of a robot must stay apart


def home_of(model: mujoco.MjModel) -> np.ndarray | None:
    """(nq,) the keyframe `home`; None where the model has none."""
    names = [model.key(number).name for number in range(model.nkey)]
    return model.key("home").qpos if "home" in names else None


@dataclasses.dataclass(frozen=True)
class Limits:
    """The n joints of a robot that position servos drive, in the actuators' order."""

    robot: str
    """Its name under assets/, or its model file."""
    names: tuple[str, ...]
    """(n) names of the joints."""
    actuators: tuple[str, ...]
    """(n) names of their servos."""
    lower: np.ndarray
    """(n,) rad."""
    upper: np.ndarray
    """(n,) rad."""
    home: np.ndarray
    """(n,) rad, the keyframe `home`; without one, the middle between the limits."""
    speed: np.ndarray
    """(n,) rad/s, the motors' top speeds; inf where none is stated."""
    torque: np.ndarray
    """(n,) N m; inf where the MJCF has none."""
    stiffness: np.ndarray
    """(n,) N m/rad of the servos."""
    damping: np.ndarray
    """(n,) N m s/rad of the servos."""
    floating: bool
    """Whether the robot's base moves freely, so that an IMU and a pose carry information."""


def robot_names() -> tuple[str, ...]:
    folders = {path.parent.name for root in asset_roots() for path in root.glob("robots/*/*.xml")}
    return tuple(sorted(folders))


def limits_of(robot: str) -> Limits:
    """The hinges of a robot, a name under assets/ or a model file; none for a drone.

    Raises:
        UnknownNameError: there is no such robot.
        ModelError: its file cannot be read or is not understood.
    """
    spec = _spec(robot)
    model = compile_spec(spec)
    home = home_of(model)
    rows = []
    for i in range(model.nu):
        joint = model.actuator_trnid[i, 0]
        # A position servo: the bias -kp q makes it one, whatever the gain is called in the file.
        servo = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE and model.actuator_biasprm[i, 1] < 0
        drives_joint = model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
        if servo and drives_joint and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
            rows.append((i, joint))
    actuators, joints = (np.array(ids, int) for ids in (zip(*rows, strict=True) if rows else ((), ())))
    limited = model.jnt_limited[joints].astype(bool)
    lower, upper = np.where(limited[:, None], model.jnt_range[joints], (-math.pi, math.pi)).T
    names = tuple(model.joint(int(i)).name for i in joints)
    forced = model.actuator_forcelimited[actuators].astype(bool)
    return Limits(
        robot=robot,
        names=names,
        actuators=tuple(model.actuator(int(i)).name for i in actuators),
        lower=lower,
        upper=upper,
        home=(lower + upper) / 2 if home is None else home[model.jnt_qposadr[joints]],
        speed=np.array([*top_speeds(robot, names, Path(robot) if is_file(robot) else None).values()]),
        torque=np.where(forced, np.abs(model.actuator_forcerange[actuators]).min(1), np.inf),
        stiffness=-model.actuator_biasprm[actuators, 1],
        damping=-model.actuator_biasprm[actuators, 2],
        floating=bool((model.jnt_type == mujoco.mjtJoint.mjJNT_FREE).any()),
    )


def hung_up(robot: str, timestep: float) -> mujoco.MjModel:
    """The robot with its base held and nothing around it. Its parts feel each other, from `CLEARANCE` apart or more.

    Args:
        robot: Its name under assets/, or its model file.
        timestep: s.

    Raises:
        UnknownNameError: there is no such robot.
        ModelError: its file cannot be read or is not understood.
    """
    spec = _spec(robot)
    own = is_file(robot)
    homes = _homes(spec) if own else {}
    for key in list(spec.keys):
        spec.delete(key)
    for joint in list(spec.joints):
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            spec.delete(joint)
    for geom in spec.geoms:
        if (geom.contype or geom.conaffinity) if own else geom.group == COLLISION_GROUP:
            # The margins of two geoms add up. With as wide a gap, a contact is listed before it pushes.
            geom.contype, geom.conaffinity, geom.margin, geom.gap = 1, 1, CLEARANCE / 2, CLEARANCE / 2
    spec.option.timestep = timestep
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    if own:
        _let_overlap(spec, homes)
    return compile_spec(spec)


def _homes(spec: mujoco.MjSpec) -> dict[str, float]:
    """Joint -> rad or m in the key `home`."""
    model = compile_spec(spec)
    home = model.key("home").qpos
    joints = [model.joint(i) for i in range(model.njnt) if model.jnt_type[i] != mujoco.mjtJoint.mjJNT_FREE]
    return {joint.name: float(home[joint.qposadr[0]]) for joint in joints}


def _let_overlap(spec: mujoco.MjSpec, pose: dict[str, float]) -> None:
    """Part the bodies that are inside each other in a pose: boxes around meshes overlap where the parts do not."""
    model = compile_spec(spec)
    data = mujoco.MjData(model)
    for name, angle in pose.items():
        data.qpos[model.joint(name).qposadr[0]] = angle
    mujoco.mj_forward(model, data)
    pairs = {tuple(sorted(int(model.geom_bodyid[geom]) for geom in c.geom)) for c in data.contact if c.dist < CLEARANCE}
    for first, second in sorted(pairs):
        spec.add_exclude(bodyname1=model.body(first).name, bodyname2=model.body(second).name)


def need_joints(limits: Limits) -> None:
    if not limits.names:
        able = [name for name in robot_names() if name != limits.robot and limits_of(name).names]
        raise EmbodiedError(
            f"'{limits.robot}' has no joints with position servos to excite; these robots have: {listing(able)}. "
            "A drone is excited by flying it"
        )


def _spec(robot: str) -> mujoco.MjSpec:
    if is_file(robot):
        return standard_model(Robot.load(robot))
    if robot not in robot_names():
        raise UnknownNameError("robot", robot, robot_names())
    return load_spec(asset(f"robots/{robot}/{robot}.xml"))
