"""The Panda with a hand before a cluttered table, moved by its servos: plan, grasp, hold up, put aside.

World frame of `tasks.grasping.hands.arm`: x right, y away from the robot, z up, table top z = 0. The clutter is around
`CENTRE`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import jax
import mujoco
import numpy as np

from embodied.core.scenes import compile_spec
from tasks.grasping.clutter.scenes import ClutterScene
from tasks.grasping.hands.arm import arm_scene, follow, inverse_kinematics
from tasks.grasping.hands.hand import MOUNTED, Hand, poses
from tasks.grasping.lift.lift import HELD, RAISED
from tasks.grasping.objects.model import add_object
from tasks.grasping.objects.pointclouds import Camera, PlacedObject
from tasks.grasping.objects.shapes import vector
from tasks.grasping.planner import grasp_trajectory
from tasks.grasping.planner.grasp_trajectory import LIFT, GraspType
from tasks.grasping.planner.planner import Plan, Planner, PlanningResult
from tasks.manipulation.common import panda

CENTRE = np.array([0.0, 0.55, 0.0])  # m, the middle of the clutter in the arm's world: within reach on all sides
CONTROL_HZ = 20  # of the lifting task's script
STEP = 0.01  # m, that the palm's target moves in a control step: 20 cm/s
BEND = 0.1  # rad, that a finger servo's target moves in a control step
# rad, the arm's base when it is swung aside, out of the camera's view, and over the place for what is removed
SWING = 1.25
OVER = (0.20, 0.12, 0.06, 0.0)  # m, above a pre-grasp, by which the hand comes from: the highest that it reaches
PACE = 0.5  # of the joints' greatest speeds, when nothing is in the way
CARRY = 0.15  # m, by which what is held is raised further before it is swung aside
CALM = 0.5  # s, that objects get to come to rest before a look
DEEP = 0.004  # m, inside which another object counts as in the hand's way
OFF = 0.25  # m to the left or right, beyond which an object is out of the clutter
ASIDE = 2.0  # m to the right: where what was removed is kept
STEEP = -0.7  # vertical part of an approach from above
GRAZE = 0.005  # m, that fingers may be inside of something before a grasp: their servos yield
WIDER = 2.0  # times the scene's picture, with as many pixels more
PLANS = 24  # different grasps among which the one with most room is looked for


class Cell:
    """One scene with the arm; `grasp` and `put_aside` change it."""

    def __init__(self, hand: Hand, scene: ClutterScene) -> None:
        self.hand, self.scene = hand, scene
        self.model = compile_spec(self._spec())
        self.data = mujoco.MjData(self.model)
        self.planner = Planner(hand, self.model, fingertips=True)
        self.substeps = round(1 / CONTROL_HZ / self.model.opt.timestep)
        self._layout = hand.layout(self.model, MOUNTED)
        self._arm = np.array([self.model.joint(name).qposadr[0] for name in panda.ARM_JOINTS])
        self._motors = np.array([self.model.actuator(name).id for name in panda.ARM_JOINTS])
        self._address = {name: int(self.model.joint(name).qposadr[0]) for name in scene.names}
        self._aside: list[str] = []
        self._objects = {int(self.model.body(name).id) for name in scene.names}
        self._joints = np.array(panda.HOME)
        self._joints[0] = SWING
        self._fingers = poses(hand).opened.targets.copy()
        self.data.qpos[self._arm] = self._joints
        self.data.qpos[self._layout.qpos] = poses(hand).opened.joints
        self._command()
        mujoco.mj_forward(self.model, self.data)

    @property
    def target(self) -> str:
        return self.scene.target

    @property
    def time(self) -> float:
        return float(self.data.time)

    @property
    def camera(self) -> Camera:
        """The scene's, in the arm's world, with a wider lens: what was pushed or rolled away stays in its view."""
        view = self.scene.camera
        fovy = math.degrees(2 * math.atan(WIDER * math.tan(math.radians(view.fovy) / 2)))
        size = {"width": round(WIDER * view.width), "height": round(WIDER * view.height)}
        return dataclasses.replace(view, pos=vector(np.array(view.pos) + CENTRE), fovy=fovy, **size)

    def objects(self) -> dict[str, PlacedObject]:
        """Objects on the table, in the arm's world."""
        found = {}
        for name, entry in zip(self.scene.names, self.scene.objects, strict=True):
            if name not in self._aside:
                x, y, z, w, i, j, k = (float(value) for value in self._pose(name))
                found[name] = PlacedObject(entry.item, (x, y, z), (w, i, j, k))
        return found

    def plan(self, points: np.ndarray, name: str, limit: int = PLANS) -> PlanningResult:
        """Different grasps of an object from points (n, 3) m on it, those first that touch fewest other objects."""
        planned = self.planner.plan(points, self.camera.pos, self.data.qpos, limit, GRAZE)
        # The sort is stable: of equals the better grasp stays first.
        ordered = sorted(planned.plans, key=lambda plan: self.crowd(plan, name))
        return dataclasses.replace(planned, plans=varied(ordered))

    def park(self) -> None:
        """Open the hand, raise it, swing it aside, and wait until objects rest."""
        shapes = poses(self.hand)
        self._move_fingers(shapes.opened.targets)
        self._raise(CARRY)
        self._move_joints(self._swung())
        self._hold(CALM)

    def grasp(self, name: str, plan: Plan) -> bool:
        """Carry out a plan; whether the object is then held up, as the lifting task defines it: 10 cm for 1 s."""
        over = self._over(plan)
        self._move_fingers(plan.trajectory.preshape.targets)
        swung = over.copy()
        swung[0] = self._joints[0]
        self._move_joints(swung)
        self._move_joints(over)
        palm = np.concatenate([plan.grasp.pos, plan.grasp.quat])
        before, _ = plan.grasp.back(grasp_trajectory.BACK)
        self._move_palm(before, plan)
        start = self._pose(name)[2]
        aim = _aim()
        steps = (
            grasp_trajectory.APPROACHING
            + grasp_trajectory.SETTLING
            + grasp_trajectory.CLOSING
            + round(LIFT / grasp_trajectory.RISE)
        )
        held, pos, firm = 0, before, False
        for step in range(steps + round((HELD + 1.0) * CONTROL_HZ)):
            wanted, closure = (np.asarray(value) for value in aim(palm, step))
            targets = plan.trajectory.targets(float(closure))
            pos = pos + np.clip(wanted - pos, -STEP, STEP)
            if not (plan.pinch and firm):
                self._fingers += np.clip(targets - self._fingers, -BEND, BEND)
            self._follow(pos, plan)
            firm = firm or self._firm()
            held = held + 1 if self._pose(name)[2] - start > RAISED else 0
            if held >= HELD * CONTROL_HZ:
                return True
        return False

    def _firm(self) -> bool:
        """Whether something is held between the thumb and a finger."""
        tips = [self.data.sensor(f"{MOUNTED}{finger}_touch").data[0] for finger in self.hand.fingers]
        return tips[-1] > grasp_trajectory.FIRM and max(tips[:-1]) > grasp_trajectory.FIRM

    def put_aside(self, name: str) -> bool:
        """Swing what is held over the place aside and let go; False where it is lost on the way."""
        self._raise(CARRY)
        self._move_joints(self._swung(), pace=0.5 * PACE)
        if self._pose(name)[2] < RAISED / 2 or abs(self._pose(name)[0]) < OFF:
            return False
        self._move_fingers(poses(self.hand).opened.targets)
        self._hold(CALM)
        address, velocity = self._address[name], int(self.model.joint(name).dofadr[0])
        self._aside.append(name)
        low = float(self.model.geom_rbound[self.model.geom_bodyid == self.model.body(name).id].max())
        self.data.qpos[address : address + 7] = [ASIDE + 0.5 * len(self._aside), 0, low + 0.2, 1, 0, 0, 0]
        self.data.qvel[velocity : velocity + 6] = 0
        return True

    def _spec(self) -> mujoco.MjSpec:
        spec = arm_scene(self.hand)
        for name, entry in zip(self.scene.names, self.scene.objects, strict=True):
            body = add_object(spec, entry.item, name)
            body.pos, body.quat = np.array(entry.pos) + CENTRE, entry.quat
        return spec

    def _pose(self, name: str) -> np.ndarray:
        """(7,) m, wxyz."""
        address = self._address[name]
        return self.data.qpos[address : address + 7]

    def _over(self, plan: Plan) -> np.ndarray:
        """(7,) rad, the hand as high above the pre-grasp as it reaches."""
        before, quat = plan.grasp.back(grasp_trajectory.BACK)
        places = np.array([before + np.array([0, 0, up]) for up in OVER])
        solved = inverse_kinematics(self.hand, places, np.array([quat] * len(OVER)), plan.joints[None])
        first = int(np.argmax(solved.reached[:, 0]))
        return solved.joints[first, 0] if solved.reached[first, 0] else plan.joints

    def crowd(self, plan: Plan, name: str) -> int:
        """Other objects that the opened hand would be inside of, at the grasp and on the way."""
        places = np.array([plan.grasp.pos - back * plan.grasp.approach for back in (0.0, 0.04)])
        solved = inverse_kinematics(self.hand, places, np.array([plan.grasp.quat] * 2), plan.joints[None])
        found: set[int] = set()
        for joints in solved.joints[:, 0]:
            found |= self._inside(joints, plan.trajectory.preshape.joints)
        # Tips that would stand on the object itself do not fit beside it.
        spared = set() if plan.trajectory.type is GraspType.FINGERTIPS else {self.model.body(name).id}
        return len(found - spared)

    def _inside(self, joints: np.ndarray, fingers: np.ndarray) -> set[int]:
        """Bodies of objects that the robot with these joints (7,) and fingers (n,) rad would be inside of."""
        bodies, distance = self.planner.touches(joints, self.data.qpos, fingers)
        return set(bodies[distance < -DEEP].ravel().tolist()) & self._objects

    def _swung(self) -> np.ndarray:
        """(7,) rad, the arm turned on its base until the hand is aside: to the left or right, whichever is nearer."""
        x, y, _ = self.data.site(MOUNTED + "palm").xpos - panda.BASE_POS
        ahead = float(np.arctan2(-x, y))
        low, high = panda.JOINT_LIMITS[0] * 0.97
        turns = [side * SWING - ahead for side in (1, -1) if low < self._joints[0] + side * SWING - ahead < high]
        joints = self._joints.copy()
        joints[0] += min(turns, key=abs, default=0.0)
        return joints

    def _raise(self, height: float) -> None:
        """Move the palm straight up, as far as the arm reaches."""
        site = self.data.site(MOUNTED + "palm")
        pos, quat = site.xpos.copy(), np.zeros(4)
        mujoco.mju_mat2Quat(quat, site.xmat)
        rest = self._joints.copy()
        for step in range(round(height / STEP)):
            target = pos + np.array([0.0, 0.0, (step + 1) * STEP])
            self._joints = np.asarray(_follow(self.hand)(self._joints, target, quat, rest))
            self._advance()

    def _move_palm(self, pos: np.ndarray, plan: Plan) -> None:
        """Move the palm in a straight line to a place, in the plan's attitude."""
        start = self.data.site(MOUNTED + "palm").xpos.copy()
        steps = max(1, round(float(np.linalg.norm(pos - start)) / STEP))
        for step in range(steps):
            self._follow(start + (pos - start) * (step + 1) / steps, plan)
        for _ in range(3):
            self._follow(pos, plan)

    def _follow(self, pos: np.ndarray, plan: Plan) -> None:
        self._joints = np.asarray(_follow(self.hand)(self._joints, pos, np.array(plan.grasp.quat), plan.joints))
        self._advance()

    def _move_joints(self, joints: np.ndarray, pace: float = PACE) -> None:
        """Move all joints (7,) rad together, slowly at both ends."""
        start = self._joints.copy()
        seconds = float((np.abs(joints - start) / (pace * panda.SPEED_LIMITS)).max()) * np.pi / 2
        steps = max(1, round(seconds * CONTROL_HZ))
        for step in range(steps):
            share = (1 - np.cos(np.pi * (step + 1) / steps)) / 2
            self._joints = start + share * (joints - start)
            self._advance()

    def _move_fingers(self, targets: np.ndarray) -> None:
        while np.abs(targets - self._fingers).max() > 1e-6:
            self._fingers = self._fingers + np.clip(targets - self._fingers, -2 * BEND, 2 * BEND)
            self._advance()

    def _hold(self, seconds: float) -> None:
        for _ in range(round(seconds * CONTROL_HZ)):
            self._advance()

    def _command(self) -> None:
        self.data.ctrl[self._motors] = self._joints
        self.data.ctrl[self._layout.actuators] = self._fingers

    def _advance(self) -> None:
        self._command()
        mujoco.mj_step(self.model, self.data, nstep=self.substeps)


def varied(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The same plans, those of different kinds in turn: where one fails, its like will, too.

    Kinds: between the fingertips; all around, from above; all around, from the side.
    """
    kinds: dict[tuple[GraspType, bool], list[Plan]] = {}
    for plan in plans:
        kinds.setdefault((plan.trajectory.type, plan.grasp.approach[2] < STEEP), []).append(plan)
    rounds = itertools.zip_longest(*kinds.values())
    return tuple(plan for turn in rounds for plan in turn if plan is not None)


@functools.cache
def _follow(hand: Hand) -> Callable[..., jax.Array]:
    return jax.jit(lambda joints, pos, quat, rest: follow(hand, joints, pos, quat, rest, 1 / CONTROL_HZ))


@functools.cache
def _aim() -> Callable[..., tuple[jax.Array, jax.Array]]:
    return jax.jit(grasp_trajectory.palm_path)
