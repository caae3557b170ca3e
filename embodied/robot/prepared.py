"""A stranger's robot made ready for tasks: position servos, sensors, feet, a home key, one kind of contact."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np

from embodied.core.scenes import one_line
from embodied.errors import ModelError
from embodied.robot.description import NAME
from embodied.robot.files import read_model
from embodied.robot.robot import Kind, Robot

CLOSE = 0.03  # rad or m of error that is left as it is
TRIES = 4  # corrections of the servos' targets
SETTLE = 1.5  # s for each
ARTICLES = {Kind.ARM: "an arm", Kind.HAND: "a hand", Kind.MULTIROTOR: "a multirotor"}
TRACK = (0.685, 0.635, 0.241, 0.266)  # wxyz, of the camera that follows: as Go1's, from ahead and the right
UPRIGHT = 0.9  # cosine of the lean, and
LOWEST = 0.75  # of the height in the home pose, below which the robot did not stand


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A legged robot's MJCF, as tasks of legged robots read it."""

    xml: str
    """The robot alone; names of sensors and of the key `home` as in `assets/robots/go1/go1.xml`."""
    feet: tuple[str, ...]
    """Names of the feet: prefixes of their sensors."""
    foot_radius: float
    """m from a foot's point down to its sole."""
    pose_weights: tuple[float, ...]
    """By joint: how much its distance from the home pose counts; the legs' knees, which must bend, a tenth."""
    height: float
    """m of the trunk above the ground in the home pose."""


def prepare_legged(robot: Robot) -> Prepared:
    """Rewrite a legged robot's model.

    Raises:
        ModelError: it has no legs, or its servos do not hold it upright.
    """
    if robot.kind is not Kind.LEGGED:
        raise ModelError(
            f"{robot.file} is understood as {ARTICLES[robot.kind]}; expected a legged robot (key kind in {NAME})"
        )
    spec = read_model(robot.file).spec
    clear(spec)
    if not Path(spec.meshdir or "").is_absolute():
        spec.meshdir = str((robot.file.parent / (spec.meshdir or "")).resolve())
    root = spec.body(robot.trunk)
    away = 3.0 * robot.height
    track = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
    root.add_camera(name="track", mode=track, pos=[0.55 * away, -1.1 * away, 0.35 * away], quat=TRACK)
    if robot.free and not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in root.joints):
        root.add_freejoint(name="root")
    drive(spec, robot)
    radius = _sense(spec, robot)
    _filter_contacts(spec, robot)
    model = _compiled(robot.file, spec)
    qpos = _placed(robot, model)
    key = spec.add_key(name="home")
    key.qpos, key.ctrl = qpos, _targets(robot, spec, qpos)
    _compiled(robot.file, spec)
    return Prepared(
        xml=spec.to_xml(),
        feet=tuple(f"foot_{name}" for name in robot.feet),
        foot_radius=radius,
        pose_weights=_pose_weights(robot),
        height=robot.height,
    )


def _compiled(path: Path, spec: mujoco.MjSpec) -> mujoco.MjModel:
    try:
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(f"{path}: as tasks need it, MuJoCo does not compile it: {one_line(error)}") from None


def clear(spec: mujoco.MjSpec) -> None:
    """Take away what belongs to somebody else's scene: floor, lights, cameras, actuators, sensors, keys."""
    world = spec.worldbody
    for element in [
        *world.geoms,
        *world.lights,
        *world.cameras,
        *spec.actuators,
        *spec.sensors,
        *spec.keys,
        *spec.lights,
        *spec.cameras,
    ]:
        spec.delete(element)


def drive(spec: mujoco.MjSpec, robot: Robot) -> None:
    """A position servo on every joint, under the joint's name."""
    for joint in robot.joints:
        part = spec.joint(joint.name)
        part.armature = joint.servo.armature
        if not np.isfinite(joint.low):  # tasks want a range to keep away from the ends of
            part.limited = mujoco.mjtLimited.mjLIMITED_FALSE
            part.range[:] = joint.home - np.pi, joint.home + np.pi
        part.damping[:] = 0.0
        servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=joint.servo.kp, kv=joint.servo.kv)
        servo.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        servo.forcerange[:] = -joint.servo.effort, joint.servo.effort
        part.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE


def _sense(spec: mujoco.MjSpec, robot: Robot) -> float:
    """The sensors that tasks read; returns the feet's radius."""
    kinds, objects = mujoco.mjtSensor, mujoco.mjtObj
    root = spec.body(robot.trunk)
    for site in [site for site in spec.sites if site.name == "imu"]:
        spec.delete(site)
    root.add_site(name="imu")
    for name, kind in (
        ("gyro", kinds.mjSENS_GYRO),
        ("accelerometer", kinds.mjSENS_ACCELEROMETER),
        ("linvel", kinds.mjSENS_VELOCIMETER),
        ("upvector", kinds.mjSENS_FRAMEZAXIS),
    ):
        spec.add_sensor(name=name, type=kind, objtype=objects.mjOBJ_SITE, objname="imu")
    for name, kind in (
        ("orientation", kinds.mjSENS_FRAMEQUAT),
        ("position", kinds.mjSENS_FRAMEPOS),
        ("linvel_w", kinds.mjSENS_FRAMELINVEL),
        ("angvel_w", kinds.mjSENS_FRAMEANGVEL),
    ):
        spec.add_sensor(name=name, type=kind, objtype=objects.mjOBJ_XBODY, objname=robot.trunk)
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(robot.model, data)
    radii = []
    for name, point in zip(robot.feet, robot.foot_points, strict=True):
        body = robot.model.body(name).id
        local = data.xmat[body].reshape(3, 3).T @ (point - data.xpos[body])
        reach = _reach(robot.model, body, local)
        radii.append(float(point[2]))
        foot = f"foot_{name}"
        spec.body(name).add_site(name=foot, pos=local, size=[reach, reach, reach])
        spec.add_sensor(name=f"{foot}_pos", type=kinds.mjSENS_FRAMEPOS, objtype=objects.mjOBJ_SITE, objname=foot)
        spec.add_sensor(
            name=f"{foot}_linvel_w", type=kinds.mjSENS_FRAMELINVEL, objtype=objects.mjOBJ_SITE, objname=foot
        )
        spec.add_sensor(name=f"{foot}_touch", type=kinds.mjSENS_TOUCH, objtype=objects.mjOBJ_SITE, objname=foot)
    for joint in robot.joints:
        spec.add_sensor(
            name=f"{joint.name}_torque",
            type=kinds.mjSENS_JOINTACTFRC,
            objtype=objects.mjOBJ_JOINT,
            objname=joint.name,
        )
    return float(np.mean(radii))


