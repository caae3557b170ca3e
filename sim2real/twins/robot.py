"""Any robot of joints, hung up by its base: from its model file, with as many of its hinges as the log has.

PACE's set-up (arXiv 2509.06342): limbs in the air, soft servos, chirps on all joints. Every joint has its friction,
damping, rotor inertia and encoder bias, every link that moves its mass, the whole robot one delay and one loss of
commands, and one time in which dry friction stops a joint. Joints of a user's robot share their parameters where they
have the same place in each limb and the same motor, the links that they carry their mass, if it is one in the file.
Joints that the log lacks, and slides, stand still at home. Servos are those of the tasks.

    command       drives the model: joint targets, rad, for servos of the gains in the model
    joint_pos     compared
    joint_vel     compared, where the log has it
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np

from embodied.errors import UnknownNameError, listing
from embodied.robot import Joint, Robot, standard_model
from embodied.robot import Kind as RobotKind
from embodied.robot.prepared.legged import legged_model
from embodied.robot.tree import is_below
from sim2real.contract.model_files import is_file
from sim2real.identification.parameters import COMMANDS, CalibrationError, Kind, Parameter, read, state_inertia
from sim2real.identification.simulate import Output
from sim2real.logs.log import Log
from sim2real.twins.joints import JointTwin, Torque, friction_time, prepared

TIMESTEP = 0.002  # s: half a training's step or less, so that the servo's stiff damping is well resolved
ENCODER = 1e-3  # rad, about a 14-bit encoder with its gear's play
SPEED = 0.05  # rad/s, what differences of such an encoder over some milliseconds come to
FRICTION = 0.02  # of a motor's torque: dry friction that is assumed where the file has none (Go1 has 0.01 to 0.03)
MOST_FRICTION = 0.3  # of it
DAMPING = 0.2  # of the servo's damping: viscous friction that is assumed (Go1's twin)
MOST_DAMPING = 1.0  # of it
DIGITS = 6  # behind the point, to which the numbers of one motor agree
ALIKE = 0.01  # by which masses may differ that count as one


@dataclasses.dataclass(frozen=True)
class Groups:
    """Which joints share their parameters."""

    together: tuple[str, ...] = ()
    """Patterns; the joints that one fits, and no earlier one, are a group. Empty: by their place and motor."""
    apart: bool = False
    """Every joint has its own."""


BY_PLACE = Groups()
"""By place in the limb and motor."""
APART = Groups(apart=True)


@dataclasses.dataclass(frozen=True)
class Group:
    """Joints that share their parameters."""

    name: str
    """A pattern that fits these joints alone, where there is one."""
    joints: tuple[str, ...]


def twin(name: str, log: Log, groups: Groups | None = None) -> JointTwin:
    """The twin of the joints in the log.

    Args:
        name: Name of a robot of ours, or a model file.
        log: What was recorded.
        groups: Which joints share their parameters. By default each of ours has its own and its feet carry a payload,
            and a user's share them by place.

    Raises:
        ModelError: the file cannot be read or is not understood.
        CalibrationError: the log has none of its hinges, or lacks one between the base and another.
        UnknownNameError: a pattern of `groups` fits no joint.
    """
    robot, ours = Robot.load(name), not is_file(name)
    spec = standard_model(robot)
    model = spec.compile()
    joints = _logged(robot, model, set(log["joint_pos"].names) & set(log["command"].names))
    state_inertia(spec, [body.name for body in spec.bodies])
    for joint in list(spec.joints):
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            spec.delete(joint)
        elif joint.name not in joints:
            _freeze(joint, float(model.key("home").qpos[model.joint(joint.name).qposadr[0]]))
    prepared(spec, joints, TIMESTEP, Torque.MOTOR)
    _leave_out(spec, robot.trunk, joints)
    if not ours:
        _order_servos(spec, joints)
    accuracies = {"joint_pos": ENCODER, "joint_vel": SPEED}
    outputs = tuple(Output(channel, joints, accuracy) for channel, accuracy in accuracies.items() if channel in log)
    mine = [joint for joint in robot.joints if joint.name in joints]
    of_groups = parameters(spec.compile(), mine, grouped(robot, mine, groups or (APART if ours else BY_PLACE)), joints)
    unknowns = (*of_groups, *(payloads(robot, joints) if ours else ()), *COMMANDS)
    return JointTwin(robot.file.stem, spec, joints, unknowns, outputs, TIMESTEP)


def _leave_out(spec: mujoco.MjSpec, trunk: str, joints: Sequence[str]) -> None:
    """Delete the limbs of a trunk that stand still with it."""
    moving = {spec.joint(name).parent.name for name in joints}
    for limb in [] if trunk in moving else list(spec.body(trunk).bodies):
        if not moving & {limb.name, *(body.name for body in limb.find_all(mujoco.mjtObj.mjOBJ_BODY))}:
            spec.delete(limb)


def payloads(robot: Robot, joints: Sequence[str]) -> Iterator[Parameter]:
    """Parameters of what the feet of a legged robot carry, of the legs that move."""
    if robot.kind is RobotKind.LEGGED:
        legged = legged_model(robot)
        for foot, name in enumerate(legged.feet):
            if legged.joint_names[legged.leg(foot)[-1]] in joints:
                yield Parameter(Kind.PAYLOAD, name, 0.0, 0.0, 0.5, 0.05, "kg")


def _logged(robot: Robot, model: mujoco.MjModel, names: set[str]) -> tuple[str, ...]:
    """The robot's hinges that the log has, in the model's order."""
    hinges = [joint.name for joint in robot.joints if not joint.slides]
    found = sorted((name for name in hinges if name in names), key=lambda name: int(model.joint(name).qposadr[0]))
    if not found:
        raise CalibrationError(
            f"the log has no joint of {robot.file.name}, which has {listing(hinges)}; it has {listing(sorted(names))}"
        )
    for name in found:
        above = [other for other in hinges if other != name and _carries(model, other, name)]
        if missing := [other for other in above if other not in found]:
            raise CalibrationError(
                f"the log has {name} of {robot.file.name}, but not {listing(missing)}, which move it"
            )
    return tuple(found)


def _carries(model: mujoco.MjModel, above: str, below: str) -> bool:
    """Whether a joint moves another one."""
    ancestor, body = int(model.joint(above).bodyid[0]), int(model.joint(below).bodyid[0])
    return is_below(model, body, ancestor) and model.joint(above).id < model.joint(below).id


def _freeze(joint: mujoco.MjsJoint, place: float) -> None:
    """Put a joint's body where the joint has it at `place` (rad or m): the joint may then be deleted."""
    body, axis = joint.parent, np.asarray(joint.axis, float)
    turn = np.array([1.0, 0.0, 0.0, 0.0])
    shift = np.zeros(3)
    if joint.type == mujoco.mjtJoint.mjJNT_SLIDE:
        shift = axis * (place - joint.ref)
    else:
        mujoco.mju_axisAngle2Quat(turn, axis / np.linalg.norm(axis), place - joint.ref)
        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, np.asarray(joint.pos, float), turn)
        shift = joint.pos - turned
    moved, quat = np.zeros(3), np.zeros(4)
    mujoco.mju_rotVecQuat(moved, shift, np.asarray(body.quat, float))
    mujoco.mju_mulQuat(quat, np.asarray(body.quat, float), turn)
    body.pos, body.quat = body.pos + moved, quat


