"""The kinematic tree of a robot: its joints, its limbs, and the points where they end."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

MOVES = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))

SOLE = 0.005  # m above the lowest shape of a foot, up to which others carry too
LEANS = 0.5  # sine of the angle to the ground from which on a shape stands on its end
NEIGHBOURS = 2  # joints between two bodies whose shapes overlap in most models


@dataclasses.dataclass(frozen=True)
class Limb:
    """A chain of joints from the base to a body that carries no further joint."""

    joints: tuple[int, ...]
    """Joint ids from the base outwards."""
    end: int
    """Body id of the last moving body."""
    bodies: tuple[int, ...]
    """Body ids of the end and of all that is fixed to it."""


@dataclasses.dataclass(frozen=True)
class Tree:
    """A robot's bodies and joints, in a compiled model."""

    model: mujoco.MjModel
    root: int
    """Body id of the base: the first body of the robot."""
    joints: tuple[int, ...]
    """Ids of hinges and slides, those that follow another left out."""
    limbs: tuple[Limb, ...]

    @classmethod
    def of(cls, model: mujoco.MjModel, root: int, followers: set[str]) -> Tree:
        """The tree below the body `root`; `followers` are joints that copy another."""
        below = [body for body in range(model.nbody) if is_below(model, body, root)]
        joints = tuple(
            joint
            for joint in range(model.njnt)
            if int(model.jnt_bodyid[joint]) in below
            and int(model.jnt_type[joint]) in MOVES
            and model.joint(joint).name not in followers
        )
        carriers = {int(model.jnt_bodyid[joint]) for joint in joints}
        ends = [
            body
            for body in sorted(carriers)
            if not any(other != body and is_below(model, other, body) for other in carriers)
        ]
        limbs = tuple(cls._limb(model, root, end, joints) for end in ends)
        return cls(model, root, joints, limbs)

    @staticmethod
    def _limb(model: mujoco.MjModel, root: int, end: int, joints: tuple[int, ...]) -> Limb:
        chain = [joint for joint in joints if is_below(model, end, int(model.jnt_bodyid[joint]))]
        bodies = tuple(body for body in range(model.nbody) if is_below(model, body, end))
        return Limb(tuple(chain), end, bodies)

    def first_joints(self) -> set[int]:
        """The joints that hang on the base itself: one for each branch."""
        return {limb.joints[0] for limb in self.limbs}

    def carries(self, body: int) -> bool:
        """Whether a body is the base or hangs on it."""
        return is_below(self.model, body, self.root)

    def mass(self) -> float:
        """kg, of everything."""
        return float(self.model.body_subtreemass[self.root])


def is_below(model: mujoco.MjModel, body: int, ancestor: int) -> bool:
    """Whether `body` is `ancestor` or hangs on it."""
    while body > ancestor:
        body = int(model.body_parentid[body])
    return body == ancestor


def ancestors(model: mujoco.MjModel, body: int) -> list[int]:
    """A body and its ancestors, but the world."""
    found = []
    while body:
        found.append(body)
        body = int(model.body_parentid[body])
    return found


def posed(model: mujoco.MjModel, qpos: np.ndarray) -> mujoco.MjData:
    """Data of a pose (nq,): where everything is."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    return data


def mesh_vertices(model: mujoco.MjModel, mesh: int) -> np.ndarray:
    """(k, 3) m, in the frame of geoms of this mesh."""
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    return model.mesh_vert[first : first + count]


def joints_between(model: mujoco.MjModel, first: int, second: int) -> int:
    """Number of joints on the way from one body to another."""
    count = 0
    while first != second:
        if first < second:
            first, second = second, first
        count += int(model.body_jntnum[first])
        first = int(model.body_parentid[first])
    return count


def lowest_point(data: mujoco.MjData, model: mujoco.MjModel, bodies: tuple[int, ...]) -> tuple[float, int]:
    """z in m, and geom id, of the lowest point of the bodies' colliding geoms; (inf, -1) without any."""
    best, which = float("inf"), -1
    for geom in range(model.ngeom):
        if int(model.geom_bodyid[geom]) in bodies and (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            z = _geom_bottom(data, model, geom)
            if z < best:
                best, which = z, geom
    return best, which


def sole(data: mujoco.MjData, model: mujoco.MjModel, leg: Limb) -> tuple[int, np.ndarray]:
    """Body, and point (3,) m in the world frame, of what a leg stands on: the middle of its lowest shapes' ends."""
    lowest, geom = lowest_point(data, model, leg.bodies)
    if geom < 0:
        return leg.end, data.xpos[leg.end].copy()
    body = int(model.geom_bodyid[geom])
    beside = [
        other
        for other in range(model.ngeom)
        if int(model.geom_bodyid[other]) == body
        and (model.geom_contype[other] or model.geom_conaffinity[other])
        and _geom_bottom(data, model, other) < lowest + SOLE
    ]
    return body, np.mean([_lower_end(data, model, other) for other in beside], axis=0)


def _lower_end(data: mujoco.MjData, model: mujoco.MjModel, geom: int) -> np.ndarray:
    """(3,) m, world frame: middle of the ball at the lower end of a shape, such as a capsule's; of a flat one its own.

    A shape that lies reaches as far to all sides; one that leans by 30 degrees or more has its end where it is lowest.
    """
    turn, (middle, half) = data.geom_xmat[geom].reshape(3, 3), model.geom_aabb[geom].reshape(2, 3)
    down = np.clip(turn[2] / LEANS, -1.0, 1.0)
    return data.geom_xpos[geom] + turn @ (middle - (half - half.min()) * down)


def _geom_bottom(data: mujoco.MjData, model: mujoco.MjModel, geom: int) -> float:
    """z in m of a geom's lowest point."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    centre, down = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)[2]
    if kind == int(mujoco.mjtGeom.mjGEOM_SPHERE):
        return float(centre[2] - size[0])
    if kind == int(mujoco.mjtGeom.mjGEOM_CAPSULE):
        return float(centre[2] - abs(down[2]) * size[1] - size[0])
    if kind == int(mujoco.mjtGeom.mjGEOM_CYLINDER):
        return float(centre[2] - abs(down[2]) * size[1] - np.hypot(down[0], down[1]) * size[0])
    if kind == int(mujoco.mjtGeom.mjGEOM_MESH):
        return float(centre[2] + (mesh_vertices(model, int(model.geom_dataid[geom])) @ down).min())
    middle, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
    return float(centre[2] + middle @ down - half @ np.abs(down))
