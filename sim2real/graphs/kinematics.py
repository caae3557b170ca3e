"""Sensors that follow from joint positions: where a part of a robot with a fixed base is, by forward kinematics.

A robot measures its joints, not the place of its hand: the task's sensors of that are computed in the graph.
"""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.math.rotations import quat_multiply, quat_rotate

AXES = {
    int(mujoco.mjtSensor.mjSENS_FRAMEXAXIS): (1.0, 0.0, 0.0),
    int(mujoco.mjtSensor.mjSENS_FRAMEYAXIS): (0.0, 1.0, 0.0),
    int(mujoco.mjtSensor.mjSENS_FRAMEZAXIS): (0.0, 0.0, 1.0),
}
POS, QUAT = int(mujoco.mjtSensor.mjSENS_FRAMEPOS), int(mujoco.mjtSensor.mjSENS_FRAMEQUAT)
HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)


def derived(model: mujoco.MjModel) -> tuple[str, ...]:
    """Sensors that the driven joints of fixed bases decide."""
    return tuple(model.sensor(number).name for number in range(model.nsensor) if _is_derived(model, number))


def readings(model: mujoco.MjModel, qpos: Array) -> dict[str, Array]:
    """Sensor -> its reading (size,), of all that are `derived`.

    Args:
        model: Of the task.
        qpos: (nq,) m, rad.
    """
    poses: dict[int, tuple[Array, Array]] = {}
    found = {}
    for name in derived(model):
        number = int(model.sensor(name).id)
        frame = _frame(model, number)
        assert frame is not None
        body, at, turn = frame
        pos, quat = _pose(model, body, qpos, poses)
        kind = int(model.sensor_type[number])
        turned = quat_multiply(quat, turn)
        if kind == POS:
            found[name] = pos + quat_rotate(quat, at)
        else:
            found[name] = turned if kind == QUAT else quat_rotate(turned, jnp.array(AXES[kind]))
    return found


def _is_derived(model: mujoco.MjModel, number: int) -> bool:
    kind = int(model.sensor_type[number])
    if kind not in (POS, QUAT, *AXES) or int(model.sensor_refid[number]) >= 0 or model.sensor_cutoff[number]:
        return False
    frame = _frame(model, number)
    return bool(model.sensor(number).name) and frame is not None and _decided(model, frame[0])


def _frame(model: mujoco.MjModel, sensor: int) -> tuple[int, Array, Array] | None:
    """Body, and position (3,) m and quaternion (4,) wxyz in its frame, of what a sensor is on."""
    kind, number, types = int(model.sensor_objtype[sensor]), int(model.sensor_objid[sensor]), mujoco.mjtObj
    if kind == int(types.mjOBJ_SITE):
        return int(model.site_bodyid[number]), jnp.asarray(model.site_pos[number]), jnp.asarray(model.site_quat[number])
    if kind == int(types.mjOBJ_XBODY):
        return number, jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0])
    if kind == int(types.mjOBJ_BODY):
        return number, jnp.asarray(model.body_ipos[number]), jnp.asarray(model.body_iquat[number])
    return None


def _chain(model: mujoco.MjModel, body: int) -> list[int]:
    """Bodies from the world's child to one."""
    chain = []
    while body > 0:
        chain.append(body)
        body = int(model.body_parentid[body])
    return chain[::-1]


def _joints(model: mujoco.MjModel, body: int) -> range:
    return range(int(model.body_jntadr[body]), int(model.body_jntadr[body]) + int(model.body_jntnum[body]))


def _decided(model: mujoco.MjModel, body: int) -> bool:
    """Whether driven hinges and slides, one at least, are all that moves a body."""
    chain = _chain(model, body)
    if any(int(model.body_mocapid[one]) >= 0 for one in chain):
        return False
    on_joint = model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_JOINT)
    driven = {int(joint) for joint in model.actuator_trnid[on_joint, 0]}
    joints = [joint for one in chain for joint in _joints(model, one)]
    return bool(joints) and all(j in driven and int(model.jnt_type[j]) in (HINGE, SLIDE) for j in joints)


def _pose(model: mujoco.MjModel, body: int, qpos: Array, known: dict[int, tuple[Array, Array]]) -> tuple[Array, Array]:
    """Position (3,) m and quaternion (4,) wxyz of a body in the world; kept in `known`."""
    if body == 0:
        return jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0])
    if body in known:
        return known[body]
    pos, quat = _pose(model, int(model.body_parentid[body]), qpos, known)
    pos = pos + quat_rotate(quat, jnp.asarray(model.body_pos[body]))
    quat = quat_multiply(quat, jnp.asarray(model.body_quat[body]))
    for joint in _joints(model, body):
        place = int(model.jnt_qposadr[joint])
        moved = qpos[place] - float(model.qpos0[place])
        axis, anchor = jnp.asarray(model.jnt_axis[joint]), jnp.asarray(model.jnt_pos[joint])
        if int(model.jnt_type[joint]) == SLIDE:
            pos = pos + quat_rotate(quat, axis) * moved
            continue
        fixed = pos + quat_rotate(quat, anchor)
        quat = quat_multiply(quat, jnp.concatenate([jnp.cos(moved / 2)[None], jnp.sin(moved / 2) * axis]))
        pos = fixed - quat_rotate(quat, anchor)
    known[body] = pos, quat
    return pos, quat