def _reach(model: mujoco.MjModel, body: int, point: np.ndarray) -> float:
    """m around a point (3,) in a body's frame that holds all its shapes: where contacts count as the foot's."""
    geoms = [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) == body]
    far = [float(np.linalg.norm(model.geom_pos[geom] - point) + model.geom_rbound[geom]) for geom in geoms]
    return 1.2 * max(far, default=0.02)


def _filter_contacts(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Shapes that collide meet the ground and not each other; meshes become the capsules or boxes that fit them."""
    below = {robot.trunk} | {body.name for body in spec.body(robot.trunk).find_all(mujoco.mjtObj.mjOBJ_BODY)}
    for geom in spec.geoms:
        if geom.parent.name not in below:
            continue
        collides = bool(geom.contype or geom.conaffinity)
        geom.contype, geom.conaffinity = 0, int(collides)
        if collides:
            geom.condim = 3
            geom.friction[0] = 1.0
            geom.priority = 0
            if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
                geom.type = (
                    mujoco.mjtGeom.mjGEOM_SPHERE if geom.parent.name in robot.feet else mujoco.mjtGeom.mjGEOM_BOX
                )


def _pose_weights(robot: Robot) -> tuple[float, ...]:
    """1 for a joint, a tenth for those that pitch below a leg's first one that does."""
    model, data = robot.model, mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(model, data)
    pitching = [abs(float(data.joint(joint.name).xaxis[1])) > 0.7 for joint in robot.joints]
    weights = []
    for joint, pitches in zip(robot.joints, pitching, strict=True):
        body = int(model.joint(joint.name).bodyid[0])
        above = [
            other.name
            for other, also in zip(robot.joints, pitching, strict=True)
            if also and other.name != joint.name and _is_above(model, int(model.joint(other.name).bodyid[0]), body)
        ]
        weights.append(0.1 if pitches and above and _is_of_leg(robot, body) else 1.0)
    return tuple(weights)


def _is_above(model: mujoco.MjModel, ancestor: int, body: int) -> bool:
    while body > ancestor:
        body = int(model.body_parentid[body])
    return body == ancestor


def _is_of_leg(robot: Robot, body: int) -> bool:
    return any(_is_above(robot.model, body, int(robot.model.body(foot).id)) for foot in robot.feet)


def _placed(robot: Robot, model: mujoco.MjModel) -> np.ndarray:
    """(nq,) the home pose in the rewritten model."""
    qpos = model.qpos0.copy()
    for joint in robot.joints:
        qpos[model.joint(joint.name).qposadr[0]] = joint.home
    qpos[2] = robot.height
    return qpos


def _targets(robot: Robot, spec: mujoco.MjSpec, qpos: np.ndarray) -> np.ndarray:
    """(nu,) with which the servos hold the home pose on a floor: those of the file's key if they do, else found.

    Servos sag under the weight: targets are moved against the error that is left, a few times over.
    """
    scene = spec.copy()
    scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0)
    scene.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = _compiled(robot.file, scene)
    data = mujoco.MjData(model)
    places = [model.joint(joint.name).qposadr[0] for joint in robot.joints]
    home = np.array([joint.home for joint in robot.joints])
    low = np.array([joint.low for joint in robot.joints])
    high = np.array([joint.high for joint in robot.joints])
    targets = home if robot.home_targets is None else robot.home_targets
    for _ in range(TRIES):
        mujoco.mj_resetData(model, data)
        data.qpos[:] = qpos
        data.ctrl[:] = targets
        while data.time < SETTLE:
            mujoco.mj_step(model, data)
        error = home - data.qpos[places]
        if np.abs(error).max() < CLOSE:
            break
        targets = np.clip(targets + error, np.maximum(low, home - 1), np.minimum(high, home + 1))
    upright = data.xmat[model.body(robot.trunk).id].reshape(3, 3)[2, 2]
    if not np.isfinite(data.qpos).all() or upright < UPRIGHT or data.qpos[2] < LOWEST * qpos[2]:
        raise ModelError(
            f"{robot.file}: its servos do not hold it up: after {SETTLE:g} s the base is at {data.qpos[2]:.2f} of "
            f"{qpos[2]:.2f} m and leans {np.degrees(np.arccos(np.clip(upright, -1, 1))):.0f} degrees; say another "
            "home, or larger kp or effort, in robot.toml"
        )
    return targets
