"""Grippers of arms: two fingers, or a jaw that closes on a fixed one, found by what moves towards what."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.robot.derivation.pose import carrier, follow
from embodied.robot.robot import Robot
from embodied.robot.tree import ancestors, mesh_vertices

DEPTH = 0.01  # m behind the fingertips where a gripper grasps
TIPS = 0.02  # m: what lies no further behind the end of a finger is its tip
SNAP = 0.9  # cosine between a direction and an axis of the tip's body that are taken for the same


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


def gripper_of(robot: Robot, actuated: list[str]) -> Gripper | None:
    """Gripper of the joints beyond the tip, if they bring two bodies nearer to each other."""
    model = robot.model
    if not actuated:
        return None
    carrying, _ = carrier(model, robot.tip or "")
    low, high = (_fingers_at(robot, actuated, share, carrying) for share in (0.0, 1.0))
    if (pair := _pair(low, high)) is None:
        return None
    left, right = pair
    apart = [float(np.linalg.norm(ends[left].mean(0) - ends[right].mean(0))) for ends in (low, high)]
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

    Bodies are those with shapes beyond which there are no others, and the carrying one itself.
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
    inner = {above for body in set(model.geom_bodyid.tolist()) for above in ancestors(model, body)[1:]}
    found = {}
    for body in range(model.nbody):
        above = int(model.body_parentid[body])
        if above in moving and body not in moving and above > 0:
            moving.add(body)
        if body not in moving or (body in inner and body != carrying):
            continue
        corners = [corners_of(model, data, geom) for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) == body]
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


def _snapped(direction: np.ndarray) -> np.ndarray:
    """(3,) a unit vector along a direction, or the axis that it nearly is."""
    direction = direction / np.linalg.norm(direction)
    axis = int(np.abs(direction).argmax())
    return np.eye(3)[axis] * np.sign(direction[axis]) if abs(direction[axis]) > SNAP else direction


def corners_of(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> np.ndarray:
    """(k, 3) m, world frame: a mesh's vertices, else the corners of a shape's box; none of a plane."""
    kind = int(model.geom_type[geom])
    if kind == int(mujoco.mjtGeom.mjGEOM_PLANE):
        return np.zeros((0, 3))
    if kind == int(mujoco.mjtGeom.mjGEOM_MESH):
        local = mesh_vertices(model, int(model.geom_dataid[geom]))
    else:
        signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
        local = model.geom_aabb[geom, :3] + signs * model.geom_aabb[geom, 3:]
    return data.geom_xpos[geom] + local @ data.geom_xmat[geom].reshape(3, 3).T
