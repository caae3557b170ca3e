"""`Arm`: the kinematics of any serial arm, from its compiled model, in JAX.

The chain is a frame for every joint, its origin on the joint's axis and its z along it, so that a joint turns about, or
slides along, the z of its frame; `panda.py` is the same for one robot, with Denavit-Hartenberg's parameters.
Without a batch axis: `jax.vmap` adds it. Joints are walked in a `jax.lax.scan`, which XLA's CPU compiler needs.
"""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from embodied.robot.prepared.arm import ArmModel
from tasks.manipulation.common import panda


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
    def of(cls, arm: ArmModel) -> Arm:
        """The chain from an arm's base to its tip."""
        model, joints = mujoco.MjModel.from_xml_string(arm.xml), arm.joint_names
        data = mujoco.MjData(model)
        data.qpos[:] = model.qpos0
        data.qpos[[int(model.joint(name).qposadr[0]) for name in joints]] = 0.0
        mujoco.mj_kinematics(model, data)
        ids = np.array([model.joint(name).id for name in joints])
        order = np.argsort(ids, kind="stable")  # bodies, and so joints, are numbered from the base outwards
        base = _pose(data.body(arm.source.trunk).xmat, data.body(arm.source.trunk).xpos)
        frames = [base] + [_frame(data.xaxis[joint], data.xanchor[joint]) for joint in ids[order]]
        steps = [np.linalg.solve(before, after) for before, after in itertools.pairwise(frames)]
        end = np.linalg.solve(frames[-1], _pose(data.site("tcp").xmat, data.site("tcp").xpos))
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

    def placed(self, pos: np.ndarray, rot: np.ndarray) -> Arm:
        """The same arm, moved: turned by `rot` (3, 3) about the world's origin, then shifted by `pos` (3,) m."""
        return dataclasses.replace(self, base_rot=rot @ self.base_rot, base_pos=pos + rot @ self.base_pos)

    def tip(self, joints: Array) -> tuple[Array, Array]:
        """Position (3,) m and rotation (3, 3) of the tip in the base's frame, of joints (n,) rad or m."""
        pos, rot, _, _ = self._chain(joints)
        return pos, rot

    def tip_w(self, joints: Array) -> tuple[Array, Array]:
        """The same in the world."""
        pos, rot = self.tip(joints)
        base = jnp.asarray(self.base_rot, jnp.float32)
        return jnp.asarray(self.base_pos, jnp.float32) + base @ pos, base @ rot

    def jacobian(self, joints: Array) -> Array:
        """(6, n) of the tip in the base's frame, columns in the order of actions: m/s over rad/s per rad/s (or m/s)."""
        pos, _, axes, origins = self._chain(joints)
        slides = jnp.asarray(self.slides)[:, None]
        linear = jnp.where(slides, axes, jnp.cross(axes, pos - origins))
        columns = jnp.concatenate([linear, jnp.where(slides, 0.0, axes)], axis=1)
        return columns[np.argsort(self.order)].T

    def follow(
        self, joints: Array, pos: Array, rot: ArrayLike, rest: ArrayLike, step: ArrayLike, limits: np.ndarray
    ) -> Array:
        """Next joint targets (n,) rad or m on the way to a pose of the tip: `panda.follow` for any arm.

        Args:
            joints: (n,) rad or m, the last targets.
            pos: (3,) m, world, for the tip.
            rot: (3, 3) world from tip, within 90 degrees of the tip's.
            rest: (n,) rad or m, where the joints draw as far as the pose leaves them free.
            step: (n,) rad or m, the most by which each joint moves.
            limits: (n, 2) rad or m.
        """
        base = jnp.asarray(self.base_rot, jnp.float32)
        here, turned = self.tip(joints)
        wanted = base.T @ jnp.asarray(rot, jnp.float32)
        turn = 0.5 * jnp.sum(jnp.cross(turned.T, wanted.T), axis=0)
        error = jnp.concatenate(
            [base.T @ (pos - jnp.asarray(self.base_pos, jnp.float32)) - here, panda.TURN_WEIGHT * turn]
        )
        weights = np.array([1.0] * 3 + [panda.TURN_WEIGHT] * 3, np.float32)[:, None]
        jacobian = weights * self.jacobian(joints)
        pull = panda.REST_GAIN * (jnp.asarray(rest) - joints)
        gram, left = jacobian @ jacobian.T, error - jacobian @ pull
        lower = tuple(tuple(gram[r, c] + (panda.DAMPING**2 if r == c else 0.0) for c in range(r + 1)) for r in range(6))
        move = pull + jacobian.T @ jnp.stack(panda.solved(lower, tuple(left)))
        move = move / jnp.maximum(jnp.max(jnp.abs(move) / step), 1.0)
        return jnp.clip(joints + move, limits[:, 0], limits[:, 1])

    def _chain(self, joints: Array) -> tuple[Array, Array, Array, Array]:
        """Tip (3,) m and (3, 3), axes (n, 3) and origins (n, 3) m of the joints in the chain's order; base's frame."""

        def add(frame: tuple[Array, Array], link: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            rot, pos = frame
            turn, offset, slide, cosine, sine = link
            pos, rot = pos + rot @ offset, rot @ turn
            x, y = cosine * rot[:, 0] + sine * rot[:, 1], cosine * rot[:, 1] - sine * rot[:, 0]
            return (jnp.stack([x, y, rot[:, 2]], axis=1), pos + slide * rot[:, 2]), (rot[:, 2], pos)

        q = jnp.asarray(joints)[self.order]
        slide = jnp.asarray(self.slides)
        angle = jnp.where(slide, 0.0, q)
        links = tuple(jnp.asarray(array, jnp.float32) for array in (self.rotations, self.offsets))
        start = (jnp.eye(3) + 0.0 * q[0], jnp.zeros(3) + 0.0 * q[0])
        moved = (*links, jnp.where(slide, q, 0.0), jnp.cos(angle), jnp.sin(angle))
        (rot, pos), (axes, origins) = jax.lax.scan(add, start, moved)
        tip_pos, tip_rot = (jnp.asarray(array, jnp.float32) for array in (self.tip_pos, self.tip_rot))
        return pos + rot @ tip_pos, rot @ tip_rot, axes, origins


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
