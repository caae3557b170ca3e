"""MuJoCo's coordinates of joints as Brax's and back: references, free joints' unit quaternions, ball joints.

A ball joint is three hinges of Brax's, about x, y and z, that stand at zero: their frame is moved to where the joint
is before each step. So their rates are its angular velocity, and they are never near their singularity.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.engines.brax.model import BALL, FREE, IDENTITY
from embodied.engines.sensors import multiply, rotate_inverse


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """Mapping of Brax's coordinates (one a degree of freedom, seven a free joint) to MuJoCo's."""

    address: np.ndarray
    """(coordinates,) in qpos; of ball joints, the first three of the quaternion's."""
    reference: np.ndarray
    """(coordinates,) rad or m, MuJoCo's value where Brax's is 0."""
    turning: np.ndarray
    """(free joints, 4) coordinates that are a free joint's quaternion."""
    balls: np.ndarray
    """(ball joints, 3) coordinates that are a ball joint's hinges."""
    ball_dofs: np.ndarray
    """(ball joints, 3) addresses in qvel."""
    ball_address: np.ndarray
    """(ball joints, 4) of the quaternions in qpos."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel) -> Coordinates:
        """Number the coordinates, joint by joint."""
        address, reference, turning, balls = [], [], [], []
        for joint, start in enumerate(model.jnt_qposadr):
            kind, count = int(model.jnt_type[joint]), len(address)
            width = {FREE: 7, BALL: 3}.get(kind, 1)
            address += range(start, start + width)
            reference += [0.0] * width if kind in (FREE, BALL) else [model.qpos0[start]]
            if kind == FREE:
                turning.append(range(count + 3, count + 7))
            elif kind == BALL:
                balls.append(range(count, count + 3))
        ball_joints = model.jnt_type == BALL
        return cls(
            address=np.array(address, int),
            reference=np.array(reference, float),
            turning=np.array(turning, int).reshape(-1, 4),
            balls=np.array(balls, int).reshape(-1, 3),
            ball_dofs=model.jnt_dofadr[ball_joints][:, None] + np.arange(3),
            ball_address=model.jnt_qposadr[ball_joints][:, None] + np.arange(4),
        )

    def of(self, qpos: Array) -> Array:
        """Brax's coordinates, with unit quaternions and ball joints at zero."""
        q = qpos[self.address] - self.reference
        quat = q[self.turning]
        q = q.at[self.turning].set(quat / jnp.linalg.norm(quat, axis=-1, keepdims=True))
        return q.at[self.balls].set(0.0)

    def orientations(self, qpos: Array) -> Array:
        """(ball joints, 4) wxyz, unit."""
        quat = qpos[self.ball_address]
        return quat / jnp.linalg.norm(quat, axis=-1, keepdims=True)

    def after(self, qpos: Array, q: Array, qd: Array) -> tuple[Array, Array]:
        """MuJoCo's qpos and qvel of Brax's coordinates after a step that began at `qpos` (nq,)."""
        after = qpos.at[self.address].set(q + self.reference)
        if not len(self.balls):
            return after, qd
        angles, rates = q[self.balls], qd[self.ball_dofs]
        turn, spin = jnp.tile(jnp.asarray(IDENTITY, jnp.float32), (len(self.balls), 1)), jnp.zeros_like(rates)
        for k, axis in enumerate(np.eye(3)):
            half = 0.5 * angles[:, k, None]
            own = jnp.concatenate([jnp.cos(half), jnp.sin(half) * axis], axis=1)
            spin = rotate_inverse(jnp, own, spin) + rates[:, k, None] * axis
            turn = multiply(jnp, turn, own)
        quat = multiply(jnp, self.orientations(qpos), turn)
        after = after.at[self.ball_address].set(quat / jnp.linalg.norm(quat, axis=1, keepdims=True))
        return after, qd.at[self.ball_dofs].set(spin)
