"""Models of legged robots for tasks: position servos, sensors, feet, a home key, one kind of contact."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from embodied.core.scenes import load_spec
from embodied.errors import ModelError
from embodied.robot.derivation.joints import driven
from embodied.robot.derivation.pose import qpos_of
from embodied.robot.description import NAME
from embodied.robot.files import PRIMITIVES, compiled, read_model
from embodied.robot.option import by_file
from embodied.robot.prepared.roles import Role, roles
from embodied.robot.prepared.stance import settled_targets
from embodied.robot.robot import Kind, Robot, require_kind
from embodied.robot.rotors import GRAVITY as GRAVITY
from embodied.robot.tree import is_below, lowest_point, posed

HIDDEN = 4  # group of shapes and sites that no picture shows
# A biped with such ankles balances by stepping (unitree_rl_gym's G1: 40 N m/rad and 2 N m s/rad at 0.78 m and 33 kg).
SOFT = 0.16  # of weight times height: N m/rad
SOFT_LAG = 0.177  # of the root of height over gravity: s, their damping over their stiffness (G1: 0.05 s)
DIGITS = 6  # behind the point, of a foot's radius in m
FOOT_SENSORS = {
    "pos": mujoco.mjtSensor.mjSENS_FRAMEPOS,
    "linvel_w": mujoco.mjtSensor.mjSENS_FRAMELINVEL,
    "touch": mujoco.mjtSensor.mjSENS_TOUCH,
}
"""Sensors of each foot, below its name, and their kinds."""
SOLE_SENSORS = FOOT_SENSORS | {"upvector": mujoco.mjtSensor.mjSENS_FRAMEZAXIS}
"""Those of a biped's."""
TRUNK_SENSORS = {
    "gyro": (mujoco.mjtSensor.mjSENS_GYRO, True),
    "accelerometer": (mujoco.mjtSensor.mjSENS_ACCELEROMETER, True),
    "linvel": (mujoco.mjtSensor.mjSENS_VELOCIMETER, True),
    "upvector": (mujoco.mjtSensor.mjSENS_FRAMEZAXIS, True),
    "orientation": (mujoco.mjtSensor.mjSENS_FRAMEQUAT, False),
    "position": (mujoco.mjtSensor.mjSENS_FRAMEPOS, False),
    "linvel_w": (mujoco.mjtSensor.mjSENS_FRAMELINVEL, False),
    "angvel_w": (mujoco.mjtSensor.mjSENS_FRAMEANGVEL, False),
}
"""Sensor -> its kind, and whether it is of the site `imu`; else of the trunk."""
TRACK = (0.685, 0.635, 0.241, 0.266)  # wxyz, of the camera that follows: as Go1's, from ahead and the right


@dataclasses.dataclass(frozen=True)
class LeggedModel:
    """A legged robot's model as tasks of legged robots read it, and its measures in the home pose."""

    source: Robot
    xml: str | None
    """The robot alone, with the sensors and the key `home` of `assets/robots/go1/go1.xml`; None: as its file has it."""
    feet: tuple[str, ...]
    """Names of the k feet: prefixes of their sensors `_touch`, `_pos`, `_linvel_w`."""
    foot_radius: float
    """m from a foot's point down to its sole."""
    height: float
    """m of the trunk above the ground."""
    feet_apart: float
    """m between the first two feet along the ground."""
    roles: tuple[Role, ...]
    """(n) of the joints, in the order of actions."""
    stiffness: tuple[float, ...]
    """(n) N m/rad of their servos."""

    @property
    def name(self) -> str:
        return self.source.file.stem

    @property
    def trunk(self) -> str:
        """Name of the floating body."""
        return self.source.trunk

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the n actuated joints, and of their servos, in the order of actions."""
        return tuple(joint.name for joint in self.source.joints)

    @property
    def is_biped(self) -> bool:
        return len(self.feet) == 2

    @property
    def effort(self) -> float:
        """N m, weight times height."""
        return self.source.mass * GRAVITY * self.height

    def leg(self, foot: int) -> tuple[int, ...]:
        """Numbers of the joints that carry a foot, from the trunk on."""
        model = self.source.model
        body = int(model.body(self.source.feet[foot]).id)
        carriers = [int(model.joint(name).bodyid[0]) for name in self.joint_names]
        return tuple(joint for joint, carrier in enumerate(carriers) if is_below(model, body, carrier))

    def written(self, folder: Path) -> Path:
        """The MJCF file of this model: the robot's own, or one in `folder`."""
        if self.xml is None:
            return self.source.file
        file = folder / "robot.xml"
        file.write_text(self.xml, encoding="utf-8")
        return file

    def spec(self) -> mujoco.MjSpec:
        return load_spec(self.source.file.resolve()) if self.xml is None else mujoco.MjSpec.from_string(self.xml)


