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

from tasks.grasping.hands.arm import inverse_kinematics
from tasks.grasping.hands.hand import MOUNTED, Hand, pinch_of
from tasks.grasping.objects.pointclouds import Camera
from tasks.grasping.objects.shapes import Points, matrix, quaternion, vector
from tasks.grasping.planner.fingertips import TIP, fingertips_of
from tasks.grasping.planner.force_closure import Grasp, Grip, grasps
from tasks.grasping.planner.grasp_trajectory import (
    BACK,
    LIFT,
    ROOM,
    GraspTrajectory,
    GraspType,
    fingertips,
    pinch,
    wrap,
)
from tasks.grasping.planner.superquadric_fit import fit_superquadric
from tasks.grasping.planner.superquadrics import Superquadric
from tasks.manipulation.common import panda

VIEW = Camera.looking_at((0.0, 0.55, 0.05), (0.45, 1.1, 0.55), width=320, height=240)
"""The depth camera: over the far right corner of the table, 80 cm from what stands there."""
UP = (0.0, 0.0, 1.0)
MOST = 48  # grasps that are looked at
SMALL = 0.055  # m, height up to which a thing is better taken between the fingertips than with the whole hand
TALL = 0.10  # m, the same where all fingertips take it from above: they reach its middle
DOWN = 0.99  # cosine: approaches within 8 degrees of straight down
ROUNDS = 10  # of two-means


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A grasp that the arm reaches."""

    shape: Superquadric
    """Superquadric of the object; in the world."""
    grasp: Grasp
    """Palm pose and contacts; in the world."""
    joints: np.ndarray
    """(7,) rad, of the arm at the pre-grasp, `BACK` from it."""
    trajectory: GraspTrajectory
    """Closing of the fingers; the hand comes in its preshape."""

    @property
    def pinch(self) -> bool:
        """Whether two fingers and the thumb pinch it."""
        return self.trajectory.type is GraspType.PINCH


@dataclasses.dataclass(frozen=True)
class PlanningResult:
    """Plans, best first; or the reason why there is none."""

    plans: tuple[Plan, ...]
    reason: str = ""
    """In words; empty where there are plans."""
    shape: Superquadric | None = None
    """Superquadric of the object, whether or not it can be grasped."""


class Planner:
    """Plans grasps for a hand on the arm, in one model."""

    def __init__(self, hand: Hand, model: mujoco.MjModel, fingertips: bool = False) -> None:
        """`model`: of `arm_scene(hand)` with objects in it; `fingertips`: also take things between all of them."""
        self.hand, self.model, self.fingertips = hand, model, fingertips
        self._layout = hand.layout(model, MOUNTED)
        self._arm = np.array([model.joint(name).qposadr[0] for name in panda.ARM_JOINTS])
        root = model.body("link0").id
        self._robot = np.array([model.body_rootid[body] == root for body in range(model.nbody)])
        self._data = mujoco.MjData(model)

    def plan(
        self, points: Points, eye: Sequence[float], qpos: np.ndarray, limit: int = 1, graze: float = 0.0
    ) -> PlanningResult:
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
            return PlanningResult((), f"no shape: {fit.reason}")
        found = self._ways(fit.shape, qpos, limit, graze)
        if found.plans or not self.fingertips:
            return found
        # One convex shape hides the handle of a drill: parts of what is seen may have grasps.
        for part in parts(points):
            shape = fit_superquadric(part, up=UP, table=0.0, eye=eye).shape
            ways = self._ways(shape, qpos, limit, graze).plans if shape is not None else ()
            beside = tuple(way for way in ways if not self._stands_on(way, qpos, graze))
            if beside:
                found = PlanningResult((*found.plans, *beside)[:limit], "", found.shape)
        return found

    def _ways(self, shape: Superquadric, qpos: np.ndarray, limit: int, graze: float) -> PlanningResult:
        """Plans for one shape."""
        ranking = grasps(shape, Grip(width=self.hand.width), table=0.0)
        ranked = preferred(self.hand, shape, ranking.grasps)
        if self.fingertips:
            ranked = joined(shape, ranked, fingertip_grasps(self.hand, shape), TALL)
        if not ranked:
            return PlanningResult((), ranking.reason, shape)
        reasons: list[str] = []
        ways = (
            self._first(shape, grasp, trajectory, starts, qpos, graze, reasons)
            for (trajectory, grasp), starts in zip(ranked, self._pregrasps(ranked), strict=True)
        )
        plans = tuple(itertools.islice((way for way in ways if way is not None), limit))
        if plans:
            return PlanningResult(plans, "", shape)
        common = max(set(reasons), key=reasons.count)
        return PlanningResult((), f"out of reach: {common}, for most of {len(ranked)} grasps", shape)

    def clashes(self, joints: np.ndarray, qpos: np.ndarray, fingers: np.ndarray, graze: float = 0.0) -> bool:
        """Whether the robot with these joints (7,) and fingers (n,) rad is more than `graze` m inside of anything."""
        return bool((self.touches(joints, qpos, fingers)[1] < -graze).any())

    def touches(self, joints: np.ndarray, qpos: np.ndarray, fingers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contacts of the robot with these joints (7,) rad of the arm and fingers (n,) rad, itself included.

        Returns:
            The two bodies of each contact, (n, 2) ids, and its distance, (n,) m, negative inside.
        """
        data = self._data
        data.qpos[:] = qpos
        data.qpos[self._arm] = joints
        data.qpos[self._layout.qpos] = fingers
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_collision(self.model, data)
        bodies = self.model.geom_bodyid[data.contact.geom].reshape(-1, 2)
        ours = self._robot[bodies].any(axis=1)
        return bodies[ours], np.asarray(data.contact.dist)[ours]

    def _pregrasps(self, ranked: Sequence[tuple[GraspTrajectory, Grasp]]) -> Iterator[np.ndarray]:
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
        trajectory: GraspTrajectory,
        starts: np.ndarray,
        qpos: np.ndarray,
        graze: float,
        reasons: list[str],
    ) -> Plan | None:
        """The first of several ways to one grasp that the arm can go; else None, and `reasons` explains."""
        if not len(starts):
            reasons.append("the arm is too short")
        for joints in starts:
            if self.clashes(joints, qpos, trajectory.preshape.joints, graze):
                reasons.append("something is in the hand's way")
            elif not self._passable(grasp, joints):
                reasons.append("the arm cannot go on from the pre-grasp")
            else:
                return Plan(shape, grasp, joints, trajectory)
        return None

    def _stands_on(self, plan: Plan, qpos: np.ndarray, graze: float) -> bool:
        """Whether the hand would be inside of anything at the grasp: the rest of the object, for one."""
        pos = np.array([plan.grasp.pos] * 2)
        solved = inverse_kinematics(self.hand, pos, np.array([plan.grasp.quat] * 2), plan.joints[None])
        return self.clashes(solved.joints[0, 0], qpos, plan.trajectory.preshape.joints, graze)

    def _passable(self, grasp: Grasp, joints: np.ndarray) -> bool:
        """Whether the arm gets from a pre-grasp to the grasp, and above it, without a detour."""
        pos = np.array([grasp.pos, grasp.pos + np.array([0.0, 0.0, LIFT])])
        solved = inverse_kinematics(self.hand, pos, np.array([grasp.quat] * 2), joints[None])
        return bool(solved.reached.all())


