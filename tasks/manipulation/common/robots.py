"""The robots that do the table tasks: the Panda with a slim gripper, and any arm with a two-finger gripper."""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.scenes import compose_text, path_of
from embodied.errors import ModelError
from embodied.robot.prepared.arm import ArmModel, arm_of
from embodied.robot.prepared.gripper import Gripper
from embodied.robot.standard import GRASPING
from tasks.manipulation.common import panda
from tasks.manipulation.common.arm import Arm
from tasks.manipulation.common.objects import looks

PANDA = "panda"  # the default robot
HEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4)  # m of the base above the table's top, that are tried
DISTANCES = np.arange(0.35, 1.0, 0.1)  # m from the base's axis to the table's middle, likewise
MIDDLE = np.array([0.0, 0.6, 0.2])  # m, the table's middle: where the hand rests
NEAREST = 0.25  # m, y of the base's axis: the table begins there
STEPS = 200  # of inverse kinematics, each at most
SERVED = 0.9  # of the largest acceleration, for targets: the Panda's joints overshoot by as much as 8 %
STRIDE = 0.1  # rad, or tenths of a metre
MISSED = 0.03  # m and, times `panda.TURN_WEIGHT`, rad that a point may be out of reach, as some are out of the Panda's
AWAY = 0.02  # m: how much a radian between a point's joints and the rest pose counts, where all points are in reach

SLIM_GRIPPER = "robots/panda/slim_gripper.xml"
REACH = 0.1834  # m from the flange to the tcp; slim_gripper.xml
CLOSED, OPENED = 0.009, 0.044  # m, each finger; slim_gripper.xml
RAISED = np.array([0.0, 0.0, REACH - panda.FINGERTIP])  # m, the base: so the joints move as with Franka's hand
CLAWS, SPREAD = 0.011, 0.1  # m: what Meta-World shows is the gap and its claws' 11 mm, in tenths of a metre
PLINTH: dict[str, Any] = {
    "type": mujoco.mjtGeom.mjGEOM_BOX,
    "size": [0.1, 0.1, RAISED[2] / 2],
    "pos": panda.BASE_POS - [0.0, 0.025, 0.0] + RAISED / 2,
    "material": "frame",
}
"""Between the pedestal of `scenes/table.xml` and the base."""


@dataclasses.dataclass(frozen=True, eq=False)
class TableRobot(abc.ABC):
    """A robot in its place at a table: n joints lead its hand, which points down; its fingers open along y."""

    model: ArmModel
    pos: np.ndarray
    """(3,) m, where the base stands."""
    quat: np.ndarray
    """(4,) wxyz, how it is turned."""

    @property
    def gripper(self) -> Gripper:
        assert self.model.gripper is not None
        return self.model.gripper

    def compose(self, scene: str) -> mujoco.MjSpec:
        """The robot in its place in a scene."""
        spec = compose_text(scene, self.model.xml)
        for key in spec.keys:  # they lack the things on the table
            spec.delete(key)
        root = spec.body(self.model.source.trunk)
        root.pos, root.quat = self.pos, self.quat
        return spec

    def eased(self, joints: Array, speeds: Array, wanted: Array) -> tuple[Array, Array]:
        """Next joint targets on the way to `wanted` whose speeds change no faster than its accelerations allow.

        All joints' speeds go the same share of the way to the wanted ones, so that the hand's does, too. At the end of
        its range a joint stops at once.

        Args:
            joints: (n,) rad, the last targets.
            speeds: (n,) rad/s, how fast they moved.
            wanted: (n,) rad, a step further, as of `follow`: a place further away would be passed.

        Returns:
            The next targets (n,) rad and how fast they move, (n,) rad/s.
        """
        dt, limits = panda.CONTROL_DT, self.model.limits
        change, most = (wanted - joints) / dt - speeds, SERVED * self.model.accelerations * dt
        speed = speeds + change * jnp.min(most / jnp.maximum(jnp.abs(change), most))
        reached = jnp.clip(joints + speed * dt, limits[:, 0], limits[:, 1])
        return reached, (reached - joints) / dt

    @abc.abstractmethod
    def start(self, joints: tuple[float, ...]) -> np.ndarray:
        """(n,) rad: the hand where the Panda's is with these joints (7,)."""

    @abc.abstractmethod
    def tcp(self, joints: Array) -> Array:
        """(3,) m, world: the middle between the fingertips."""

    @abc.abstractmethod
    def follow(self, joints: Array, target: Array) -> Array:
        """Next joint targets (n,) on the way to a point (3,) m, world."""

    @abc.abstractmethod
    def opening(self, fingers: Array) -> Array:
        """(1,) of the gripper, 1 open, from its joints."""

    @abc.abstractmethod
    def controls(self, command: Array) -> Array:
        """(nu,) actuator inputs from joint targets (n,) and the gripper's effort (1,)."""


