"""Servo targets that hold a legged robot in its home pose, found by letting it stand."""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.errors import ModelError
from embodied.robot.description import NAME
from embodied.robot.files import compiled
from embodied.robot.robot import Robot

CLOSE = 0.03  # rad or m of error that is left as it is
TRIES = 4  # corrections of the servos' targets
SETTLE = 1.5  # s for each
UPRIGHT = 0.9  # cosine of the lean, and
LOWEST = 0.75  # of the height in the home pose, below which the robot did not stand


def settled_targets(robot: Robot, spec: mujoco.MjSpec, qpos: np.ndarray) -> np.ndarray:
    """(nu,) with which the servos hold the home pose on a floor: those of the file's key if they do, else found.

    Servos sag under the weight: targets are moved against the error that is left, a few times over.

    Args:
        spec: Its model with position servos, in the order of its joints; no floor.
        qpos: (nq,) the home pose.

    Raises:
        ModelError: the robot does not stand.
    """
    scene = spec.copy()
    scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0)
    scene.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = compiled(robot.file, scene)
    data = mujoco.MjData(model)
    places = [model.joint(joint.name).qposadr[0] for joint in robot.joints]
    home = np.array([joint.home for joint in robot.joints])
    low = np.array([joint.low for joint in robot.joints])
    high = np.array([joint.high for joint in robot.joints])
    targets = home if robot.home_targets is None else robot.home_targets
    for _ in range(TRIES):
        mujoco.mj_resetData(model, data)
        data.qpos[:] = qpos
        data.ctrl[:] = targets
        while data.time < SETTLE:
            mujoco.mj_step(model, data)
        error = home - data.qpos[places]
        if np.abs(error).max() < CLOSE:
            break
        targets = np.clip(targets + error, np.maximum(low, home - 1), np.minimum(high, home + 1))
    upright = data.xmat[model.body(robot.trunk).id].reshape(3, 3)[2, 2]
    if not np.isfinite(data.qpos).all() or upright < UPRIGHT or data.qpos[2] < LOWEST * qpos[2]:
        raise ModelError(
            f"{robot.file}: its servos do not hold it up: after {SETTLE:g} s the base is at {data.qpos[2]:.2f} of "
            f"{qpos[2]:.2f} m and leans {np.degrees(np.arccos(np.clip(upright, -1, 1))):.0f} degrees; say another "
            f"home, or larger kp or effort, in {NAME}"
        )
    return targets
