"""A user's arm prepared for tasks: position servos, gravity held, sensors of its tip, a gripper, a home key."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from embodied.errors import ModelError
from embodied.robot.derivation.pose import carrier
from embodied.robot.description import NAME
from embodied.robot.files import compiled, content, read_model
from embodied.robot.option import by_file
from embodied.robot.prepared.legged import ARTICLES, clear, drive, meet_surroundings
from embodied.robot.robot import Kind, Robot

HULL = 32  # vertices of the convex hull of a mesh that collides
SPEED = 2.0  # rad/s (m/s: a tenth), the most that tasks command of a joint; Franka's Panda: 2.2, UR5: 3.1
SLIDE = 0.1  # m of a slide that stand for a radian
HOLD = 0.5  # s in which the servos must hold the home pose, to
CLOSE = 0.05  # rad, or tenths of a metre
DEPTH = 0.01  # m behind the fingertips where a gripper grasps
TIPS = 0.02  # m: what lies no further behind the end of a finger is its tip
SNAP = 0.9  # cosine between a direction and an axis of the tip's body that are taken for the same
RUBBER = (1.0, 0.005, 0.0001)  # sliding, torsional (m), rolling (m) friction of fingers, and
FIRM = (0.015, 1.0, 0.95, 0.99, 0.001)  # solref and solimp of their contacts; assets/robots/panda/panda.xml
PAD = 0.05  # m around the middle between the fingertips in which contacts count as the pads'
HAND_ABOVE_TCP = 0.045  # m, of the sensor `hand_pos`; as in assets/robots/panda/panda.xml
ARTICLE = ARTICLES | {Kind.LEGGED: "a legged robot"}


@dataclasses.dataclass(frozen=True)
class Gripper:
    """Two fingers, or a jaw that closes on a fixed one."""

    joints: tuple[str, ...]
    """Its actuated joints."""
    open: tuple[float, ...]
    """rad or m, of each."""
    closed: tuple[float, ...]
    """rad or m, of each."""
    sides: tuple[str, str]
    """Bodies that end in the fingertips, left and right."""
    tcp: np.ndarray = dataclasses.field(repr=False, compare=False)
    """(3,) m in the frame of the body that carries the fingers: the middle between the closed fingertips."""
    axes: np.ndarray = dataclasses.field(repr=False, compare=False)
    """(3, 3) the columns are the hand's axes in that frame: z out of the hand, y from the right finger to the left."""


@dataclasses.dataclass(frozen=True)
class PreparedArm:
    """An arm's MJCF, as tasks of arms read it."""

    xml: str
    """The robot alone; it stands on z = 0. Names of sensors as in `assets/robots/panda/panda.xml`, a key `home`."""
    joints: tuple[str, ...]
    """The n joints that move the tip, and their servos, in the order of actions."""
    speeds: np.ndarray = dataclasses.field(repr=False, compare=False)
    """(n,) rad/s or m/s, the file's limits, at most `SPEED`."""
    gripper: Gripper | None
    """None of arms without two fingers."""
    fingers: tuple[str, ...]
    """Actuated joints beyond the tip, and their servos."""
    root: str
    """Name of the base's body."""


def prepare_arm(robot: Robot) -> PreparedArm:
    """Rewrite an arm's model.

    Every joint gets a position servo. The motors compensate gravity, as the controllers of real arms do: what they
    give for it counts against their largest torque. The arm meets its surroundings, not itself; meshes that collide
    are convex hulls of few vertices (fingers: the boxes that fit them).

    Raises:
        ModelError: it is no arm, a joint on the way to the tip has no motor, or its servos do not hold it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of textures
        return _prepared(robot)


arm_of = by_file(lambda robot: (robot, prepare_arm(robot)))
"""An arm, and its MJCF for tasks, of a file."""


def _prepared(robot: Robot) -> PreparedArm:
    if robot.kind is not Kind.ARM or robot.tip is None:
        raise ModelError(f"{robot.file} is understood as {ARTICLE[robot.kind]}; expected an arm (key kind in {NAME})")
    chain = _chain(robot)
    gripper = _gripper(robot, [joint.name for joint in robot.joints if joint.name not in chain])
    spec = read_model(robot.file, robot.collision).spec
    clear(spec)
    if not Path(spec.meshdir or "").is_absolute():
        spec.meshdir = str((robot.file.parent / (spec.meshdir or "")).resolve())
    drive(spec, robot)
    _hold_gravity(spec, robot)
    _sense(spec, robot, chain, gripper)
    _stand(spec, robot)
    _filter_contacts(spec, robot, gripper)
    model = compiled(robot.file, spec)
    key = spec.add_key(name="home")
    key.qpos, key.ctrl = home_of(robot, model, gripper)
    _check_hold(robot, chain, compiled(robot.file, spec))
    speeds = _speeds(robot)
    return PreparedArm(
        xml=spec.to_xml(),
        joints=chain,
        speeds=np.array([speeds[name] for name in chain]),
        gripper=gripper,
        fingers=tuple(joint.name for joint in robot.joints if joint.name not in chain),
        root=robot.trunk,
    )


def _chain(robot: Robot) -> tuple[str, ...]:
    """Names of the joints that move the tip, in the order of actions."""
    model = robot.model
    body, _ = carrier(model, robot.tip or "")
    above = set()
    while body > 0:
        above.add(body)
        body = int(model.body_parentid[body])
    chain = tuple(joint.name for joint in robot.joints if int(model.joint(joint.name).bodyid[0]) in above)
    for joint in range(model.njnt):
        if int(model.jnt_bodyid[joint]) in above and model.joint(joint).name not in chain:
            raise ModelError(
                f"{robot.file}: joint {model.joint(joint).name!r} lies between base and tip and has no motor of "
                f"its own; fix it, or say another tip in {NAME}"
            )
    return chain


def _speeds(robot: Robot) -> dict[str, float]:
    """rad/s or m/s of each joint: a URDF's limit, at most `SPEED`."""
    root = ElementTree.fromstring(content(robot.file))
    said = {
        joint.get("name", ""): _number(limit.get("velocity", "0"))
        for joint in root.findall("joint")
        if (limit := joint.find("limit")) is not None
    }
    most = {joint.name: SPEED * (SLIDE if joint.slides else 1.0) for joint in robot.joints}
    return {name: min(said.get(name, 0.0) or speed, speed) for name, speed in most.items()}


