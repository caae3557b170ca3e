"""`SceneState`: poses of everything in a batch of environments, with debug markers and goals, for viewers and films."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import mujoco
import numpy as np

from embodied.core.facets import Pictures
from embodied.core.task import Task
from embodied.core.world import World
from embodied.engines.mujoco import MujocoEngine


class RenderableEnv(Protocol):
    """Source of a scene: `embodied.Env`, on any engine."""

    @property
    def task(self) -> Task[Any]: ...

    @property
    def engine(self) -> Any: ...

    @property
    def num_envs(self) -> int: ...

    @property
    def task_state(self) -> Any: ...

    def world(self) -> World: ...


@dataclasses.dataclass(frozen=True)
class SceneState:
    """Poses of everything in some environments, as numpy arrays with a leading axis (N,)."""

    time: np.ndarray
    """(N,) s since the episode began."""
    qpos: np.ndarray
    """(N, nq)."""
    mocap_pos: np.ndarray | None
    """(N, nmocap, 3) m, None where the engine keeps none."""
    mocap_quat: np.ndarray | None
    """(N, nmocap, 4) wxyz."""
    debug_markers: Mapping[str, np.ndarray]
    """Name -> (N, k, 3) m."""
    geom_appearance: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Name of a geom -> (N, 14); see `Pictures.geom_appearance`."""
    goal_visualization: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Name of a body -> (N, 7); see `Pictures.goals`."""

    def marked_points(self, index: int) -> np.ndarray:
        """(k, 3) m, the debug markers of one environment and the origins of its goal bodies."""
        markers = [rows[index] for rows in self.debug_markers.values()]
        goals = [rows[index, None, :3] for rows in self.goal_visualization.values()]
        return np.concatenate([*markers, np.zeros((0, 3)), *goals])


class SceneReader:
    """Reads the scene state of an environment; its functions compile at the first `read`."""

    def __init__(self, env: RenderableEnv, debug_visualization: bool = True) -> None:
        self.env, pictures = env, env.task.pictures or Pictures()
        self._mocap_positions = jax.jit(jax.vmap(pictures.mocap_positions))
        self._geom_appearance = jax.jit(jax.vmap(pictures.geom_appearance))
        drawn = (pictures.markers, pictures.goals) if debug_visualization else ()
        self._drawn: tuple[Callable[..., Any], ...] = tuple(jax.jit(jax.vmap(what)) for what in drawn)

    def read(self) -> SceneState:
        """The scene state now, copied."""
        env = self.env
        world, state = env.world(), env.task_state
        markers, goals = (what(world, state) for what in self._drawn) if self._drawn else ({}, {})
        mocap_pos, mocap_quat = self._mocap(state)
        return SceneState(
            time=np.array(world.time),
            qpos=np.array(world.qpos),
            mocap_pos=mocap_pos,
            mocap_quat=mocap_quat,
            debug_markers={name: np.array(points).reshape(env.num_envs, -1, 3) for name, points in markers.items()},
            geom_appearance={name: np.array(rows) for name, rows in self._geom_appearance(state).items()},
            goal_visualization={name: np.array(rows) for name, rows in goals.items()},
        )

    def _mocap(self, state: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Poses of mocap bodies: those of the task, else the engine's."""
        if not self.env.task.model.nmocap:
            return None, None
        positions = self._mocap_positions(state)
        if positions is not None:
            return np.array(positions), np.tile([1.0, 0.0, 0.0, 0.0], (*positions.shape[:2], 1))
        if not isinstance(engine := self.env.engine, MujocoEngine):
            return None, None
        return np.array(engine.batch.mocap_pos), np.array(engine.batch.mocap_quat)


def set_scene(model: mujoco.MjModel, data: mujoco.MjData, state: SceneState, index: int) -> None:
    """Put one environment's state into `data` and compute where its bodies, cameras and lights are.

    Shapes that differ between episodes are changed in `model`, which must be the caller's own.
    """
    data.qpos[:] = np.nan_to_num(state.qpos[index])
    for name, rows in state.geom_appearance.items():
        geom = model.geom(name)
        geom.size[:], geom.pos[:], geom.quat[:], geom.rgba[:] = np.split(rows[index], (3, 6, 10))
        # Of geoms compiled without an offset or a turn, MuJoCo would go on ignoring these.
        model.geom_sameframe[geom.id] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    if state.mocap_pos is not None and state.mocap_quat is not None:
        data.mocap_pos[:] = state.mocap_pos[index]
        data.mocap_quat[:] = state.mocap_quat[index]
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


def carried_by(model: mujoco.MjModel, bodies: Sequence[int]) -> list[int]:
    """The bodies and all attached to them."""
    carried = set(bodies)
    # A parent's number is smaller than its children's.
    for body in range(1, model.nbody):
        if int(model.body_parentid[body]) in carried:
            carried.add(body)
    return sorted(carried)


def radius_of(model: mujoco.MjModel, body: int) -> float:
    """m, how far the shapes of a body's tree reach from its origin while the joints are at their reference."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    ours = np.isin(model.geom_bodyid, carried_by(model, [body]))
    reach = np.linalg.norm(data.geom_xpos[ours] - data.xpos[body], axis=1) + model.geom_rbound[ours]
    return float(reach.max(initial=0.0)) or float(model.stat.extent)