class SlimPanda(TableRobot):
    """The Panda with a slim gripper on an extension; its base stands as much higher than `panda.BASE_POS`."""

    def compose(self, scene: str) -> mujoco.MjSpec:
        spec = super().compose(scene)
        looks(spec.worldbody, **PLINTH)
        return spec

    def start(self, joints: tuple[float, ...]) -> np.ndarray:
        return np.asarray(joints)

    def tcp(self, joints: Array) -> Array:
        return panda.tcp_pose(joints, REACH)[0] + RAISED

    def follow(self, joints: Array, target: Array) -> Array:
        return panda.follow(joints, target - RAISED, fingertip=REACH)

    def opening(self, fingers: Array) -> Array:
        gap = 2 * jnp.mean(fingers, keepdims=True)
        return jnp.clip((gap + CLAWS) / SPREAD, 0.0, 1.0)

    def controls(self, command: Array) -> Array:
        return command


@functools.cache
def slim_panda() -> SlimPanda:
    gripper = Gripper(
        joints=panda.FINGER_JOINTS,
        open=(OPENED, OPENED),
        closed=(CLOSED, CLOSED),
        sides=("left_finger", "right_finger"),
        tcp=np.array([0.0, 0.0, REACH]),
        axes=np.eye(3),
    )
    model = ArmModel(panda.ROBOT, slim_xml(), panda.JOINTS, gripper)
    return SlimPanda(model, panda.BASE_POS + RAISED, panda.BASE_QUAT)


def slim_xml() -> str:
    """MJCF of the Panda with the slim gripper in place of its hand."""
    arm, tool = (ElementTree.parse(path_of(file)).getroot() for file in (panda.ASSET, SLIM_GRIPPER))
    flange = next(body for body in arm.iter("body") if body.get("name") == "link7")
    hand = tool.find("worldbody/body")
    assert hand is not None
    replaced = {element.get("name") for element in tool.iter() if element.get("name")}
    for parent in [flange, *(arm.find(section) for section in ("tendon", "equality", "actuator", "sensor"))]:
        assert parent is not None
        for child in [child for child in parent if child.get("name") in replaced]:
            parent.remove(child)
    flange.append(hand)
    for section in ("default", "asset", "tendon", "equality", "actuator", "sensor"):
        into, added = arm.find(section), tool.find(section)
        assert into is not None
        assert added is not None
        into.extend(added)
    return ElementTree.tostring(arm, encoding="unicode")


@dataclasses.dataclass(frozen=True, eq=False)
class PlacedArm(TableRobot):
    """An arm of a file where it reaches the task's points; its gripper's effort is a position."""

    arm: Arm
    """The arm in its place."""
    rest: np.ndarray
    """(n,) rad or m: the hand over the table's middle."""
    down: np.ndarray
    """(3, 3) world from hand: it points down and opens along y."""

    def start(self, joints: tuple[float, ...]) -> np.ndarray:
        with jax.ensure_compile_time_eval():
            point = panda.tcp_pose(jnp.asarray(joints, jnp.float32))[0]
            found = jax.jit(functools.partial(solve, self.arm, self.model.limits, self.rest))(self.down, point[None])
            return np.asarray(found[0][0])

    def tcp(self, joints: Array) -> Array:
        return self.arm.tip_w(joints)[0]

    def follow(self, joints: Array, target: Array) -> Array:
        step = self.model.speeds * panda.CONTROL_DT
        return self.arm.follow(joints, target, self.down, self.rest, step, self.model.limits)

    def opening(self, fingers: Array) -> Array:
        opened, closed = np.array(self.gripper.open), np.array(self.gripper.closed)
        return jnp.clip(jnp.mean((fingers - closed) / (opened - closed), keepdims=True), 0.0, 1.0)

    def controls(self, command: Array) -> Array:
        n = len(self.model.joints)
        share = (1.0 - command[n:]) / 2
        opened, closed = np.array(self.gripper.open), np.array(self.gripper.closed)
        targets = jnp.concatenate([command[:n], closed + share * (opened - closed)])
        return targets[self._places]

    @functools.cached_property
    def _places(self) -> np.ndarray:
        """(nu,) which of the arm's and then the gripper's joints each actuator drives."""
        model = mujoco.MjModel.from_xml_string(self.model.xml)
        names = (*self.model.joint_names, *self.gripper.joints)
        return np.array([names.index(model.actuator(index).name) for index in range(model.nu)])