def _order_servos(spec: mujoco.MjSpec, joints: Sequence[str]) -> None:
    """Put the servos into the order of the joints, in which a twin commands them; targets have no limits then."""
    kept = {servo.name: (servo.gainprm[0], -servo.biasprm[2], np.array(servo.forcerange)) for servo in spec.actuators}
    for servo in list(spec.actuators):
        spec.delete(servo)
    for joint in joints:
        kp, kv, force = kept[joint]
        servo = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=kp, kv=kv)
        servo.forcelimited, servo.forcerange = mujoco.mjtLimited.mjLIMITED_TRUE, force


def grouped(robot: Robot, joints: Sequence[Joint], groups: Groups) -> tuple[Group, ...]:
    """The groups of some of a robot's joints."""
    names = [joint.name for joint in joints]
    if groups.apart:
        return tuple(Group(name, (name,)) for name in names)
    found: dict[object, list[str]] = {}
    if groups.together:
        left = list(names)
        for pattern in groups.together:
            if not (fitting := fnmatch.filter(names, pattern)):
                raise UnknownNameError(f"joint of {robot.file.name}", pattern, names)
            found[pattern] = [name for name in fitting if name in left]
            left = [name for name in left if name not in fitting]
        found |= {name: [name] for name in left}
    else:
        for joint in joints:
            motor = round(joint.servo.effort, DIGITS), round(joint.servo.armature, DIGITS)
            found.setdefault((*_place(robot.model, joint.name, names), *motor), []).append(joint.name)
    return tuple(Group(_pattern(members, names), tuple(members)) for members in found.values() if members)


