"""Objects let go over a table, until they rest: standing where they can, else as they fell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec
from tasks.grasping.hands.hand import set_physics
from tasks.grasping.objects.model import add_object
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import PlacedObject

FRICTION = 0.6  # no unit: plastic and cardboard on wood, as between the objects
CHECK = 0.1  # s between two looks at whether everything rests
LONGEST = 4.0  # s after which what still moves is given up
SPEED = 0.01  # m/s: slower rests
TURNING = 0.1  # rad/s: slower rests
DRAG = 12.0  # 1/s, for many objects: they sink at 0.8 m/s, and balls do not roll away
DEEPEST = 0.002  # m: contacts are soft, deeper than this two objects are in one another
RADIUS = 0.25  # m, around the origin, beyond which nothing may come to rest
SLIGHT = 1.0  # 1/s, for one: in honey what is about to fall over would seem to rest
TILT = 0.05  # rad, by which an object that is put down leans: what stands only in perfect balance does not stand


@dataclasses.dataclass(frozen=True)
class SettleResult:
    """Objects at rest; or why they are not."""

    objects: tuple[PlacedObject, ...]
    failure: str = ""
    """In words; empty where everything rests on the table, clear of the rest."""


def table_of(items: Sequence[ObjectSpec], names: Sequence[str]) -> mujoco.MjSpec:
    """A table with free objects on it, their bodies and joints named `names`."""
    spec = mujoco.MjSpec()
    spec.modelname = "table"
    set_physics(spec)
    spec.worldbody.add_geom(
        name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1], friction=[FRICTION, 0.005, 0.001]
    )
    for item, name in zip(items, names, strict=True):
        add_object(spec, item, name)
    return spec


def settle(objects: Sequence[PlacedObject], radius: float = RADIUS, drag: float = DRAG, looks: int = 2) -> SettleResult:
    """Let physics bring objects to rest, for `LONGEST` s at most.

    Args:
        objects: Objects, where they are let go.
        radius: m around the origin, beyond which nothing may come.
        drag: 1/s, at which motion dies down.
        looks: How often in a row, every `CHECK` s, everything must be seen to rest.

    Returns:
        Final poses, and the trouble, if any: an object rolled away, still moves, or is inside another.
    """
    names = [f"{number}" for number in range(len(objects))]
    model = compile_spec(table_of([entry.item for entry in objects], names))
    data = mujoco.MjData(model)
    data.qpos[:] = np.concatenate([[*entry.pos, *entry.quat] for entry in objects])
    model.dof_damping[:] = drag * model.dof_M0
    resting = 0
    while resting < looks and data.time < LONGEST and _farthest(data) < radius:
        mujoco.mj_step(model, data, nstep=round(CHECK / model.opt.timestep))
        speeds = np.abs(data.qvel.reshape(-1, 6))
        resting = resting + 1 if speeds[:, :3].max() < SPEED and speeds[:, 3:].max() < TURNING else 0
    mujoco.mj_forward(model, data)
    poses = data.qpos.reshape(-1, 7)
    found = tuple(
        PlacedObject(entry.item, tuple(map(float, pose[:3])), tuple(map(float, pose[3:])))  # pyright: ignore
        for entry, pose in zip(objects, poses, strict=True)
    )
    if _farthest(data) >= radius:
        return SettleResult(found, "rolled away")
    return SettleResult(found, "moving" if resting < looks else _trouble(model, data))


def put_down(item: ObjectSpec, yaw: float, way: float) -> SettleResult:
    """Let go of one object over the origin, upright but for a slight lean.

    Args:
        item: The object.
        yaw: rad, by which it is turned about the vertical.
        way: rad, direction of the horizontal axis about which it leans.

    Returns:
        As `settle`: where it stands, or lies, if it cannot stand.
    """
    lean, spin, quat = np.zeros(4), np.zeros(4), np.zeros(4)
    mujoco.mju_axisAngle2Quat(lean, np.array([np.cos(way), np.sin(way), 0.0]), TILT)
    mujoco.mju_axisAngle2Quat(spin, np.array([0.0, 0.0, 1.0]), yaw)
    mujoco.mju_mulQuat(quat, lean, spin)
    height = -float(item.bounds[0][2]) + TILT * float(np.linalg.norm(item.extents[:2])) / 2
    w, x, y, z = (float(value) for value in quat)
    return settle([PlacedObject(item, (0.0, 0.0, height), (w, x, y, z))], drag=SLIGHT, looks=10)


def _farthest(data: mujoco.MjData) -> float:
    """m, of the objects' middles from the table's."""
    return float(np.linalg.norm(data.qpos.reshape(-1, 7)[:, :2], axis=1).max())


def _trouble(model: mujoco.MjModel, data: mujoco.MjData) -> str:
    between = (model.geom_bodyid[data.contact.geom] > 0).all(axis=1)
    return "interpenetrating" if data.contact.dist[between].min(initial=0.0) < -DEEPEST else ""