def _number(text: str) -> float:
    """A number, or 0 where it is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0


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


def _sense(spec: mujoco.MjSpec, robot: Robot, chain: tuple[str, ...], gripper: Gripper | None) -> None:
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
    for name in chain:
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
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(robot.model, data)
    hand, body = data.body(carrying.name), data.body(finger)
    point = body.xmat.reshape(3, 3).T @ (hand.xpos + hand.xmat.reshape(3, 3) @ tcp - body.xpos)
    spec.body(finger).add_site(name=name, pos=point, size=[PAD] * 3, group=4)
    spec.add_sensor(name=f"{name}_pos", type=kinds.mjSENS_FRAMEPOS, objtype=objects.mjOBJ_SITE, objname=name)
    spec.add_sensor(name=f"{name}_touch", type=kinds.mjSENS_TOUCH, objtype=objects.mjOBJ_SITE, objname=name)


def _stand(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Put the base where its lowest shape, or its frame if it has none, is on z = 0."""
    model, data = robot.model, mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(model, data)
    root = int(model.body(robot.trunk).id)
    fixed = [body for body in range(model.nbody) if int(model.body_weldid[body]) == int(model.body_weldid[root])]
    points = [_corners(model, data, geom) for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) in fixed]
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
    for joint in robot.joints:
        data.qpos[model.joint(joint.name).qposadr[0]] = joint.home
    mujoco.mj_forward(model, data)
    names = {model.geom(int(geom)).name for contact in data.contact for geom in contact.geom} - {"ground"}
    return [geom for index, geom in enumerate(spec.geoms) if f"shape{index}" in names]


def home_of(robot: Robot, model: mujoco.MjModel, gripper: Gripper | None) -> tuple[np.ndarray, np.ndarray]:
    """(nq,) joints and (nu,) targets of the home pose in a rewritten model, the gripper open."""
    angles = {joint.name: joint.home for joint in robot.joints}
    if gripper is not None:
        angles |= dict(zip(gripper.joints, gripper.open, strict=True))
    qpos = model.qpos0.copy()
    for name, angle in angles.items():
        qpos[model.joint(name).qposadr[0]] = angle
    follow(model, qpos)
    ctrl = np.array([angles[model.actuator(index).name] for index in range(model.nu)])
    return qpos, ctrl


def follow(model: mujoco.MjModel, qpos: np.ndarray) -> None:
    """Move joints that copy another, by an equality, to the angle that it sets; in place."""
    for _ in range(2):  # a follower may have followers
        for index in range(model.neq):
            first, second = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
            if int(model.eq_type[index]) == int(mujoco.mjtEq.mjEQ_JOINT) and second >= 0:
                leader, copy = model.jnt_qposadr[second], model.jnt_qposadr[first]
                moved = np.polyval(model.eq_data[index, 4::-1], qpos[leader] - model.qpos0[leader])
                qpos[copy] = model.qpos0[copy] + moved


def _check_hold(robot: Robot, chain: tuple[str, ...], model: mujoco.MjModel) -> None:
    """Refuse an arm whose servos do not hold the home pose."""
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    begin = data.qpos.copy()
    while data.time < HOLD:
        mujoco.mj_step(model, data)
    joints = {joint.name: joint for joint in robot.joints}
    for name in chain:
        at = int(model.joint(name).qposadr[0])
        error = abs(float(data.qpos[at] - begin[at]))
        if not error < CLOSE * (SLIDE if joints[name].slides else 1.0):  # nan included
            unit = "m" if joints[name].slides else "rad"
            raise ModelError(
                f"{robot.file}: its servos do not hold it: after {HOLD:g} s {name!r} is {error:.2f} {unit} from its "
                f"home pose; say another home, or larger kp or effort, in {NAME}"
            )


