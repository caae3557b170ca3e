"""From what a depth camera sees of an object to grasps that the arm reaches: G-PAYN's planner.

Cloud -> superquadric -> ranked palm poses -> inverse kinematics -> those whose way there and up is free.
Source of the steps: Rosasco et al. 2023, arXiv:2306.03484.

    planner = Planner(hand, model)
    planned = planner.plan(cloud.points, camera.pos, qpos)
    best = planned.plans[0]       # or, if there is none, planned.reason says why
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np

from tasks.grasping.arm import inverse_kinematics
from tasks.grasping.grasps import Grasp, Grip, grasps
from tasks.grasping.hands import MOUNTED, Hand, poses
from tasks.grasping.objects.shapes import Points
from tasks.grasping.pointclouds import Camera
from tasks.grasping.superquadric_fit import fit_superquadric
from tasks.grasping.superquadrics import Superquadric
from tasks.manipulation import panda

VIEW = Camera.looking_at((0.0, 0.55, 0.05), (0.45, 1.1, 0.55), width=320, height=240)
"""The depth camera: over the far right corner of the table, 80 cm from what stands there."""
BACK = 0.08  # m, from the grasp to the pre-grasp, along the approach (G-PAYN: 5 or 10 cm)
UP = (0.0, 0.0, 1.0)
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
    ) -> Planned:
        """Grasps of one object on the table.

        Args:
            points: (n, 3) m, what the camera sees of the object, world frame.
            eye: (3,) m, where the camera is.
            qpos: (nq,) of the model: where everything stands; the robot's part does not matter.
            limit: Most plans to return.

        Returns:
            The plans. None where the cloud is empty, planar or hidden in part so that nothing fits it; where the object is
            too large for the hand; where every grasp is out of the arm's reach or something is in its way.

        Raises:
            EmbodiedError: `points` is not (n, 3), or not finite.
        """
        fit = fit_superquadric(points, up=UP, table=0.0, eye=eye)
        if fit.shape is None:
            return Planned((), f"no shape: {fit.reason}")
        ranking = grasps(fit.shape, Grip(width=self.hand.width), table=0.0)
        if not ranking.grasps:
            return Planned((), ranking.reason, fit.shape)
        found: list[Plan] = []
        reasons: list[str] = []
        for grasp, joints in self._pregrasps(ranking.grasps, reasons):
            if self.clashes(joints, qpos):
                reasons.append("something is in the hand's way")
            elif not self._passable(grasp, joints):
                reasons.append("the arm cannot go on from the pre-grasp")
            else:
                found.append(Plan(fit.shape, grasp, joints))
                if len(found) == limit:
                    break
        if found:
            return Planned(tuple(found), "", fit.shape)
        common = max(set(reasons), key=reasons.count)
        return Planned((), f"out of reach: {common}, for most of {len(ranking.grasps)} grasps", fit.shape)

    def clashes(self, joints: np.ndarray, qpos: np.ndarray) -> bool:
        """Whether the robot with these joints (7,) rad, its hand opened, is inside itself or anything else."""
        data = self._data
        data.qpos[:] = qpos
        data.qpos[self._arm], data.qpos[self._layout.qpos] = joints, poses(self.hand).opened.joints
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_collision(self.model, data)
        bodies = self.model.geom_bodyid[data.contact.geom]
        return bool((self._robot[bodies].any(axis=1) & (data.contact.dist < 0)).any())

    def _pregrasps(self, ranked: Sequence[Grasp], reasons: list[str]) -> Iterator[tuple[Grasp, np.ndarray]]:
        """Each grasp with the joints of its pre-grasp, one for each start of the inverse kinematics that got there."""
        backed = [grasp.back(BACK) for grasp in ranked]
        # All at once, and always as many, so that the solver is compiled once.
        full = backed + [backed[-1]] * (32 - len(backed))
        solved = inverse_kinematics(self.hand, np.array([pos for pos, _ in full]), np.array([quat for _, quat in full]))
        for number, grasp in enumerate(ranked):
            if not solved.reached[number].any():
                reasons.append("the arm is too short")
            for start in np.flatnonzero(solved.reached[number]):
                yield grasp, solved.joints[number, start]

    def _passable(self, grasp: Grasp, joints: np.ndarray) -> bool:
        """Whether the arm gets from a pre-grasp to the grasp, and above it, without a detour."""
        pos = np.array([grasp.pos, grasp.pos + np.array([0.0, 0.0, LIFT])])
        solved = inverse_kinematics(self.hand, pos, np.array([grasp.quat] * 2), joints[None])
        return bool(solved.reached.all())
