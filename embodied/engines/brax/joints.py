"""Where the joints of links are: axes, angles, and how far each has come apart. One row per link of Brax's system.

A joint here is all that connects a link to its parent: up to three hinges and slides, which MuJoCo lists one by one.
The directions that none of them frees are *locked*; an error along them is what a pipeline has to correct.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from brax import kinematics
from brax.base import Motion, Transform
from jax import Array

from embodied.engines.sensors import cross, multiply, rotate, rotate_inverse

HINGE, SLIDE, FREE = (int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("HINGE", "SLIDE", "FREE"))


@dataclasses.dataclass(frozen=True)
class JointTable:
    """The constant part of a model's joints."""

    parent: np.ndarray
    """(links,) index of the parent link; `links` for the world."""
    under: np.ndarray
    """(links + 1, links) 1 where the row is the parent of the column."""
    free: np.ndarray
    """(links,) bool, whether nothing holds the link."""
    axes: np.ndarray
    """(links, 3, 3) unit vectors, link frame, one row per degree of freedom in MuJoCo's order; 0 if there is none."""
    hinge: np.ndarray
    """(links, 3) bool."""
    slide: np.ndarray
    """(links, 3) bool."""
    dof: np.ndarray
    """(links, 3) addresses in qvel; nv where there is none."""
    position: np.ndarray
    """(links, 3) addresses in qpos; nq where there is none."""
    low: np.ndarray
    """(links, 3) rad or m, limits of qpos; infinite where there is none."""
    high: np.ndarray
    """(links, 3) rad or m."""
    reference: np.ndarray
    """(nq,) what to add to Brax's coordinates of hinges and slides to have MuJoCo's; 0 elsewhere."""
    endless: np.ndarray
    """(nq,) bool, hinges, whose angle Brax knows up to whole turns only."""
    free_dofs: np.ndarray
    """(6 k,) addresses in qvel of the free joints."""
    size: int
    """nv."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel) -> JointTable:
        """Look up what connects which link to which."""
        links = model.nbody - 1
        shape = (links, 3)
        axes, kind = np.zeros((links, 3, 3)), np.full(shape, -1)
        dof, position = np.full(shape, model.nv), np.full(shape, model.nq)
        low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
        reference, endless = np.zeros(model.nq), np.zeros(model.nq, bool)
        for joint in np.flatnonzero(model.jnt_type != FREE):
            link = int(model.jnt_bodyid[joint]) - 1
            place = link, int(joint - model.body_jntadr[link + 1])
            axes[place], kind[place] = model.jnt_axis[joint], model.jnt_type[joint]
            dof[place], position[place] = model.jnt_dofadr[joint], model.jnt_qposadr[joint]
            if model.jnt_limited[joint]:
                low[place], high[place] = model.jnt_range[joint]
            reference[position[place]] = model.qpos0[position[place]]
            endless[position[place]] = kind[place] == HINGE
        parent = np.where(model.body_parentid[1:] == 0, links, model.body_parentid[1:] - 1)
        free = np.isin(np.arange(1, model.nbody), model.jnt_bodyid[model.jnt_type == FREE])
        under = (np.arange(links + 1)[:, None] == parent).astype(float)
        hinge, slide = kind == HINGE, kind == SLIDE
        free_dofs = np.flatnonzero(model.jnt_type[model.dof_jntid] == FREE)
        return cls(
            parent, under, free, axes, hinge, slide, dof, position, low, high, reference, endless, free_dofs, model.nv
        )

    def values(self, per_dof: Array) -> Array:
        """(links, 3) of (nv,), 0 where there is no degree of freedom."""
        return jnp.append(per_dof, 0.0)[self.dof]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Joints:
    """The joints at one instant; vectors in the world frame."""

    point: Array
    """(links, 3) m, the joint's place, as the link has it."""
    gap: Array
    """(links, 3) m, from where the parent has it to `point`, along locked directions."""
    tilt: Array
    """(links, 3) rad, the link's rotation against its parent about locked directions."""
    hinges: Array
    """(links, 3, 3) axes of the hinges; 0 where there is none."""
    turns: Array
    """(links, 3, 3) their dual vectors: the rate of a hinge is its dual vector times the relative angular velocity."""
    slides: Array
    """(links, 3, 3) axes of the slides; 0 where there is none."""
    shifts: Array
    """(links, 3, 3) their dual vectors."""
    locked_shift: Array
    """(links, 3, 3) projector onto the locked translations; 0 for free links."""
    locked_turn: Array
    """(links, 3, 3) projector onto the locked rotations."""
    qpos: Array
    """(nq,) in MuJoCo's coordinates."""
    beyond: Array
    """(links, 3) rad or m, how far each degree of freedom is beyond its limits, signed."""


