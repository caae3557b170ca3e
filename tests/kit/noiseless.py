"""One environment of a task without noise, and what a perfect robot would measure in it."""

from __future__ import annotations

import dataclasses
import functools

import jax
import mujoco
import numpy as np

from embodied.env.env import Env
from sim2real.contract.contract import Contract
from sim2real.robots.base import Measurement
from tests.kit.budget import sharing
from tests.kit.bundles import contract_of
from tests.kit.worlds import build_env, task_of


@functools.cache
def noiseless(name: str) -> tuple[Env, Contract]:
    """One environment, which tests reset before they use it, and its contract."""
    config = task_of(name).config
    quiet = {"without": ("all",)} if hasattr(config, "without") else {"noise": False}
    with sharing(f"{name} without noise"):
        task = type(task_of(name))(dataclasses.replace(config, **quiet))
        env = build_env(task, "mujoco", 1)
        env.reset(seed=0)
    return env, contract_of(name)


def measured(env: Env, contract: Contract) -> Measurement:
    """What a perfect robot would measure in the environment's present state."""
    world = jax.tree.map(lambda leaf: np.asarray(leaf[0]), env.world())
    model = env.task.model
    joints = [model.joint(joint.name) for joint in contract.joints]
    orientation = np.asarray(world["orientation"], float)
    if "linvel" in world.layout.names:  # what a legged robot observes is the velocity of its IMU
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, orientation)
        linvel = matrix.reshape(3, 3) @ np.asarray(world["linvel"], float)
    else:
        linvel = np.asarray(world["linvel_w"], float)
    return Measurement(
        time=0.0,
        joint_pos=world.qpos[[joint.qposadr[0] for joint in joints]].astype(float) if joints else None,
        joint_vel=world.qvel[[joint.dofadr[0] for joint in joints]].astype(float) if joints else None,
        gyro=np.asarray(world["gyro"], float),
        orientation=orientation,
        position=np.asarray(world["position"], float),
        linvel=linvel,
    )
