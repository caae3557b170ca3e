"""The shapes of a MuJoCo model as triangles with colours, merged body by body, for a browser to draw."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

import mujoco
import numpy as np
import trimesh

VISIBLE_GROUPS = 3  # geom groups 0, 1 and 2 are for the eye; the others are collision shapes, hidden by convention
OPAQUE = 0.99  # alpha from which a shape counts as opaque

Mesh = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Vertices (v, 3), faces (f, 3), normals (v, 3)."""


def geom_mesh(model: mujoco.MjModel, geom: int) -> Mesh | None:
    """The shape of a geom in its own frame; None for what has none here (planes are drawn as grids)."""
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    match kind:
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return _smooth(trimesh.creation.uv_sphere(1.0, count=(16, 24)), np.full(3, size[0]))
        case mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return _smooth(trimesh.creation.uv_sphere(1.0, count=(16, 24)), size)
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            capsule = trimesh.creation.capsule(height=2 * size[1], radius=size[0], count=(16, 16))
            # Trimesh lets some versions' capsules stand on the origin; here they are centred.
            capsule.apply_translation(-capsule.bounds.mean(axis=0))
            return _smooth(capsule, np.ones(3))
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return _flat(trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=28))
        case mujoco.mjtGeom.mjGEOM_BOX:
            return _flat(trimesh.creation.box(extents=2 * size))
        case mujoco.mjtGeom.mjGEOM_MESH | mujoco.mjtGeom.mjGEOM_SDF if model.geom_dataid[geom] >= 0:
            mesh = model.mesh(int(model.geom_dataid[geom]))
            first, count = int(mesh.vertadr[0]), int(mesh.vertnum[0])
            face, faces = int(mesh.faceadr[0]), int(mesh.facenum[0])
            vertices = model.mesh_vert[first : first + count]
            return _flat(trimesh.Trimesh(vertices, model.mesh_face[face : face + faces], process=False))
        case mujoco.mjtGeom.mjGEOM_HFIELD:
            return _smooth(_height_field(model, int(model.geom_dataid[geom])), np.ones(3))
    return None


def _smooth(mesh: trimesh.Trimesh, scale: np.ndarray) -> Mesh:
    """A round shape: one normal per vertex, scaled as an ellipsoid's are."""
    normals = np.asarray(mesh.vertex_normals) / scale
    return np.asarray(mesh.vertices) * scale, np.asarray(mesh.faces), _unit(normals)


def _flat(mesh: trimesh.Trimesh) -> Mesh:
    """An edged shape: each face has its own vertices, smooth only across angles under 30 degrees."""
    mesh = trimesh.graph.smooth_shade(mesh, angle=math.radians(30))
    return np.asarray(mesh.vertices), np.asarray(mesh.faces), np.asarray(mesh.vertex_normals)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def _height_field(model: mujoco.MjModel, field: int) -> trimesh.Trimesh:
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    wide, deep, high, _ = model.hfield_size[field]
    first = int(model.hfield_adr[field])
    heights = model.hfield_data[first : first + rows * columns].reshape(rows, columns) * high
    x, y = np.meshgrid(np.linspace(-wide, wide, columns), np.linspace(-deep, deep, rows))
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    right, above, across = corner + 1, corner + columns, corner + columns + 1
    faces = np.concatenate([np.stack([corner, right, across], 1), np.stack([corner, across, above], 1)])
    return trimesh.Trimesh(np.stack([x, y, heights], -1).reshape(-1, 3), faces, process=False)


def geom_colour(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """(4,) rgba of a geom: its own colour if it has one, else its material's, tinted by the texture's mean."""
    own, material = model.geom_rgba[geom], int(model.geom_matid[geom])
    if material < 0 or not np.allclose(own, (0.5, 0.5, 0.5, 1.0)):
        return np.array(own)
    rgba = np.array(model.mat_rgba[material])
    for texture in model.mat_texid[material]:
        if texture >= 0:
            first, channels = int(model.tex_adr[texture]), int(model.tex_nchannel[texture])
            count = int(model.tex_height[texture]) * int(model.tex_width[texture])
            texels = model.tex_data[first : first + count * channels].reshape(count, channels)[:, :3]
            if texels.shape[1] == 3:
                rgba[:3] *= texels.mean(axis=0) / 255
            break
    return rgba


def tint(colour: np.ndarray, factor: float) -> np.ndarray:
    """(3,) uint8 of an rgba made lighter or darker."""
    return np.round(255 * np.clip(factor * colour[:3], 0, 1)).astype(np.uint8)


@dataclasses.dataclass(frozen=True)
class Part:
    """The shapes of one body that are drawn together."""

    body: int
    vertices: np.ndarray
    faces: np.ndarray
    normals: np.ndarray
    colours: np.ndarray
    """(v, 4) uint8."""
    geoms: tuple[int, ...]
    """Its geoms."""

    @property
    def opaque(self) -> bool:
        """Whether nothing shines through."""
        return bool(self.colours[:, 3].min() >= 255 * OPAQUE)


def body_parts(model: mujoco.MjModel) -> list[Part]:
    """Every visible geom but the planes, merged by body, and within it by whether something shines through."""
    groups: dict[tuple[int, bool], list[tuple[int, Mesh, np.ndarray]]] = collections.defaultdict(list)
    for geom in range(model.ngeom):
        colour = geom_colour(model, geom)
        if model.geom_group[geom] >= VISIBLE_GROUPS or colour[3] <= 0:
            continue
        mesh = geom_mesh(model, geom)
        if mesh is not None:
            groups[int(model.geom_bodyid[geom]), bool(colour[3] >= OPAQUE)].append((geom, mesh, colour))
    return [_merge(model, body, members) for (body, _), members in sorted(groups.items(), key=lambda item: item[0])]


def _merge(model: mujoco.MjModel, body: int, members: Sequence[tuple[int, Mesh, np.ndarray]]) -> Part:
    vertices, faces, normals, colours = [], [], [], []
    count = 0
    for geom, (points, triangles, directions), colour in members:
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        turn = turn.reshape(3, 3)
        vertices.append(points @ turn.T + model.geom_pos[geom])
        normals.append(directions @ turn.T)
        faces.append(triangles + count)
        colours.append(np.tile(np.round(255 * np.clip(colour, 0, 1)).astype(np.uint8), (len(points), 1)))
        count += len(points)
    joined = [np.concatenate(arrays) for arrays in (vertices, faces, normals, colours)]
    return Part(body, *joined, geoms=tuple(geom for geom, _, _ in members))
