"""Meshes that collide, replaced by the sphere, capsule or box that holds them and stands out from them least."""

from __future__ import annotations

import dataclasses
import itertools

import mujoco
import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

from embodied.robot.tree import ancestors, mesh_vertices

SLANTED = 0.7  # of what stands out along the file's axes, below which the principal axes are taken
SOLE = 5  # joints of a limb at whose end a flat foot or a hand is: a box
LIKE = 0.01  # of a mesh's length, by which a simpler solid may stand out further
THIN = 1e-3  # m, the least radius or half side


@dataclasses.dataclass(frozen=True)
class Solid:
    """A shape that MuJoCo knows without a mesh."""

    kind: mujoco.mjtGeom
    size: tuple[float, ...]
    """m: radius; radius and half length; three half sides."""
    centre: np.ndarray
    """(3,) m."""
    turn: np.ndarray
    """(3, 3) from its axes to the frame of the points."""


def fit_solids(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Make every mesh of a URDF that collides the solid that fits it; meshes for the eye stay.

    Args:
        spec: The URDF.
        model: Compiled from it.
    """
    carriers = {int(body) for body in model.jnt_bodyid}
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH and (geom.contype or geom.conaffinity):
            _replace(geom, model, _is_sole(model, int(model.geom_bodyid[geom.id]), carriers))
    seen = {geom.meshname for geom in spec.geoms}
    for mesh in [mesh for mesh in spec.meshes if mesh.name not in seen]:
        spec.delete(mesh)


def _is_sole(model: mujoco.MjModel, body: int, carriers: set[int]) -> bool:
    """Whether a body ends a limb of many joints; `carriers` are the bodies that joints move."""
    above, last = 0, 0
    for carrier in ancestors(model, body):
        if carrier in carriers:
            above, last = above + int(model.body_jntnum[carrier]), last or carrier
    return above >= SOLE and not any(last in ancestors(model, carrier)[1:] for carrier in carriers)


def _replace(geom: mujoco.MjsGeom, model: mujoco.MjModel, is_sole: bool) -> None:
    """Turn a geom of a mesh into the solid that fits it."""
    number, mesh = geom.id, int(model.geom_dataid[geom.id])
    pose = Rotation.from_quat(model.geom_quat[number], scalar_first=True)
    axes = Rotation.from_quat(model.mesh_quat[mesh], scalar_first=True).inv()  # the file's own, in the geom's frame
    points = mesh_vertices(model, mesh).astype(float)
    solid = _box(points, axes.as_matrix()) if is_sole else fitted(points, axes.as_matrix())
    geom.type = solid.kind
    geom.size = np.pad(np.array(solid.size), (0, 3 - len(solid.size)))
    geom.pos = model.geom_pos[number] + pose.apply(solid.centre)
    geom.quat = (pose * Rotation.from_matrix(solid.turn)).as_quat(scalar_first=True)
    geom.meshname = ""


def fitted(points: np.ndarray, axes: np.ndarray) -> Solid:
    """The solid around points (n, 3) whose surface stands out least from their convex hull.

    Args:
        points: In m, along their principal axes.
        axes: (3, 3) those of the mesh's file, which are kept unless others are much tighter: soles are to be level.
    """
    try:
        hull = ConvexHull(points)
        points, faces = points[hull.vertices], hull.equations
    except (QhullError, ValueError):  # flat, or too few: as far as from their box
        faces = np.concatenate([np.c_[np.eye(3), -points.max(0)], np.c_[-np.eye(3), points.min(0)]])
    (straight, out), (slanted, less) = (_along(points, faces, turn) for turn in (axes, np.eye(3)))
    return slanted if less < SLANTED * out else straight


def _along(points: np.ndarray, faces: np.ndarray, turn: np.ndarray) -> tuple[Solid, float]:
    """The best solid along three axes, and how far in m it stands out."""
    solids = [_sphere(points), _box(points, turn), *(_capsule(points, turn, long) for long in range(3))]
    out = [float((_surface(solid) @ faces[:, :3].T + faces[:, 3]).max()) for solid in solids]
    alike = LIKE * float(np.ptp(points, axis=0).max())
    best = next(index for index, far in enumerate(out) if far <= min(out) + alike)
    return solids[best], out[best]


def _surface(solid: Solid) -> np.ndarray:
    """(n, 3) m: points on a solid's surface, those that stand out furthest among them."""
    corners = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=3)))
    if solid.kind == mujoco.mjtGeom.mjGEOM_BOX:
        local = corners * solid.size
    else:
        around = corners[np.linalg.norm(corners, axis=1) > 0]
        around *= solid.size[0] / np.linalg.norm(around, axis=1, keepdims=True)
        ends = np.array([0.0, 0.0, solid.size[1] if len(solid.size) > 1 else 0.0])
        local = np.concatenate([around + ends, around - ends])
    return solid.centre + local @ solid.turn.T


def _sphere(points: np.ndarray) -> Solid:
    centre = (points.min(0) + points.max(0)) / 2
    radius = max(float(np.linalg.norm(points - centre, axis=1).max()), THIN)
    return Solid(mujoco.mjtGeom.mjGEOM_SPHERE, (radius,), centre, np.eye(3))


def _box(points: np.ndarray, turn: np.ndarray) -> Solid:
    local = points @ turn
    half = np.maximum((local.max(0) - local.min(0)) / 2, THIN)
    centre = turn @ ((local.max(0) + local.min(0)) / 2)
    return Solid(mujoco.mjtGeom.mjGEOM_BOX, tuple(half.tolist()), centre, turn)


def _capsule(points: np.ndarray, turn: np.ndarray, long: int) -> Solid:
    """A capsule along one of three axes; a sphere where it would have no length."""
    turn = turn[:, [(long + 1) % 3, (long + 2) % 3, long]]
    local = points @ turn
    middle = (local.max(0) + local.min(0)) / 2
    across = np.linalg.norm(local[:, :2] - middle[:2], axis=1)
    radius = max(float(across.max()), THIN)
    cap = np.sqrt(np.maximum(radius**2 - across**2, 0.0))
    low, high = float((local[:, 2] + cap).min()), float((local[:, 2] - cap).max())
    if high <= low:
        return _sphere(points)
    middle[2] = (low + high) / 2
    return Solid(mujoco.mjtGeom.mjGEOM_CAPSULE, (radius, (high - low) / 2), turn @ middle, turn)