LOWEST_BASE = 0.03
"""m, least height of the hips above the soles: a walking robot of a hand's size has more (our choice)."""


def legged_model(robot: Robot) -> LeggedModel:
    """The model of a legged robot: its file where that has all that tasks read, else the file rewritten.

    Raises:
        ModelError: it has no legs, its base is fixed, its hips are at the soles, or its servos do not hold it upright.
    """
    require_kind(robot, Kind.LEGGED)
    if not robot.free:
        raise ModelError(f'{robot.file}: its base is fixed, and it cannot walk; say base = "free" in {NAME}')
    if robot.height < LOWEST_BASE:
        raise ModelError(
            f"{robot.file}: its hips are {robot.height:.3f} m above the soles in the home pose; expected "
            f"{LOWEST_BASE} m or more: say another home in {NAME}"
        )
    feet = _complete(robot)
    return _rewritten(robot) if feet is None else _as_it_is(robot, feet)


legged_of = by_file(legged_model)
"""The model of a legged robot, of its name or file."""


def _complete(robot: Robot) -> tuple[str, ...] | None:
    """Names of the feet's sites, where the file is the robot alone with sensors, servos and the key `home`, else None.

    What `robot.toml` changes has to be written into the file, and meshes are found from it alone.
    """
    model = robot.model
    sensors = {model.sensor(number).name for number in range(model.nsensor)}
    felt = [site for site in map(model.site, range(model.nsite)) if f"{site.name}_touch" in sensors]
    sites = {model.body(site.bodyid[0]).name: site.name for site in felt}
    feet = tuple(sites.get(foot, "") for foot in robot.feet)
    of_feet = FOOT_SENSORS if len(feet) > 2 else SOLE_SENSORS
    needed = {*TRUNK_SENSORS, *(f"{foot}_{sensor}" for foot in feet for sensor in of_feet)}
    needed |= {f"{joint.name}_torque" for joint in robot.joints}
    alone = not (model.nmesh or (model.geom_bodyid == 0).any() or robot.fixes or robot.lift)
    has_home = "home" in {model.key(number).name for number in range(model.nkey)}
    complete = alone and has_home and needed <= sensors and _has_servos(robot)
    return feet if complete and not reset_defaults(read_model(robot.file).spec) else None


def _has_servos(robot: Robot) -> bool:
    """Whether the file's servos and its key `home` have the joints' names and numbers."""
    model = robot.model
    servos, home = {model.actuator(number).name for number in range(model.nu)}, model.key("home").qpos
    return all(
        joint.name in servos
        and driven(model, model.joint(joint.name).id) == ("position", *dataclasses.astuple(joint.servo)[:3])
        and home[model.joint(joint.name).qposadr[0]] == joint.home
        for joint in robot.joints
    )


