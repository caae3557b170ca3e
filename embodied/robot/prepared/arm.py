"""Models of arms for tasks: position servos, gravity held, sensors of the tip, a gripper, a home key."""

from __future__ import annotations

import dataclasses
import warnings

import mujoco
import numpy as np

from embodied.errors import ModelError
from embodied.robot.derivation.joints import Joint
from embodied.robot.derivation.pose import carrier, qpos_of
from embodied.robot.description import NAME
from embodied.robot.files import compiled
from embodied.robot.option import by_file
from embodied.robot.prepared.gripper import Gripper, corners_of, gripper_of
from embodied.robot.prepared.legged import bare_spec, drive, meet_surroundings
from embodied.robot.robot import Kind, Robot, require_kind
from embodied.robot.tree import ancestors, posed

HULL = 32  # vertices of the convex hull of a mesh that collides
SPEED = 2.0  # rad/s (m/s: a tenth), the most that tasks command of a joint; Franka's Panda: 2.2, UR5: 3.1
SLIDE = 0.1  # m of a slide that stand for a radian
HOLD = 0.5  # s in which the servos must hold the home pose, to
CLOSE = 0.05  # rad, or tenths of a metre
RUBBER = (1.0, 0.005, 0.0001)  # sliding, torsional (m), rolling (m) friction of fingers, and
FIRM = (0.015, 1.0, 0.95, 0.99, 0.001)  # solref and solimp of their contacts; assets/robots/panda/panda.xml
PAD = 0.05  # m around the middle between the fingertips in which contacts count as the pads'
HAND_ABOVE_TCP = 0.045  # m, of the sensor `hand_pos`; as in assets/robots/panda/panda.xml


@dataclasses.dataclass(frozen=True)
class ArmModel:
    """An arm's model as tasks of arms read it; n joints move its tip, in the order of actions."""

    source: Robot
    xml: str
    """The robot alone; it stands on z = 0. Names of sensors as in `assets/robots/panda/panda.xml`, a key `home`. Each
    joint that is actuated has a position servo of its name."""
    joints: tuple[Joint, ...]
    """The n joints."""
    gripper: Gripper | None
    """None of arms without two fingers."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @property
    def unit(self) -> np.ndarray:
        """(n,) rad, or m of a slide, that count alike."""
        return np.array([SLIDE if joint.slides else 1.0 for joint in self.joints])

    @property
    def home(self) -> np.ndarray:
        """(n,) rad or m."""
        return np.array([joint.home for joint in self.joints])

    @property
    def limits(self) -> np.ndarray:
        """(n, 2) rad or m."""
        return np.array([(joint.low, joint.high) for joint in self.joints])

    @property
    def accelerations(self) -> np.ndarray:
        """(n,) rad/s^2 or m/s^2, the largest; inf where none is stated."""
        return np.array([joint.acceleration for joint in self.joints])

    @property
    def speeds(self) -> np.ndarray:
        """(n,) rad/s or m/s, as stated and at most `SPEED`."""
        return np.minimum([joint.speed for joint in self.joints], SPEED * self.unit)


def arm_model(robot: Robot) -> ArmModel:
    """The model of an arm: its file rewritten.

    Every joint gets a position servo. The motors compensate gravity, as the controllers of real arms do: what they
    give for it counts against their largest torque. The arm meets its surroundings, not itself; meshes that collide
    are convex hulls of few vertices (fingers: the boxes that fit them).

    Raises:
        ModelError: it is no arm, a joint on the way to the tip has no motor, or its servos do not hold it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of textures
        return _rewritten(robot)


arm_of = by_file(arm_model)
"""The model of an arm, of its name or file."""


def _rewritten(robot: Robot) -> ArmModel:
    require_kind(robot, Kind.ARM)
    joints, gripper = _chain(robot), gripper_at(robot)
    spec = bare_spec(robot)
    drive(spec, robot)
    _hold_gravity(spec, robot)
    _sense(spec, robot, joints, gripper)
    _stand(spec, robot)
    _filter_contacts(spec, robot, gripper)
    model = compiled(robot.file, spec)
    key = spec.add_key(name="home")
    key.qpos, key.ctrl = home_of(robot, model, gripper)
    _check_hold(robot, joints, compiled(robot.file, spec))
    return ArmModel(robot, spec.to_xml(), joints, gripper)


