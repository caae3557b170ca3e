"""Where everything is in a batch of environments, on whatever engine, so that it can be drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import mujoco
import numpy as np

from embodied.env.env import Env


@dataclasses.dataclass(frozen=True)
class Pose:
    """Where everything is in some environments, as numpy arrays with a leading axis (N,)."""

    time: np.ndarray
    """(N,) s since the episode began."""
    qpos: np.ndarray
    """(N, nq)."""
    mocap_pos: np.ndarray | None
    """(N, nmocap, 3) m, None where the engine keeps none."""
    mocap_quat: np.ndarray | None
    """(N, nmocap, 4) wxyz."""
    markers: Mapping[str, np.ndarray]
    """Name -> (N, k, 3) m."""
    looks: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Name of a geom -> (N, 14); see `Task.geom_appearance`."""
    ghosts: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Name of a body -> (N, 7); see `Task.goal_visualization`."""

    def marked(self, index: int) -> np.ndarray:
        """(k, 3) m, every point of one environment at which something is drawn that is not there."""
        points = [rows[index] for rows in self.markers.values()]
        return np.concatenate([*points, np.zeros((0, 3)), *(rows[index, None, :3] for rows in self.ghosts.values())])


class Watcher:
    """Takes the poses of an environment's worlds, together with the task's markers and ghosts."""

    def __init__(self, env: Env, markers: bool = True) -> None:
        """Compile nothing yet."""
        self.env = env
        self._props = jax.jit(jax.vmap(env.task.props))
        self._looks = jax.jit(jax.vmap(env.task.looks))
        drawn = (env.task.markers, env.task.ghosts) if markers else ()
        self._drawn: tuple[Callable[..., Any], ...] = tuple(jax.jit(jax.vmap(what)) for what in drawn)

    def look(self) -> Pose:
        """The poses now."""
        env = self.env
        world, state = env.world(), env.simulator.episode().task_state
        markers, ghosts = (what(world, state) for what in self._drawn) if self._drawn else ({}, {})
        mocap_pos, mocap_quat = self._mocap()
        return Pose(
            time=np.array(world.time),
            qpos=np.array(world.qpos),
            mocap_pos=mocap_pos,
            mocap_quat=mocap_quat,
            markers={name: np.array(points).reshape(env.num_envs, -1, 3) for name, points in markers.items()},
            looks={name: np.array(rows) for name, rows in self._looks(state).items()},
            ghosts={name: np.array(rows) for name, rows in ghosts.items()},
        )

    def _mocap(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Where mocap bodies are: as the task says, else as the engine keeps them."""
        env = self.env
        if not env.task.model.nmocap:
            return None, None
        placed = self._props(env.simulator.episode().task_state)
        if placed is not None:
            return np.array(placed), np.tile([1.0, 0.0, 0.0, 0.0], (*placed.shape[:2], 1))
        held = getattr(env.engine, "batch", None)
        return (None, None) if held is None else (np.array(held.mocap_pos), np.array(held.mocap_quat))


def place(model: mujoco.MjModel, data: mujoco.MjData, pose: Pose, index: int) -> None:
    """Put one environment's pose into `data` and compute where its bodies, cameras and lights are.

    Shapes that differ between episodes are changed in `model`, which must be the caller's own.
    """
    data.qpos[:] = np.nan_to_num(pose.qpos[index])
    for name, rows in pose.looks.items():
        geom = model.geom(name)
        geom.size[:], geom.pos[:], geom.quat[:], geom.rgba[:] = np.split(rows[index], (3, 6, 10))
    if pose.mocap_pos is not None and pose.mocap_quat is not None:
        data.mocap_pos[:] = pose.mocap_pos[index]
        data.mocap_quat[:] = pose.mocap_quat[index]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    mujoco.mj_tendon(model, data)


def floating_bodies(model: mujoco.MjModel) -> list[int]:
    """Bodies that travel and that a camera should follow: on free joints, or on endless slides from the world.

    None where a robot is bolted down: then free bodies are objects. Where some travelling bodies have joints besides,
    or bodies with joints on them, those alone: they are robots, and the others objects.
    """
    joints = range(model.njnt)
    travelling = {int(model.jnt_bodyid[j]) for j in joints if _travels(model, j)}
    jointed = {int(model.body_rootid[model.jnt_bodyid[j]]) for j in joints if not _travels(model, j)}
    if jointed - travelling:
        return []
    return sorted(travelling & jointed or travelling)


def _travels(model: mujoco.MjModel, joint: int) -> bool:
    """Whether a joint lets its body go anywhere: a planar robot's slides have no limits, a gantry's have."""
    if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
        return True
    endless = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE and not model.jnt_limited[joint]
    return bool(endless and model.body_parentid[model.jnt_bodyid[joint]] == 0)


def radius_of(model: mujoco.MjModel, body: int) -> float:
    """m, how far the shapes of a body's tree reach from its origin while the joints are at their reference."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    ours = model.body_rootid[model.geom_bodyid] == model.body_rootid[body]
    reach = np.linalg.norm(data.geom_xpos[ours] - data.xpos[body], axis=1) + model.geom_rbound[ours]
    return float(reach.max(initial=0.0)) or float(model.stat.extent)