def joints(table: JointTable, system: Any, x: Transform, near: Array) -> Joints:
    """The joints of links at the poses `x` of their frames; angles are the ones nearest to those in `near` (nq,)."""
    still = Motion(vel=jnp.zeros_like(x.pos), ang=jnp.zeros_like(x.pos))
    relative, motion, on_parent, on_child = kinematics.world_to_joint(system, x, still)
    q, _ = kinematics.inverse(system, relative, motion)
    qpos = q + table.reference
    qpos = jnp.where(table.endless, near + jnp.remainder(qpos - near + jnp.pi, 2 * jnp.pi) - jnp.pi, qpos)
    frame, hinges, slides = on_parent.rot, [], []
    for k in range(3):
        axis = rotate(jnp, frame, jnp.asarray(table.axes[:, k]))
        hinges.append(axis * table.hinge[:, k, None])
        slides.append(axis * table.slide[:, k, None])
        half = 0.5 * jnp.append(q, 0.0)[table.position[:, k]][:, None] * table.hinge[:, k, None]
        turn = jnp.concatenate([jnp.cos(half), jnp.sin(half) * table.axes[:, k]], axis=1)
        frame = multiply(jnp, frame, turn)
    hinges, slides = jnp.stack(hinges, axis=1), jnp.stack(slides, axis=1)
    turns, locked_turn = span(hinges, table.hinge)
    shifts, locked_shift = span(slides, table.slide)
    held = ~table.free[:, None, None]
    locked_turn, locked_shift = locked_turn * held, locked_shift * held
    off = multiply(jnp, on_child.rot, frame * np.array([1.0, -1.0, -1.0, -1.0]))
    tilt = 2.0 * jnp.where(off[:, :1] < 0, -1.0, 1.0) * off[:, 1:]
    along = jnp.append(qpos, 0.0)[table.position]
    return Joints(
        point=on_child.pos,
        gap=apply(locked_shift, on_child.pos - on_parent.pos),
        tilt=apply(locked_turn, tilt),
        hinges=hinges,
        turns=turns,
        slides=slides,
        shifts=shifts,
        locked_shift=locked_shift,
        locked_turn=locked_turn,
        qpos=qpos,
        beyond=along - jnp.clip(along, table.low, table.high),
    )


def rates(table: JointTable, now: Joints, x: Transform, vel: Array, angvel: Array) -> Array:
    """(nv,) qvel of the motions of links: `vel` of the origins of their frames, world frame."""
    whole = jnp.concatenate([vel, rotate_inverse(jnp, x.rot, angvel)], axis=1)[table.free]
    padded_vel, padded_ang = (jnp.concatenate([rows, jnp.zeros((1, 3))]) for rows in (vel, angvel))
    place = jnp.concatenate([x.pos, jnp.zeros((1, 3))])
    shift = vel + cross(jnp, angvel, now.point - x.pos)
    shift -= padded_vel[table.parent] + cross(jnp, padded_ang[table.parent], now.point - place[table.parent])
    turn = angvel - padded_ang[table.parent]
    per_slot = jnp.einsum("lki,li->lk", now.turns, turn) + jnp.einsum("lki,li->lk", now.shifts, shift)
    used = np.flatnonzero(table.dof.reshape(-1) < table.size)
    held = jnp.zeros(table.size).at[table.dof.reshape(-1)[used]].set(per_slot.reshape(-1)[used])
    return held.at[table.free_dofs].set(whole.reshape(-1))


