"""Meshes that collide, replaced by the sphere, capsule or box of least volume that holds them."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

from embodied.robot.files.mjcf import compiled

SLANTED = 0.7  # of the volume along the file's axes, below which the principal axes are taken
THIN = 1e-3  # m, the least radius or half side


@dataclasses.dataclass(frozen=True)
class Solid:
    """A shape that MuJoCo knows without a mesh."""

    kind: mujoco.mjtGeom
    size: tuple[float, ...]
    """m: radius; radius and half length; three half sides."""
    volume: float
    """m^3."""
    centre: np.ndarray
    """(3,) m."""
    turn: np.ndarray
    """(3, 3) from its axes to the frame of the points."""


def fit_solids(path: Path, spec: mujoco.MjSpec) -> None:
    """Make every mesh of a URDF that collides the solid of least volume around it; meshes for the eye stay.

    Raises:
        ModelError: MuJoCo does not compile the model.
    """
    meshes = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]
    colliding = [geom for geom in meshes if geom.contype or geom.conaffinity]
    if not colliding:
        return
    contacts = [(geom.contype, geom.conaffinity) for geom in colliding]
    for geom in colliding:  # MuJoCo then needs no convex hull, which flat meshes have not
        geom.contype = geom.conaffinity = 0
    model = compiled(path, spec)
    for geom, (contype, conaffinity) in zip(colliding, contacts, strict=True):
        _replace(geom, model)
        geom.contype, geom.conaffinity = contype, conaffinity
    seen = {geom.meshname for geom in spec.geoms}
    for mesh in [mesh for mesh in spec.meshes if mesh.name not in seen]:
        spec.delete(mesh)


def _replace(geom: mujoco.MjsGeom, model: mujoco.MjModel) -> None:
    """Turn a geom of a mesh into the solid that fits it."""
    number, mesh = geom.id, int(model.geom_dataid[geom.id])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    pose = Rotation.from_quat(model.geom_quat[number], scalar_first=True)
    axes = Rotation.from_quat(model.mesh_quat[mesh], scalar_first=True).inv()  # the file's own, in the geom's frame
    solid = fitted(model.mesh_vert[first : first + count], axes.as_matrix())
    geom.type = solid.kind
    geom.size = np.pad(np.array(solid.size), (0, 3 - len(solid.size)))
    geom.pos = model.geom_pos[number] + pose.apply(solid.centre)
    geom.quat = (pose * Rotation.from_matrix(solid.turn)).as_quat(scalar_first=True)
    geom.meshname = ""


def fitted(points: np.ndarray, axes: np.ndarray) -> Solid:
    """The solid of least volume that holds points (n, 3).

    Args:
        points: In m, along their principal axes.
        axes: (3, 3) those of the mesh's file, which are kept unless others are much tighter: soles are to be level.
    """
    outer = points.astype(float)
    with contextlib.suppress(QhullError, ValueError):  # flat, or too few: all of them
        outer = outer[ConvexHull(outer).vertices]
    straight = min(_along(outer, axes), key=lambda solid: solid.volume)
    principal = min(_along(outer, np.eye(3)), key=lambda solid: solid.volume)
    return principal if principal.volume < SLANTED * straight.volume else straight


def _along(points: np.ndarray, turn: np.ndarray) -> list[Solid]:
    return [_sphere(points), _box(points, turn), *(_capsule(points, turn, long) for long in range(3))]


def _sphere(points: np.ndarray) -> Solid:
    centre = (points.min(0) + points.max(0)) / 2
    radius = max(float(np.linalg.norm(points - centre, axis=1).max()), THIN)
    return Solid(mujoco.mjtGeom.mjGEOM_SPHERE, (radius,), 4 / 3 * np.pi * radius**3, centre, np.eye(3))


def _box(points: np.ndarray, turn: np.ndarray) -> Solid:
    local = points @ turn
    half = np.maximum((local.max(0) - local.min(0)) / 2, THIN)
    centre = turn @ ((local.max(0) + local.min(0)) / 2)
    return Solid(mujoco.mjtGeom.mjGEOM_BOX, tuple(half.tolist()), float(8 * half.prod()), centre, turn)


def _capsule(points: np.ndarray, turn: np.ndarray, long: int) -> Solid:
    """A capsule along one of three axes."""
    order = [(long + 1) % 3, (long + 2) % 3, long]
    turn = turn[:, order]
    local = points @ turn
    middle = (local.max(0) + local.min(0)) / 2
    across = np.linalg.norm(local[:, :2] - middle[:2], axis=1)
    radius = max(float(across.max()), THIN)
    cap = np.sqrt(np.maximum(radius**2 - across**2, 0.0))
    low, high = float((local[:, 2] + cap).min()), float((local[:, 2] - cap).max())
    half = max((high - low) / 2, 0.0)
    middle[2] = (low + high) / 2
    volume = np.pi * radius**2 * (2 * half + 4 / 3 * radius)
    kind = mujoco.mjtGeom.mjGEOM_CAPSULE if half > 0 else mujoco.mjtGeom.mjGEOM_SPHERE
    return Solid(kind, (radius, half) if half > 0 else (radius,), float(volume), turn @ middle, turn)