def _as_it_is(robot: Robot, feet: tuple[str, ...]) -> LeggedModel:
    data = posed(robot.model, robot.model.key("home").qpos)
    places = np.array([data.site(foot).xpos for foot in feet])
    soles = [lowest_point(data, robot.model, (int(robot.model.body(foot).id),))[0] for foot in robot.feet]
    return LeggedModel(
        source=robot,
        xml=None,
        feet=feet,
        foot_radius=round(float(np.mean(places[:, 2] - soles)), DIGITS),
        height=float(data.body(robot.trunk).xpos[2]),
        feet_apart=float(np.linalg.norm((places[0] - places[1])[:2])),
        roles=roles(robot),
        stiffness=tuple(joint.servo.kp for joint in robot.joints),
    )


def _rewritten(robot: Robot) -> LeggedModel:
    """The file without its scene, with servos, sensors, the key `home`, and contacts with the ground alone."""
    spec = bare_spec(robot)
    root = spec.body(robot.trunk)
    raise_frame(root, robot)
    away = 3.0 * robot.height
    track = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
    root.add_camera(name="track", mode=track, pos=[0.55 * away, -1.1 * away, 0.35 * away], quat=TRACK)
    if not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in root.joints):
        root.add_freejoint(name="root")
    parts = roles(robot)
    soft = _soft_ankles(robot, parts) if len(robot.feet) == 2 else {}
    drive(spec, robot)
    radius = _sense(spec, robot)
    _filter_contacts(spec, robot)
    model = compiled(robot.file, spec)
    qpos = _placed(robot, model)
    key = spec.add_key(name="home")
    key.qpos = qpos
    if len(robot.feet) == 2:
        key.ctrl = _soften(spec, robot, soft)
    else:
        key.ctrl = settled_targets(robot, spec, qpos)
    _limit(spec, robot, key.ctrl)
    model = compiled(robot.file, spec)
    data = posed(model, qpos)
    feet = [data.site(f"foot_{foot}").xpos for foot in robot.feet]
    return LeggedModel(
        source=robot,
        xml=spec.to_xml(),
        feet=tuple(f"foot_{name}" for name in robot.feet),
        foot_radius=radius,
        height=float(qpos[2]),
        feet_apart=float(np.linalg.norm((feet[0] - feet[1])[:2])),
        roles=parts,
        stiffness=tuple(soft.get(joint.name, joint.servo.kp) for joint in robot.joints),
    )


def raise_frame(base: mujoco.MjsBody, robot: Robot) -> None:
    """Move a base's frame up by the robot's lift in the home pose, and nothing else."""
    turn = Rotation.from_quat(robot.home[3:7], scalar_first=True)
    shift = turn.inv().apply([0.0, 0.0, robot.lift])
    parts = [*base.geoms, *base.sites, *base.cameras, *base.lights, *base.bodies, *base.frames]
    for part in [part for part in parts if part.frame is None]:
        spans = isinstance(part, mujoco.MjsGeom | mujoco.MjsSite) and np.isfinite(part.fromto).all()
        if spans:  # from end to end, in place of a position
            part.fromto = np.asarray(part.fromto) - np.tile(shift, 2)
        else:
            part.pos = np.asarray(part.pos) - shift
    base.ipos = np.asarray(base.ipos) - shift


def _soft_ankles(robot: Robot, parts: tuple[Role, ...]) -> dict[str, float]:
    """Joint -> stiffness N m/rad of a biped's ankles: none that would hold it up without steps."""
    most = SOFT * robot.mass * GRAVITY * robot.height
    ankles = [joint for joint, part in zip(robot.joints, parts, strict=True) if part in (Role.ANKLE, Role.ANKLE_PITCH)]
    return {joint.name: most for joint in ankles if joint.servo.kp > most}