def gripper_at(robot: Robot) -> Gripper | None:
    """The gripper of an arm: of its joints that do not move its tip."""
    return gripper_of(robot, fingers_of(robot))


def fingers_of(robot: Robot) -> list[str]:
    """Joints of an arm that do not move its tip."""
    joints = _chain(robot)
    return [joint.name for joint in robot.joints if joint not in joints]


def _chain(robot: Robot) -> tuple[Joint, ...]:
    """The joints that move the tip, in the order of actions."""
    model = robot.model
    body, _ = carrier(model, robot.tip or "")
    above = ancestors(model, body)
    chain = tuple(joint for joint in robot.joints if int(model.joint(joint.name).bodyid[0]) in above)
    names = {joint.name for joint in chain}
    for joint in range(model.njnt):
        if int(model.jnt_bodyid[joint]) in above and model.joint(joint).name not in names:
            raise ModelError(
                f"{robot.file}: joint {model.joint(joint).name!r} lies between base and tip and has no motor; "
                f"fix it, or say another tip in {NAME}"
            )
    return chain


def _hold_gravity(spec: mujoco.MjSpec, robot: Robot) -> None:
    root = spec.body(robot.trunk)
    for body in [root, *root.find_all(mujoco.mjtObj.mjOBJ_BODY)]:
        body.gravcomp = 1.0
    for joint in robot.joints:
        part = spec.joint(joint.name)
        part.actgravcomp = 1
        part.actfrclimited = mujoco.mjtLimited.mjLIMITED_TRUE
        part.actfrcrange[:] = -joint.servo.effort, joint.servo.effort
        if np.isfinite(joint.low):
            servo = next(actuator for actuator in spec.actuators if actuator.name == joint.name)
            servo.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
            servo.ctrlrange[:] = joint.low, joint.high


def _sense(spec: mujoco.MjSpec, robot: Robot, chain: tuple[Joint, ...], gripper: Gripper | None) -> None:
    """The sensors that tasks read, and the wrist's camera."""
    kinds, objects = mujoco.mjtSensor, mujoco.mjtObj
    body, point = carrier(robot.model, robot.tip or "")
    axes = np.eye(3)
    if gripper is not None and not point.any():
        point, axes = gripper.tcp, gripper.axes
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.ravel())
    for site in [site for site in spec.sites if site.name in ("tcp", "hand", "left_pad", "right_pad")]:
        spec.delete(site)
    carrying = spec.body(robot.model.body(body).name)
    carrying.add_site(name="tcp", pos=point, quat=quat, size=[0.006] * 3, group=4)
    carrying.add_site(name="hand", pos=point - HAND_ABOVE_TCP * axes[:, 2], quat=quat, size=[0.006] * 3, group=4)
    for name, kind, site in (
        ("tcp_pos", kinds.mjSENS_FRAMEPOS, "tcp"),
        ("tcp_orientation", kinds.mjSENS_FRAMEQUAT, "tcp"),
        ("tcp_linvel_w", kinds.mjSENS_FRAMELINVEL, "tcp"),
        ("hand_pos", kinds.mjSENS_FRAMEPOS, "hand"),
    ):
        spec.add_sensor(name=name, type=kind, objtype=objects.mjOBJ_SITE, objname=site)
    for name in [joint.name for joint in chain]:
        spec.add_sensor(name=f"{name}_torque", type=kinds.mjSENS_JOINTACTFRC, objtype=objects.mjOBJ_JOINT, objname=name)
    for side, finger in zip(("left", "right"), () if gripper is None else gripper.sides, strict=False):
        _sense_pad(spec, robot, f"{side}_pad", finger, carrying, point)
    # Above the hand, looking along it past the fingers, as the Panda's.
    eye = point + axes @ np.array([0.08, 0.0, -0.08])
    view = axes @ np.array([[0.0, 0.95, 0.31], [1.0, 0.0, 0.0], [0.0, 0.31, -0.95]])
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(view).ravel())
    carrying.add_camera(name="wrist", pos=eye, quat=quat, fovy=75)


