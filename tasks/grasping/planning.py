"""From what a depth camera sees of an object to grasps that the arm reaches: G-PAYN's planner.

Cloud -> superquadric -> ranked palm poses -> inverse kinematics -> those whose way there and up is free.
Source of the steps: Rosasco et al. 2023, arXiv:2306.03484.

    planner = Planner(hand, model)
    planned = planner.plan(cloud.points, camera.pos, qpos)
    best = planned.plans[0]       # or, if there is none, planned.reason says why
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np

from tasks.grasping.arm import inverse_kinematics
from tasks.grasping.grasps import Grasp, Grip, grasps
from tasks.grasping.hands import MOUNTED, Hand, pinch_of, poses
from tasks.grasping.objects.shapes import Points, matrix, quaternion
from tasks.grasping.pointclouds import Camera
from tasks.grasping.superquadric_fit import fit_superquadric
from tasks.grasping.superquadrics import Superquadric
from tasks.manipulation import panda

VIEW = Camera.looking_at((0.0, 0.55, 0.05), (0.45, 1.1, 0.55), width=320, height=240)
"""The depth camera: over the far right corner of the table, 80 cm from what stands there."""
BACK = 0.08  # m, from the grasp to the pre-grasp, along the approach (G-PAYN: 5 or 10 cm)
UP = (0.0, 0.0, 1.0)
MOST = 48  # grasps that are looked at
SMALL = 0.055  # m, height up to which a thing is better taken between the fingertips than with the whole hand
DOWN = 0.99  # cosine: approaches within 8 degrees of straight down
TIP = 0.014  # m, from a fingertip's pad to its end, and half its thickness: the thickest, LEAP's, rounded up
LIFT = 0.13  # m, by which a grasp must leave room to lift


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A grasp that the arm reaches."""

    shape: Superquadric
    """What the object was taken for; in the world."""
    grasp: Grasp
    """Where the palm goes; in the world."""
    joints: np.ndarray
    """(7,) rad, of the arm at the pre-grasp, `BACK` from it."""
    pinch: bool
    """Whether the hand takes it between its fingertips, its shape before that `poses(hand).pinch`; else all around."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """Plans, best first; or the reason why there is none."""

    plans: tuple[Plan, ...]
    reason: str = ""
    """In words; empty where there are plans."""
    shape: Superquadric | None = None
    """What the object was taken for, whether or not it can be grasped."""


class Planner:
    """Plans grasps for a hand on the arm, in one model."""

    def __init__(self, hand: Hand, model: mujoco.MjModel) -> None:
        """`model`: of `arm_scene(hand)` with objects in it."""
        self.hand, self.model = hand, model
        self._layout = hand.layout(model, MOUNTED)
        self._arm = np.array([model.joint(name).qposadr[0] for name in panda.ARM_JOINTS])
        root = model.body("link0").id
        self._robot = np.array([model.body_rootid[body] == root for body in range(model.nbody)])
        self._data = mujoco.MjData(model)

    def plan(
        self,
        points: Points,
        eye: Sequence[float],
        qpos: np.ndarray,
        limit: int = 1,
        graze: float = 0.0,
    ) -> Planned:
        """Grasps of one object on the table.

        Args:
            points: (n, 3) m, what the camera sees of the object, world frame.
            eye: (3,) m, where the camera is.
            qpos: (nq,) of the model: where everything stands; the robot's part does not matter.
            limit: Most plans to return, each of another grasp.
            graze: m, that the robot may be inside of something at the pre-grasp: its servos yield.

        Returns:
            The plans. None where the cloud is empty, planar or hidden in part so that nothing fits it; where the object
            is too large for the hand; where every grasp is out of the arm's reach or something is in its way.

        Raises:
            EmbodiedError: `points` is not (n, 3), or not finite.
        """
        fit = fit_superquadric(points, up=UP, table=0.0, eye=eye)
        if fit.shape is None:
            return Planned((), f"no shape: {fit.reason}")
        ranking = grasps(fit.shape, Grip(width=self.hand.width), table=0.0)
        if not ranking.grasps:
            return Planned((), ranking.reason, fit.shape)
        ranked = preferred(self.hand, fit.shape, ranking.grasps)
        reasons: list[str] = []
        ways = (
            self._first(fit.shape, grasp, pinch, starts, qpos, graze, reasons)
            for (pinch, grasp), starts in zip(ranked, self._pregrasps(ranked), strict=True)
        )
        plans = tuple(itertools.islice((way for way in ways if way is not None), limit))
        if plans:
            return Planned(plans, "", fit.shape)
        common = max(set(reasons), key=reasons.count)
        return Planned((), f"out of reach: {common}, for most of {len(ranked)} grasps", fit.shape)

    def clashes(self, joints: np.ndarray, qpos: np.ndarray, pinch: bool = False, graze: float = 0.0) -> bool:
        """Whether the robot with these joints (7,) rad is more than `graze` m inside of anything or itself."""
        return bool((self.touches(joints, qpos, pinch)[1] < -graze).any())

    def touches(self, joints: np.ndarray, qpos: np.ndarray, pinch: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """What the robot touches with these joints (7,) rad, its hand opened or in the shape before a pinch.

        Returns:
            The two bodies of each contact, (n, 2) ids, and its distance, (n,) m, negative inside.
        """
        data, shapes = self._data, poses(self.hand)
        data.qpos[:] = qpos
        data.qpos[self._arm] = joints
        data.qpos[self._layout.qpos] = (shapes.pinch if pinch else shapes.opened).joints
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_collision(self.model, data)
        bodies = self.model.geom_bodyid[data.contact.geom].reshape(-1, 2)
        ours = self._robot[bodies].any(axis=1)
        return bodies[ours], np.asarray(data.contact.dist)[ours]

    def _pregrasps(self, ranked: Sequence[tuple[bool, Grasp]]) -> Iterator[np.ndarray]:
        """Joints (k, 7) rad at each pre-grasp: one row for each start of the inverse kinematics that got there."""
        backed = [grasp.back(BACK) for _, grasp in ranked]
        # All at once, and always as many, so that the solver is compiled once.
        full = backed + [backed[-1]] * (MOST - len(backed))
        solved = inverse_kinematics(self.hand, np.array([pos for pos, _ in full]), np.array([quat for _, quat in full]))
        for number in range(len(ranked)):
            yield solved.joints[number, solved.reached[number]]

    def _first(
        self,
        shape: Superquadric,
        grasp: Grasp,
        pinch: bool,
        starts: np.ndarray,
        qpos: np.ndarray,
        graze: float,
        reasons: list[str],
    ) -> Plan | None:
        """The first of several ways to one grasp that the arm can go; else None, and `reasons` says why."""
        if not len(starts):
            reasons.append("the arm is too short")
        for joints in starts:
            if self.clashes(joints, qpos, pinch, graze):
                reasons.append("something is in the hand's way")
            elif not self._passable(grasp, joints):
                reasons.append("the arm cannot go on from the pre-grasp")
            else:
                return Plan(shape, grasp, joints, pinch)
        return None

    def _passable(self, grasp: Grasp, joints: np.ndarray) -> bool:
        """Whether the arm gets from a pre-grasp to the grasp, and above it, without a detour."""
        pos = np.array([grasp.pos, grasp.pos + np.array([0.0, 0.0, LIFT])])
        solved = inverse_kinematics(self.hand, pos, np.array([grasp.quat] * 2), joints[None])
        return bool(solved.reached.all())


def preferred(hand: Hand, shape: Superquadric, ranked: Sequence[Grasp]) -> list[tuple[bool, Grasp]]:
    """Whether it is a pinch, and the grasp, at most `MOST`; pinches first of what is low, else last."""
    low = shape.surface(200)[:, 2].max() < SMALL
    pinches = [found for grasp in ranked if (found := pinched(hand, shape, grasp)) is not None]
    others = [(False, grasp) for grasp in ranked]
    both = [(True, grasp) for grasp in pinches] + others if low else others + [(True, grasp) for grasp in pinches]
    return both[:MOST]


def pinched(hand: Hand, shape: Superquadric, grasp: Grasp) -> Grasp | None:
    """The same grasp with the fingertips, from farther away; None but for what is thin and taken from above."""
    pinch = pinch_of(hand)
    if grasp.approach[2] > -DOWN or grasp.width > pinch.opening - 2 * TIP:
        return None
    turn = matrix(grasp.quat) @ matrix((np.cos(pinch.turn / 2), 0.0, 0.0, -np.sin(pinch.turn / 2)))
    centre = np.array([*grasp.contacts.mean(0)[:2], max(shape.pos[2], TIP)])
    x, y, z = (float(value) for value in centre - turn @ pinch.middle)
    w, i, j, k = (float(value) for value in quaternion(turn))
    return dataclasses.replace(grasp, pos=(x, y, z), quat=(w, i, j, k))