def _soften(spec: mujoco.MjSpec, robot: Robot, soft: dict[str, float]) -> np.ndarray:
    """Give ankles their stiffness and damping; (nu,) the targets with which the home pose is in balance.

    Targets are as far ahead of the pose as the softer servo needs for the same torque.

    Raises:
        ModelError: a joint is too weak to stand.
    """
    home = np.array([joint.home for joint in robot.joints])
    before = np.array([joint.servo.kp for joint in robot.joints])
    after = np.array([soft.get(joint.name, joint.servo.kp) for joint in robot.joints])
    lag = SOFT_LAG * np.sqrt(robot.height / GRAVITY)
    for name, stiffness in soft.items():
        spec.actuator(name).set_to_position(kp=stiffness, kv=lag * stiffness)
    targets = home if robot.home_targets is None else robot.home_targets
    for joint, torque in zip(robot.joints, before * (targets - home), strict=True):
        if abs(torque) >= 0.999 * joint.servo.effort:
            raise ModelError(
                f"{robot.file}: to stand, {joint.name} must give all of its {joint.servo.effort:.3g} N m or more; say "
                f"another home, or a larger effort, in {NAME}"
            )
    return home + (targets - home) * before / after


def _limit(spec: mujoco.MjSpec, robot: Robot, targets: np.ndarray) -> None:
    """Targets stay within the joints' limits, as on the robot; where the home pose needs one beyond, within that."""
    for joint, target in zip(robot.joints, targets, strict=True):
        if np.isfinite(joint.low):
            servo = spec.actuator(joint.name)
            servo.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
            servo.ctrlrange[:] = min(joint.low, target), max(joint.high, target)


def bare_spec(robot: Robot) -> mujoco.MjSpec:
    """The robot of the file, without scene, motors, sensors and keys; meshes are found from anywhere."""
    spec = read_model(robot.file, robot.collision).spec
    clear(spec)
    reset_defaults(spec)
    if not Path(spec.meshdir or "").is_absolute():
        spec.meshdir = str((robot.file.parent / (spec.meshdir or "")).resolve())
    return spec


def clear(spec: mujoco.MjSpec) -> None:
    """Remove the scene of the file: floor, lights, cameras, actuators, sensors, keys."""
    scene = (
        spec.worldbody.geoms,
        spec.lights,
        spec.cameras,
        spec.actuators,
        spec.sensors,
        spec.keys,
    )  # each element once
    for element in [one for elements in scene for one in elements]:
        spec.delete(element)


DEFAULTS = ("actuator", "camera", "equality", "geom", "joint", "light", "material", "mesh", "site")
"""Kinds of elements with defaults that robots and their scenes have."""
NO_VALUES = ("alt", "classname", "compiler", "id", "info", "name", "plugin", "signature", "userdata")
"""Of their attributes, those that are no values of an element."""


def reset_defaults(spec: mujoco.MjSpec) -> bool:
    """Make MuJoCo's defaults those of elements that are added; returns whether the file had others.

    Its own elements keep their values. Otherwise its gears would drive our servos, and its contacts be the floor's.
    """
    plain, changed = mujoco.MjSpec(), False
    for kind in DEFAULTS:
        given, usual = getattr(spec.default, kind), getattr(plain.default, kind)
        for name in dir(usual):
            if name.startswith("_") or name in NO_VALUES or callable(value := getattr(usual, name)):
                continue
            if not np.array_equal(getattr(given, name), value, equal_nan=isinstance(value, np.ndarray | float)):
                setattr(given, name, value)
                changed = True
    return changed