def _sense_pad(
    spec: mujoco.MjSpec, robot: Robot, name: str, finger: str, carrying: mujoco.MjsBody, tcp: np.ndarray
) -> None:
    """Sensors of the contact force on a finger within `PAD` of where the gripper grasps, and of that place."""
    kinds, objects = mujoco.mjtSensor, mujoco.mjtObj
    data = posed(robot.model, robot.home)
    hand, body = data.body(carrying.name), data.body(finger)
    point = body.xmat.reshape(3, 3).T @ (hand.xpos + hand.xmat.reshape(3, 3) @ tcp - body.xpos)
    spec.body(finger).add_site(name=name, pos=point, size=[PAD] * 3, group=4)
    spec.add_sensor(name=f"{name}_pos", type=kinds.mjSENS_FRAMEPOS, objtype=objects.mjOBJ_SITE, objname=name)
    spec.add_sensor(name=f"{name}_touch", type=kinds.mjSENS_TOUCH, objtype=objects.mjOBJ_SITE, objname=name)


def _stand(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Put the base where its lowest shape, or its frame if it has none, is on z = 0."""
    model, data = robot.model, posed(robot.model, robot.home)
    root = int(model.body(robot.trunk).id)
    fixed = [body for body in range(model.nbody) if int(model.body_weldid[body]) == int(model.body_weldid[root])]
    points = [corners_of(model, data, geom) for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) in fixed]
    solid = [corners for corners in points if len(corners)]
    lowest = min((float(corners[:, 2].min()) for corners in solid), default=float(data.xpos[root, 2]))
    spec.body(robot.trunk).pos[:] = [0.0, 0.0, float(model.body_pos[root, 2]) - lowest]


def _filter_contacts(spec: mujoco.MjSpec, robot: Robot, gripper: Gripper | None) -> None:
    """Shapes of the arm meet what surrounds it, not each other; those that meet the ground at home meet nothing."""
    fingers = set() if gripper is None else set(gripper.sides)
    for geom in meet_surroundings(spec, robot):
        is_finger = geom.parent.name in fingers
        geom.condim, geom.priority = (4, 1) if is_finger else (3, 0)
        if is_finger:  # rubber, as the Panda's pads
            geom.friction[:] = RUBBER
            geom.solref[:], geom.solimp[:3] = FIRM[:2], FIRM[2:]
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            if is_finger:
                geom.type = mujoco.mjtGeom.mjGEOM_BOX
            else:  # primitives that fit a crooked link would meet ground that the link does not
                spec.mesh(geom.meshname).maxhullvert = HULL
    for geom in _grounded(spec, robot):
        geom.conaffinity = 0


def _grounded(spec: mujoco.MjSpec, robot: Robot) -> list[mujoco.MjsGeom]:
    """Shapes that lie in the ground in the home pose: the base's, and those that fit a shoulder too loosely."""
    scene = spec.copy()
    for index, geom in enumerate(scene.geoms):
        geom.name = f"shape{index}"
    scene.worldbody.add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0, margin=0.005
    )
    model = compiled(robot.file, scene)
    data = mujoco.MjData(model)
    data.qpos[:] = qpos_of(model, robot.home_angles)
    mujoco.mj_forward(model, data)
    names = {model.geom(int(geom)).name for contact in data.contact for geom in contact.geom} - {"ground"}
    return [geom for index, geom in enumerate(spec.geoms) if f"shape{index}" in names]


def home_of(robot: Robot, model: mujoco.MjModel, gripper: Gripper | None) -> tuple[np.ndarray, np.ndarray]:
    """(nq,) joints and (nu,) targets of the home pose in a rewritten model, the gripper open."""
    angles = robot.home_angles
    if gripper is not None:
        angles |= dict(zip(gripper.joints, gripper.open, strict=True))
    qpos = qpos_of(model, angles)
    ctrl = np.array([angles[model.actuator(index).name] for index in range(model.nu)])
    return qpos, ctrl


def _check_hold(robot: Robot, chain: tuple[Joint, ...], model: mujoco.MjModel) -> None:
    """Refuse an arm whose servos do not hold the home pose."""
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    begin = data.qpos.copy()
    while data.time < HOLD:
        mujoco.mj_step(model, data)
    for joint in chain:
        at = int(model.joint(joint.name).qposadr[0])
        error = abs(float(data.qpos[at] - begin[at]))
        if not error < CLOSE * (SLIDE if joint.slides else 1.0):  # nan included
            unit = "m" if joint.slides else "rad"
            raise ModelError(
                f"{robot.file}: its servos do not hold it: after {HOLD:g} s {joint.name!r} is {error:.2f} {unit} from "
                f"its home pose; say another home, or larger kp or effort, in {NAME}"
            )