# The gripper.


def _gripper(robot: Robot, actuated: list[str]) -> Gripper | None:
    """Gripper of the joints beyond the tip, if they bring two bodies nearer to each other."""
    model = robot.model
    if not actuated:
        return None
    carrying, _ = carrier(model, robot.tip or "")
    low, high = (_fingers_at(robot, actuated, share, carrying) for share in (0.0, 1.0))
    if (pair := _pair(low, high)) is None:
        return None
    left, right = pair
    apart = [_gap(ends, left, right) for ends in (low, high)]
    is_high = apart[1] > apart[0]
    ranges = {joint.name: (joint.low, joint.high) for joint in robot.joints}
    opened = tuple(ranges[name][int(is_high)] for name in actuated)
    closed = tuple(ranges[name][1 - int(is_high)] for name in actuated)
    if not np.isfinite([*opened, *closed]).all():
        return None
    shut, wide = (low, high) if is_high else (high, low)
    approach = _snapped(np.concatenate([shut[left], shut[right]]).mean(0))
    moved = [wide[body].mean(0) - shut[body].mean(0) for body in (left, right)]
    across = moved[0] - moved[1]
    across -= approach * (across @ approach)
    across = _snapped(across / np.linalg.norm(across))
    across = across - approach * (across @ approach)
    across /= np.linalg.norm(across)
    reach = min(float((shut[body] @ approach).max()) for body in (left, right))
    tips = [shut[body][shut[body] @ approach > (shut[body] @ approach).max() - TIPS].mean(0) for body in (left, right)]
    middle = np.mean(tips, axis=0)
    tcp = middle + approach * (reach - DEPTH - middle @ approach)
    axes = np.stack([np.cross(across, approach), across, approach], axis=1)
    names = (model.body(left).name, model.body(right).name)
    return Gripper(tuple(actuated), opened, closed, names, tcp, axes)


def _fingers_at(robot: Robot, actuated: list[str], share: float, carrying: int) -> dict[int, np.ndarray]:
    """Body -> (k, 3) m its corners in the carrying body's frame, with the gripper at a share of its range.

    Bodies are those without children, and the carrying one itself.
    """
    model, data = robot.model, mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    moving = {carrying}
    for joint in robot.joints:
        if joint.name in actuated and np.isfinite(joint.low):
            data.qpos[model.joint(joint.name).qposadr[0]] = joint.low + share * (joint.high - joint.low)
    follow(model, data.qpos)
    mujoco.mj_kinematics(model, data)
    frame = data.xmat[carrying].reshape(3, 3)
    parents = {int(parent) for parent in model.body_parentid}
    found = {}
    for body in range(model.nbody):
        above = int(model.body_parentid[body])
        if above in moving and body not in moving and above > 0:
            moving.add(body)
        if body not in moving or (body in parents and body != carrying):
            continue
        corners = [_corners(model, data, geom) for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) == body]
        points = np.concatenate(corners or [np.zeros((0, 3))])
        if len(points):
            found[body] = (points - data.xpos[carrying]) @ frame
    return found


def _pair(low: dict[int, np.ndarray], high: dict[int, np.ndarray]) -> tuple[int, int] | None:
    """The two bodies whose distance changes most: left and right."""
    moved = {body: high[body].mean(0) - low[body].mean(0) for body in low}
    pairs = [(a, b) for a in moved for b in moved if a < b]
    if not pairs:
        return None
    best = max(pairs, key=lambda pair: (round(float(np.linalg.norm(moved[pair[0]] - moved[pair[1]])), 4), pair))
    if np.linalg.norm(moved[best[0]] - moved[best[1]]) < 0.005:
        return None
    # The left one is the one that moves; of two, the first.
    return best if np.linalg.norm(moved[best[0]]) > 1e-6 else (best[1], best[0])


def _gap(ends: dict[int, np.ndarray], left: int, right: int) -> float:
    """m between the middles of two bodies."""
    return float(np.linalg.norm(ends[left].mean(0) - ends[right].mean(0)))


def _snapped(direction: np.ndarray) -> np.ndarray:
    """(3,) a unit vector along a direction, or the axis that it nearly is."""
    direction = direction / np.linalg.norm(direction)
    axis = int(np.abs(direction).argmax())
    return np.eye(3)[axis] * np.sign(direction[axis]) if abs(direction[axis]) > SNAP else direction


def _corners(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> np.ndarray:
    """(k, 3) m, world frame: a mesh's vertices, else the corners of a shape's box; none of a plane."""
    kind = int(model.geom_type[geom])
    if kind == int(mujoco.mjtGeom.mjGEOM_PLANE):
        return np.zeros((0, 3))
    if kind == int(mujoco.mjtGeom.mjGEOM_MESH):
        mesh = int(model.geom_dataid[geom])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        local = model.mesh_vert[first : first + count]
    else:
        signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
        local = model.geom_aabb[geom, :3] + signs * model.geom_aabb[geom, 3:]
    return data.geom_xpos[geom] + local @ data.geom_xmat[geom].reshape(3, 3).T
