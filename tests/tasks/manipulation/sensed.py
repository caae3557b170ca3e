"""Tasks asked about sensor readings, and about idle worlds: without an environment, hence fast."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.world import World
from tests.tasks.manipulation.test_metaworld import start_of


def outcomes(name: str, readings: dict[str, np.ndarray]) -> np.ndarray:
    """Success (n) where named sensors read (n, size), all others as at the start from the draw that is known."""
    task, start = start_of(name)
    world = World.posed(task.model, start.qpos, start.qvel, start.mocap_pos)
    rows = np.tile(np.asarray(world.sensordata), (len(next(iter(readings.values()))), 1))
    for sensor, values in readings.items():
        rows[:, world.layout.slices[sensor]] = values
    solved = jax.vmap(lambda row: task.solved(dataclasses.replace(world, sensordata=row), start.task_state))
    return np.asarray(solved(jnp.asarray(rows, jnp.float32)))


def idle(name: str, **joints: float) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Model and data at the start from the draw that is known, the arm's servos at rest; some joints elsewhere."""
    task, start = start_of(name)
    data = mujoco.MjData(task.model)
    data.qpos = start.qpos
    for joint, value in joints.items():
        data.joint(joint).qpos = value
    if start.mocap_pos is not None:
        data.mocap_pos = start.mocap_pos
    data.ctrl[:7], data.ctrl[7] = data.qpos[:7], -1.0
    mujoco.mj_forward(task.model, data)
    return task.model, data


def settles(name: str) -> tuple[float, float]:
    """The deepest contact at the start, and how far the first object moves in a second, m."""
    model, data = idle(name)
    depth = max([0.0, *(-data.contact.dist)])
    before = data.sensor("object1_pos").data.copy()
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    return depth, float(np.linalg.norm(data.sensor("object1_pos").data - before))


def cost(task: Any) -> tuple[int, int]:
    """Pairs of shapes that may meet, and contacts that MJX-JAX makes room for."""
    import pytest

    from embodied.engines.mjx.buffers import admitted_pairs

    mjx = pytest.importorskip("mujoco.mjx")
    return admitted_pairs(task.model), mjx.make_data(task.model, impl="jax")._impl.contact.dist.shape[0]