def drive(spec: mujoco.MjSpec, robot: Robot) -> None:
    """A position servo on every joint, under the joint's name."""
    for joint in robot.joints:
        part = spec.joint(joint.name)
        part.armature = joint.servo.armature
        if not np.isfinite(joint.low):  # tasks want a range to keep away from the ends of
            part.limited = mujoco.mjtLimited.mjLIMITED_FALSE
            part.range[:] = joint.home - np.pi, joint.home + np.pi
        if joint.drive != "position":  # a servo by the rule has all the damping
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
    root.add_site(name="imu", group=HIDDEN)
    for name, (kind, of_site) in TRUNK_SENSORS.items():
        of, where = (objects.mjOBJ_SITE, "imu") if of_site else (objects.mjOBJ_XBODY, robot.trunk)
        spec.add_sensor(name=name, type=kind, objtype=of, objname=where)
    data = posed(robot.model, robot.home)
    radii = []
    for name, point in zip(robot.feet, robot.foot_points, strict=True):
        body = robot.model.body(name).id
        if len(robot.feet) == 2:
            point = _sole(robot.model, data, body, point)
        local = data.xmat[body].reshape(3, 3).T @ (point - data.xpos[body])
        reach = _reach(robot.model, body, local)
        radii.append(float(point[2]))
        foot = f"foot_{name}"
        level = data.xquat[body] * [1, -1, -1, -1]  # the site's z axis is up in the home pose
        spec.body(name).add_site(name=foot, pos=local, quat=level, size=[reach, reach, reach], group=HIDDEN)
        for name, kind in (FOOT_SENSORS if len(robot.feet) > 2 else SOLE_SENSORS).items():
            spec.add_sensor(name=f"{foot}_{name}", type=kind, objtype=objects.mjOBJ_SITE, objname=foot)
    for name in [joint.name for joint in robot.joints]:
        spec.add_sensor(name=f"{name}_torque", type=kinds.mjSENS_JOINTACTFRC, objtype=objects.mjOBJ_JOINT, objname=name)
    return float(np.mean(radii))


def _sole(model: mujoco.MjModel, data: mujoco.MjData, body: int, point: np.ndarray) -> np.ndarray:
    """(3,) m, world frame: below the middle of all shapes of a flat foot, at the height of the lowest."""
    solid = [
        geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) == body and model.geom_conaffinity[geom]
    ]
    if not solid:
        return point
    centres = np.array(
        [data.geom_xpos[geom] + data.geom_xmat[geom].reshape(3, 3) @ model.geom_aabb[geom, :3] for geom in solid]
    )
    middle = (centres.min(0) + centres.max(0)) / 2
    return np.array([middle[0], middle[1], lowest_point(data, model, (body,))[0]])


def _reach(model: mujoco.MjModel, body: int, point: np.ndarray) -> float:
    """m around a point (3,) in a body's frame that holds all its shapes: where contacts count as the foot's."""
    geoms = [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) == body]
    far = [float(np.linalg.norm(model.geom_pos[geom] - point) + model.geom_rbound[geom]) for geom in geoms]
    return 1.2 * max(far, default=0.02)


def _filter_contacts(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Shapes that collide meet the ground and not each other; meshes become the spheres or boxes that fit them."""
    for geom in meet_surroundings(spec, robot):
        geom.condim = 3
        geom.friction[0] = 1.0
        geom.priority = 0
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH and robot.collision == PRIMITIVES:
            round_foot = len(robot.feet) > 2 and geom.parent.name in robot.feet
            geom.type = mujoco.mjtGeom.mjGEOM_SPHERE if round_foot else mujoco.mjtGeom.mjGEOM_BOX


def meet_surroundings(spec: mujoco.MjSpec, robot: Robot) -> list[mujoco.MjsGeom]:
    """Let the robot's shapes that collide meet what surrounds it and not each other; returns them.

    Where it has other shapes for the eye, these go into a group that is not drawn.
    """
    bodies = {robot.trunk} | {body.name for body in spec.body(robot.trunk).find_all(mujoco.mjtObj.mjOBJ_BODY)}
    shapes = [geom for geom in spec.geoms if geom.parent.name in bodies]
    solid = [geom for geom in shapes if geom.contype or geom.conaffinity]
    for geom in solid:
        geom.contype, geom.conaffinity = 0, 1
        if len(solid) < len(shapes):
            geom.group = HIDDEN
    return solid


def _placed(robot: Robot, model: mujoco.MjModel) -> np.ndarray:
    """(nq,) the home pose in the rewritten model, its feet on the ground."""
    qpos = qpos_of(model, robot.home_angles)
    qpos[:7] = robot.home[:7]
    feet = tuple(int(model.body(foot).id) for foot in robot.feet)
    qpos[2] -= lowest_point(posed(model, qpos), model, feet)[0]
    return qpos