def preferred(hand: Hand, shape: Superquadric, ranked: Sequence[Grasp]) -> list[tuple[GraspTrajectory, Grasp]]:
    """Closing of the hand, and the grasp, at most `MOST`; pinches first if the object is low, else last."""
    pinches = [(pinch(hand), found) for grasp in ranked if (found := pinched(hand, shape, grasp)) is not None]
    return joined(shape, [(wrap(hand), grasp) for grasp in ranked], pinches, SMALL)


def joined(
    shape: Superquadric,
    around: list[tuple[GraspTrajectory, Grasp]],
    tips: list[tuple[GraspTrajectory, Grasp]],
    height: float,
) -> list[tuple[GraspTrajectory, Grasp]]:
    """Grasps of two kinds, at most `MOST`: the fingertips first where the shape is below `height` m, else last."""
    both = tips + around if shape.surface(200)[:, 2].max() < height else around + tips
    return both[:MOST]


def parts(points: Points) -> tuple[Points, Points]:
    """Points (n, 3) m in two halves, each around its own mean: two-means, begun at both ends of their length."""
    centred = points - points.mean(0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    second = along > 0
    for _ in range(ROUNDS):
        means = points[~second].mean(0), points[second].mean(0)
        near = [np.linalg.norm(points - mean, axis=1) for mean in means]
        second = near[1] < near[0]
    return points[~second], points[second]


def pinched(hand: Hand, shape: Superquadric, grasp: Grasp) -> Grasp | None:
    """The same grasp with the fingertips, from farther away; None but for what is thin and taken from above."""
    hold = pinch_of(hand)
    if grasp.approach[2] > -DOWN or grasp.width > hold.opening - 2 * TIP:
        return None
    turn = matrix(grasp.quat) @ matrix((np.cos(hold.turn / 2), 0.0, 0.0, -np.sin(hold.turn / 2)))
    centre = np.array([*grasp.contacts.mean(0)[:2], max(shape.pos[2], TIP)])
    return dataclasses.replace(grasp, pos=vector(centre - turn @ hold.middle), quat=quaternion(turn))


MOST_FINGERTIP = 16  # fingertip grasps of one shape
RANKED = 48  # grasps from all sides among which those from above are
STEEP = 0.96  # cosine: approaches within 16 degrees of straight down are made straight; `grasps` leaves up to 14
CLEAR = 0.01  # m, between the palm and what is below it
BREADTH = 0.06  # m, half of what the fingers take along y


def fingertip_grasps(hand: Hand, shape: Superquadric) -> list[tuple[GraspTrajectory, Grasp]]:
    """Closing of the fingers, and the palm's pose then, best first.

    Args:
        hand: With its fingertips' shapes (`fingertips_of`).
        shape: The object, in the world, z up, on a table at z = 0.

    Returns:
        At most `MOST_FINGERTIP`; none where the shape is wider from every side than the hand opens.
    """
    tips = fingertips_of(hand)
    narrowest, widest = tips.reached
    reach, top = float(tips.middle[2]), float(shape.surface(200)[:, 2].max())
    # As deep as the shape's middle, or as the palm's distance from its top allows.
    low = max(shape.pos[2], TIP, top + CLEAR - reach)
    grip = Grip(width=widest + ROOM, depth=reach + TIP, palm=BREADTH, finger=2 * TIP)
    found = []
    for grasp in grasps(shape, grip, table=0.0, limit=RANKED).grasps:
        if grasp.approach[2] < -STEEP and narrowest <= grasp.width + 2 * ROOM <= widest:
            turn = upright(matrix(grasp.quat))
            centre = np.array([*grasp.contacts.mean(0)[:2], low])
            placed = dataclasses.replace(grasp, pos=vector(centre - turn @ tips.middle), quat=quaternion(turn))
            found.append((fingertips(hand, grasp.width), placed))
    return found[:MOST_FINGERTIP]


def upright(turn: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) with z straight down, and x level and as near as it can be to that of `turn`."""
    down = np.array([0.0, 0.0, -1.0])
    across = np.cross(down, turn[:, 0])
    across /= np.linalg.norm(across)
    return np.stack([np.cross(across, down), across, down], -1)