def table_robot(robot: str, points: np.ndarray) -> TableRobot:
    """A robot of a name or file, "" for the Panda, placed so that its hand reaches points (k, 3) m.

    Raises:
        ModelError: the file cannot be read or is not understood, is no arm of six joints or more with a gripper, or the
            arm is too short.
    """
    return placed(arm_of(robot), tuple(map(tuple, np.round(points, 4).tolist()))) if robot else slim_panda()


@functools.lru_cache(maxsize=16)
def placed(model: ArmModel, points: tuple[tuple[float, ...], ...]) -> PlacedArm:
    """An arm where it reaches best, of a search over heights and distances of its base."""
    file, limits, home = model.source.file, model.limits, model.home
    if model.gripper is None:
        raise ModelError(f"{file} has no two-finger gripper, which the tasks at a table need; track-pose needs none")
    if len(model.joints) < GRASPING:
        raise ModelError(
            f"{file} has {len(model.joints)} joints before its gripper; tasks at a table need {GRASPING}, to reach "
            "and to keep the hand pointing down; track-pose needs none"
        )
    arm = Arm.of(model)
    with jax.ensure_compile_time_eval():
        tip, _ = arm.tip_w(jnp.asarray(home, jnp.float32))
        away = np.asarray(tip)[:2]
        yaw = _right_angle(np.pi / 2 - float(np.arctan2(away[1], away[0])))
        bases = np.array([(0.0, MIDDLE[1] - far, high) for far in DISTANCES for high in HEIGHTS])
        bases = bases[bases[:, 1] <= NEAREST]
        wanted = np.concatenate([MIDDLE[None], np.array(points)])
        # The base stays; the points move, so that one program serves all places.
        moved = jnp.asarray((wanted[None] - bases[:, None]).reshape(-1, 3), jnp.float32)
        tried = []
        turned = jax.jit(functools.partial(solve, arm.placed(np.zeros(3), about_z(yaw)), limits, home))
        for down in (panda.HAND_DOWN, panda.HAND_DOWN * [-1.0, -1.0, 1.0]):  # either finger on the left
            found, missed = (np.asarray(part).reshape(len(bases), len(wanted), -1) for part in turned(down, moved))
            worst = missed.max((1, 2))
            cost = np.where(worst < MISSED, AWAY * np.abs(found - found[:, :1]).mean((1, 2)), 1.0) + worst
            place = int(np.argmin(cost))
            tried.append((cost[place], worst[place], bases[place], found[place, 0], down))
    _, worst, base, rest, down = min(tried, key=lambda place: place[0])
    if worst >= MISSED:
        far = float(np.linalg.norm(wanted - base, axis=1).max())
        raise ModelError(
            f"{file}: the arm is too short, or cannot point its hand down: from the best place beside the table, "
            f"points up to {far:.2f} m from its base are {worst:.2f} m out of its reach"
        )
    root = mujoco.MjSpec.from_string(model.xml).body(model.source.trunk)
    quat = np.zeros(4)
    mujoco.mju_mulQuat(quat, np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]), root.quat)
    pos, arm = base + about_z(yaw) @ root.pos, arm.placed(base, about_z(yaw))
    return PlacedArm(model, pos, quat, arm, rest, down)


def solve(arm: Arm, limits: np.ndarray, rest: np.ndarray, down: Array, points: Array) -> tuple[Array, Array]:
    """Joints (k, n) with the hand down at points (k, 3) m, and by how much (k,) m each misses its point and turn."""
    step = np.where(arm.slides, 0.1 * STRIDE, STRIDE)[np.argsort(arm.order)]

    def one(point: Array) -> tuple[Array, Array]:
        def move(joints: Array, _: None) -> tuple[Array, None]:
            return arm.follow(joints, point, down, rest, step, limits), None

        joints, _ = jax.lax.scan(move, jnp.asarray(rest, jnp.float32), None, STEPS)
        pos, rot = arm.tip_w(joints)
        turn = jnp.sqrt(jnp.sum((rot - jnp.asarray(down)) ** 2) / 2)
        return joints, jnp.sqrt(jnp.sum((pos - point) ** 2)) + panda.TURN_WEIGHT * turn

    return jax.vmap(one)(points)


def about_z(angle: float) -> np.ndarray:
    """(3, 3) a turn by rad."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _right_angle(angle: float) -> float:
    """rad: the nearest quarter turn, if it is within a sixth of one."""
    quarter = np.pi / 2 * round(angle / (np.pi / 2))
    return quarter if abs(angle - quarter) < np.pi / 12 else angle
