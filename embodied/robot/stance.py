"""Servo targets that hold a legged robot in its home pose: found by letting it stand, or from the balance of forces."""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.core.scenes import one_line
from embodied.errors import ModelError
from embodied.robot.description import NAME
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
        robot: What was understood.
        spec: Its model with position servos, in the order of its joints; no floor.
        qpos: (nq,) the home pose.

    Raises:
        ModelError: the robot does not stand.
    """
    scene = spec.copy()
    scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0)
    scene.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    try:
        model = scene.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(f"{robot.file}: on a floor, MuJoCo does not compile it: {one_line(error)}") from None
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


def static_targets(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray, stiffness: np.ndarray) -> np.ndarray:
    """(nu,) with which the home pose is in balance, though perhaps not a stable one: a biped's, which must step.

    The ground pushes upwards on every foot, each by its share of the weight, at points that lie together below the
    centre of mass. A servo's torque is what gravity and these forces leave to it; its target, that torque over its
    stiffness ahead of the pose.

    Args:
        robot: What was understood.
        model: With sites `foot_NAME` on the soles.
        qpos: (nq,) the home pose.
        stiffness: (n,) N m/rad of the servos, in the order of the robot's joints.

    Raises:
        ModelError: a joint is too weak.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    weight = robot.mass * float(np.linalg.norm(model.opt.gravity))
    centre = data.subtree_com[model.body(robot.trunk).id]
    soles = np.array([data.site(f"foot_{foot}").xpos for foot in robot.feet])
    share = _shares(soles[:, 1] - centre[1])
    ahead = float(centre[0] - share @ soles[:, 0])
    load = np.zeros(model.nv)
    for foot, sole, part in zip(robot.feet, soles, share, strict=True):
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, jacobian, None, sole + np.array([ahead, 0.0, 0.0]), model.body(foot).id)
        load += part * weight * jacobian[2]
    dofs = [int(model.joint(joint.name).dofadr[0]) for joint in robot.joints]
    torques = (data.qfrc_bias - data.qfrc_passive - load)[dofs]
    for joint, torque in zip(robot.joints, torques, strict=True):
        if abs(torque) > joint.servo.effort:
            raise ModelError(
                f"{robot.file}: to stand, {joint.name} must give {abs(torque):.3g} N m, and its effort is "
                f"{joint.servo.effort:.3g}; say another home, or a larger effort, in {NAME}"
            )
    return np.array([joint.home for joint in robot.joints]) + torques / stiffness


def _shares(sideways: np.ndarray) -> np.ndarray:
    """(k,) how the weight is spread, evenly if that balances, over feet `sideways` (k,) m of the centre of mass."""
    rows = np.stack([np.ones_like(sideways), sideways])
    shares = np.linalg.lstsq(rows, np.array([1.0, 0.0]), rcond=None)[0]
    return np.clip(shares, 0.0, 1.0)