def drift(table: JointTable, now: Joints, angvel: Array) -> Array:
    """(nv,) rad/s^2 by which hinges would slow down if relative angular velocities did not change.

    It is the turning of their axes, and 0 where a hinge is alone: its axis is fixed in both links.
    """
    several = np.flatnonzero(table.hinge.sum(axis=1) > 1)
    result = jnp.zeros(table.size)
    if not len(several):
        return result
    frame = jnp.concatenate([angvel, jnp.zeros((1, 3))])[table.parent[several]]
    axes, duals = now.hinges[several], now.turns[several]
    speeds = jnp.einsum("lki,li->lk", duals, angvel[several] - frame)
    change = jnp.zeros_like(frame)
    for k in range(3):
        rate = axes[:, k] * speeds[:, k, None]
        change += cross(jnp, frame, rate)
        frame += rate
    used = table.hinge[several]
    return result.at[table.dof[several][used]].set(jnp.einsum("lki,li->lk", duals, change)[used])


def motions(table: JointTable, now: Joints, x: Transform, qvel: Array) -> tuple[Array, Array]:
    """Velocities of the origins of the links' frames and angular velocities (links, 3), world frame: undoes `rates`."""
    links = len(table.parent)
    whole = iter(qvel[table.free_dofs].reshape(-1, 6))
    along = table.values(qvel)
    shift = jnp.einsum("lk,lki->li", along, now.slides)
    turn = jnp.einsum("lk,lki->li", along, now.hinges)
    zero = jnp.zeros(3)
    vel, ang, place = [zero] * links, [zero] * links, [*x.pos, zero]
    for link in range(links):  # parents come first
        if table.free[link]:
            own = next(whole)
            vel[link], ang[link] = own[:3], rotate(jnp, x.rot[link], own[3:])
            continue
        parent = int(table.parent[link])
        above, spin = ([*rows, zero][parent] for rows in (vel, ang))
        ang[link] = spin + turn[link]
        at_joint = above + cross(jnp, spin, now.point[link] - place[parent]) + shift[link]
        vel[link] = at_joint - cross(jnp, ang[link], now.point[link] - place[link])
    return jnp.stack(vel), jnp.stack(ang)


def span(axes: Array, present: np.ndarray) -> tuple[Array, Array]:
    """Dual vectors of axes, and the projector onto what they leave out.

    Args:
        axes: (..., 3, 3) vectors as rows, 0 where not `present`.
        present: (..., 3) bool.
    """
    gram = jnp.einsum("...ki,...li->...kl", axes, axes) + np.eye(3) * (~present)[..., None, :]
    dual = jnp.einsum("...kl,...li->...ki", inverse(gram), axes)
    return dual, jnp.eye(3) - jnp.einsum("...ki,...kj->...ij", axes, dual)


def inverse(matrix: Array) -> Array:
    """The inverse of matrices (..., 3, 3)."""
    a, b, c = matrix[..., 0, :], matrix[..., 1, :], matrix[..., 2, :]
    cofactors = jnp.stack([cross(jnp, b, c), cross(jnp, c, a), cross(jnp, a, b)], axis=-1)
    return cofactors / jnp.sum(a * cofactors[..., :, 0], axis=-1)[..., None, None]


def apply(matrix: Array, vector: Array) -> Array:
    """Matrices (..., 3, 3) times vectors (..., 3)."""
    return jnp.einsum("...ij,...j->...i", matrix, vector)
