"""The Panda with a hand on its flange, at a table: the scene, the palm's frame, inverse kinematics, reachability.

World as in the manipulation tasks: x to the right, y away from the robot, z up, the table's top at z = 0; m and rad.
Positions of the arm's joints are `(7,)`. Poses of the palm are `(3,)` m and `(4,)` wxyz, world from palm.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from embodied.core.scenes import compile_spec
from embodied.math.rotations import matrix_from_quat, quat_angle, quat_from_matrix
from tasks.grasping.hands.hand import MOUNTED, Hand, mounted, set_physics
from tasks.manipulation.common import panda

SCENE = "scenes/table.xml"
ITERATIONS = 80  # of inverse kinematics from each start: poses within reach need 30 to 60
STRIDE = 0.2  # s, of each: no joint moves farther than it could in that time
POS_ERROR, TURN_ERROR = 0.003, 0.03  # m and rad, up to which a pose counts as reached
# rad, joints from which inverse kinematics starts: the hand before the robot, the elbow up; to its left, to its right;
# and with the wrist turned the other ways. The flange looks forwards in all.
STARTS = np.array(
    [
        (base, 0.3, 0.0, -2.0, roll, 2.9, wrist)
        for base in (0.0, 0.7, -0.7)
        for roll, wrist in ((0.0, -0.8), (0.0, 0.8), (0.0, 2.3), (0.0, -2.3), (1.2, 0.8), (-1.2, -0.8))
    ]
)


@dataclasses.dataclass(frozen=True)
class PalmFrame:
    """Pose of a hand's palm on the arm: a constant, because the palm does not move against the flange."""

    pos: np.ndarray
    """(3,) m, the palm's origin in the frame of the gripper (z out of the flange) that `panda` leads, at its tcp."""
    quat: np.ndarray
    """(4,) wxyz, that frame from the palm's."""

    def tcp(self, pos: ArrayLike, quat: ArrayLike) -> tuple[Array, Array]:
        """Position (3,) m and rotation (3, 3) of the gripper's frame that put the palm at a pose."""
        turn = matrix_from_quat(jnp.asarray(quat)) @ matrix_from_quat(jnp.asarray(self.quat)).T
        return jnp.asarray(pos) - turn @ jnp.asarray(self.pos), turn

    def palm(self, joints: Array) -> tuple[Array, Array]:
        """Pose of the palm, (3,) m and (4,) wxyz, with these joints (7,) rad."""
        pos, turn = panda.tcp_pose(joints)
        return pos + turn @ jnp.asarray(self.pos), quat_from_matrix(turn @ matrix_from_quat(jnp.asarray(self.quat)))


def arm_scene(hand: Hand) -> mujoco.MjSpec:
    """Table and Panda with this hand, whose names begin with `MOUNTED`."""
    spec = mounted(hand, SCENE)
    base = spec.body("link0")
    base.pos, base.quat = panda.BASE_POS, panda.BASE_QUAT
    set_physics(spec)
    return spec


def add_palm_sensors(spec: mujoco.MjSpec) -> None:
    """The pose of the hand's palm in the world: palm_pos (3,) m and palm_quat (4,) wxyz."""
    kinds = {"pos": mujoco.mjtSensor.mjSENS_FRAMEPOS, "quat": mujoco.mjtSensor.mjSENS_FRAMEQUAT}
    for suffix, kind in kinds.items():
        site = mujoco.mjtObj.mjOBJ_SITE
        spec.add_sensor(name=f"palm_{suffix}", type=kind, objtype=site, objname=MOUNTED + "palm")


@functools.cache
def palm_frame(hand: Hand) -> PalmFrame:
    """Palm frame of this hand on the arm."""
    model = compile_spec(mounted(hand))
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    palm, link = data.site(MOUNTED + "palm"), data.body("link7")
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.array([np.cos(panda.HAND_TURN / 2), 0, 0, np.sin(panda.HAND_TURN / 2)]))
    gripper = link.xmat.reshape(3, 3) @ turn.reshape(3, 3)
    tcp = link.xpos + gripper[:, 2] * (panda.FLANGE + panda.FINGERTIP)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, (gripper.T @ palm.xmat.reshape(3, 3)).ravel())
    return PalmFrame(gripper.T @ (palm.xpos - tcp), quat)


def follow(hand: Hand, joints: Array, pos: Array, quat: Array, rest: ArrayLike, dt: float) -> Array:
    """Next joint targets (7,) rad on the way to a pose of the palm; see `panda.follow`."""
    target, turn = palm_frame(hand).tcp(pos, quat)
    return panda.follow(joints, target, turn, rest, dt)


def inverse_kinematics(hand: Hand, pos: ArrayLike, quat: ArrayLike, starts: ArrayLike = STARTS) -> Solutions:
    """Joints that put the palm at each of n poses, from each of k starts.

    Args:
        hand: On the arm.
        pos: (n, 3) m.
        quat: (n, 4) wxyz.
        starts: (k, 7) rad, or (n, k, 7) where each pose has its own.
    """
    shape = (len(np.asarray(pos)), *np.shape(starts)[-2:])
    begin = jnp.broadcast_to(jnp.asarray(starts, jnp.float32), shape)
    joints, off, turned = _solve(hand, jnp.asarray(pos, jnp.float32), jnp.asarray(quat, jnp.float32), begin)
    reached = (off < POS_ERROR) & (turned < TURN_ERROR)
    return Solutions(np.asarray(joints), np.asarray(reached))


@dataclasses.dataclass(frozen=True)
class Solutions:
    """Solutions of inverse kinematics for n poses from k starts."""

    joints: np.ndarray
    """(n, k, 7) rad."""
    reached: np.ndarray
    """(n, k) bool, whether the palm is within 3 mm and .03 rad of the pose."""


@functools.partial(jax.jit, static_argnums=0)
def _solve(hand: Hand, pos: Array, quat: Array, starts: Array) -> tuple[Array, Array, Array]:
    """Joints (n, k, 7) rad, and by how much they miss the poses: (n, k) m and rad."""
    frame = palm_frame(hand)
    middle = jnp.asarray(panda.JOINT_LIMITS.mean(1), jnp.float32)

    def towards(pos: Array, quat: Array, start: Array) -> tuple[Array, Array, Array]:
        tcp, turn = frame.tcp(pos, quat)

        def step(joints: Array, _: None) -> tuple[Array, None]:
            # Joints that the pose leaves free move to the middle of their ranges, slowly: they shall not jump.
            return panda.follow(joints, tcp, turn, joints + 0.1 * (middle - joints), STRIDE), None

        joints, _ = jax.lax.scan(step, start, None, length=ITERATIONS)
        reached, turned = frame.palm(joints)
        return joints, jnp.linalg.norm(reached - pos), quat_angle(turned, quat)

    return jax.vmap(jax.vmap(towards, (None, None, 0)))(pos, quat, starts)
