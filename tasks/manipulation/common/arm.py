"""`Arm`: the kinematics of any serial arm, from its compiled model, in JAX.

The chain is a frame for every joint, its origin on the joint's axis and its z along it, so that a joint turns about, or
slides along, the z of its frame; `panda.py` is the same for one robot, with Denavit-Hartenberg's parameters written out.
Without a batch axis: `jax.vmap` adds it. Joints are walked in a `jax.lax.scan`, which XLA's CPU compiler needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array


@dataclasses.dataclass(frozen=True)
class Arm:
    """A chain of n hinges and slides from a fixed base to a tip."""

    order: np.ndarray
    """(n,) which joint, in the order of actions, comes first, second ... from the base."""
    rotations: np.ndarray
    """(n, 3, 3) from the frame before to each joint's, at angle zero; the first one from the base's."""
    offsets: np.ndarray
    """(n, 3) m, likewise."""
    slides: np.ndarray
    """(n,) bool, in the chain's order."""
    tip_rot: np.ndarray
    """(3, 3) last joint's frame from tip."""
    tip_pos: np.ndarray
    """(3,) m, the tip in the last joint's frame."""
    base_rot: np.ndarray
    """(3, 3) world from base."""
    base_pos: np.ndarray
    """(3,) m, the base in the world."""

    @classmethod
    def of(cls, model: mujoco.MjModel, joints: Sequence[str], root: str, tip: str) -> Arm:
        """The chain of named joints (in the order of actions) between the body `root` and the site `tip`."""
        data = mujoco.MjData(model)
        data.qpos[:] = model.qpos0
        data.qpos[[int(model.joint(name).qposadr[0]) for name in joints]] = 0.0
        mujoco.mj_kinematics(model, data)
        ids = np.array([model.joint(name).id for name in joints])
        order = np.argsort(ids, kind="stable")  # bodies, and so joints, are numbered from the base outwards
        base = _pose(data.body(root).xmat, data.body(root).xpos)
        frames = [base] + [_frame(data.xaxis[joint], data.xanchor[joint]) for joint in ids[order]]
        steps = [np.linalg.solve(before, after) for before, after in zip(frames, frames[1:], strict=False)]
        end = np.linalg.solve(frames[-1], _pose(data.site(tip).xmat, data.site(tip).xpos))
        return cls(
            order=order,
            rotations=np.array([step[:3, :3] for step in steps]),
            offsets=np.array([step[:3, 3] for step in steps]),
            slides=model.jnt_type[ids[order]] == int(mujoco.mjtJoint.mjJNT_SLIDE),
            tip_rot=end[:3, :3],
            tip_pos=end[:3, 3],
            base_rot=base[:3, :3],
            base_pos=base[:3, 3],
        )

    def tip(self, joints: Array) -> tuple[Array, Array]:
        """Position (3,) m and rotation (3, 3) of the tip in the base's frame, of joints (n,) rad or m."""

        def add(frame: tuple[Array, Array], link: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
            rot, pos = frame
            turn, offset, slide, cosine, sine = link
            pos, rot = pos + rot @ offset, rot @ turn
            pos = pos + slide * rot[:, 2]
            x, y = cosine * rot[:, 0] + sine * rot[:, 1], cosine * rot[:, 1] - sine * rot[:, 0]
            return (jnp.stack([x, y, rot[:, 2]], axis=1), pos), None

        q = jnp.asarray(joints)[self.order]
        slide = jnp.asarray(self.slides)
        angle = jnp.where(slide, 0.0, q)
        links = tuple(jnp.asarray(array, jnp.float32) for array in (self.rotations, self.offsets))
        start = (jnp.eye(3) + 0.0 * q[0], jnp.zeros(3) + 0.0 * q[0])
        (rot, pos), _ = jax.lax.scan(add, start, (*links, jnp.where(slide, q, 0.0), jnp.cos(angle), jnp.sin(angle)))
        return pos + rot @ jnp.asarray(self.tip_pos, jnp.float32), rot @ jnp.asarray(self.tip_rot, jnp.float32)

    def jacobian(self, joints: Array) -> Array:
        """(6, n) of the tip in the base's frame, columns in the order of actions: m/s over rad/s per rad/s (or m/s)."""
        linear = jax.jacfwd(lambda q: self.tip(q)[0])(joints)
        turned = jax.jacfwd(lambda q: self.tip(q)[1])(joints)
        skew = jnp.einsum("ikn,jk->ijn", turned, self.tip(joints)[1])
        return jnp.concatenate([linear, jnp.stack([skew[2, 1], skew[0, 2], skew[1, 0]])])


def _pose(rotation: np.ndarray, position: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.asarray(rotation).reshape(3, 3), position
    return pose


def _frame(axis: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """(4, 4) a frame whose z is an axis."""
    side = np.eye(3)[int(np.abs(axis).argmin())]
    x = side - axis * (side @ axis)
    x /= np.linalg.norm(x)
    return _pose(np.stack([x, np.cross(axis, x), axis], axis=1), origin)