def _place(model: mujoco.MjModel, joint: str, names: Sequence[str]) -> tuple[int, int]:
    """Number of joints between the base and a joint, and number of joints that it moves."""
    others = [name for name in names if name != joint]
    return sum(_carries(model, o, joint) for o in others), sum(_carries(model, joint, o) for o in others)


def _pattern(members: Sequence[str], names: Sequence[str]) -> str:
    """A pattern that fits these names alone: their common end, else begin, else both; else the first name and a +."""
    if len(members) == 1:
        return members[0]
    begin, end = _common(members), _common([name[::-1] for name in members])[::-1]
    for pattern in (f"*{end}", f"{begin}*", f"{begin}*{end}"):
        if set(fnmatch.filter(names, pattern)) == set(members):
            return pattern
    return f"{members[0]}+{len(members) - 1}"


def _common(names: Sequence[str]) -> str:
    """Common prefix of all names."""
    alike = [len(set(letters)) == 1 for letters in zip(*names, strict=False)]
    return names[0][: (*alike, False).index(False)]


def parameters(
    model: mujoco.MjModel, joints: Sequence[Joint], groups: Sequence[Group], order: Sequence[str]
) -> Iterator[Parameter]:
    """Parameters of each group of joints and their links, then of each encoder, then the time that friction takes.

    Motor strength is assumed, since no motion separates it from all masses together. The servo's gains are settings of
    the robot's controller.
    """
    servos = {joint.name: joint.servo for joint in joints}
    for group in groups:
        servo, own = servos[group.joints[0]], group.joints
        several = own if len(own) > 1 else ()
        friction, damping, armature = (
            float(np.mean([read(model, kind, name) for name in own]))
            for kind in (Kind.FRICTION, Kind.DAMPING, Kind.ARMATURE)
        )
        believed = friction or FRICTION * servo.effort
        most = 4 * friction or MOST_FRICTION * servo.effort
        yield Parameter(Kind.FRICTION, group.name, friction, 0.0, most, believed, "N m", shared=several)
        scale = max(servo.kv, damping, FRICTION * servo.effort if not servo.kv else 0.0)
        most, believed = damping + MOST_DAMPING * scale, DAMPING * scale
        yield Parameter(Kind.DAMPING, group.name, damping, 0.0, most, believed, "N m s/rad", shared=several)
        least, most = armature / 10, 4 * armature
        yield Parameter(Kind.ARMATURE, group.name, armature, least, most, armature, "kg m^2", shared=several)
        yield from _masses(model, group)
        yield Parameter(Kind.STRENGTH, group.name, 1.0, 0.5, 1.5, 0.15, free=False, shared=several)
    for joint in order:
        yield Parameter(Kind.ENCODER_BIAS, joint, 0.0, -0.2, 0.2, 0.05, "rad")
    yield friction_time(model, order)


def _masses(model: mujoco.MjModel, group: Group) -> Iterator[Parameter]:
    """Masses of the links that the group's joints carry: one value if they are alike, else each its own."""
    bodies = [model.body(int(model.joint(joint).bodyid[0])).name for joint in group.joints]
    bodies = [body for body in bodies if body and read(model, Kind.MASS, body) > 0]
    masses = [read(model, Kind.MASS, body) for body in bodies]
    if len(bodies) > 1 and np.ptp(masses) <= ALIKE * max(masses):
        every = [model.body(body).name for body in range(1, model.nbody)]
        yield _mass(_pattern(bodies, every), float(np.mean(masses)), tuple(bodies))
    else:
        yield from (_mass(body, mass) for body, mass in zip(bodies, masses, strict=True))


def _mass(target: str, mass: float, shared: tuple[str, ...] = ()) -> Parameter:
    return Parameter(Kind.MASS, target, mass, mass / 2, 2 * mass, mass / 4, "kg", shared=shared)
