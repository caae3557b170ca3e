"""How links answer to impulses, the rotors of geared motors included.

MuJoCo's armature is the inertia of a rotor that turns with a joint, A times the joint's rate. In maximal coordinates
it couples the two links of the joint: their angular inertia is I + S' A S, where S maps angular velocities of links
to rates of joints. Its inverse comes from Woodbury's formula with one small matrix for all joints that have a rotor.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from brax.base import Transform
from jax import Array

from embodied.engines.brax.joints import Joints, JointTable, apply, inverse
from embodied.engines.sensors import multiply, rotate


@dataclasses.dataclass(frozen=True)
class Rotors:
    """The hinges that have armature."""

    link: np.ndarray
    """(k,) their links."""
    slot: np.ndarray
    """(k,) which of the link's hinges it is."""
    inverse_inertia: np.ndarray
    """(k,) 1 / (kg m^2)."""
    sign: np.ndarray
    """(k, links + 1) 1 for the link, -1 for its parent."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel, table: JointTable) -> Rotors:
        """Look up where there is armature."""
        armature = np.append(model.dof_armature, 0.0)[table.dof]
        link, slot = np.nonzero((armature > 0) & table.hinge)
        sign = np.zeros((len(link), len(table.parent) + 1))
        sign[np.arange(len(link)), link] = 1.0
        sign[np.arange(len(link)), table.parent[link]] = -1.0
        return cls(link, slot, 1.0 / armature[link, slot], sign)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Response:
    """What an impulse does to the links; the last row is the world, which nothing moves."""

    inverse_mass: Array
    """(links + 1,) 1 / kg."""
    inverse_inertia: Array
    """(links + 1, links + 1, 3, 3) 1 / (kg m^2), the angular velocity of one link for an angular impulse on another."""

    def kick(self, linear: Array, angular: Array) -> tuple[Array, Array]:
        """Changes of velocity and angular velocity (links + 1, 3) by impulses (links + 1, 3) at centres of mass."""
        turn = jnp.einsum("ijab,jb->ia", self.inverse_inertia, angular)
        return linear * self.inverse_mass[:, None], turn

    def turning(self, first: Any, second: Any) -> Array:
        """(k, 3, 3) relative angular velocity for an angular impulse between links."""
        of = self.inverse_inertia
        return of[first, first] - of[first, second] - of[second, first] + of[second, second]

    def shifting(self, first: Any, second: Any, arm: Array, other_arm: Array) -> Array:
        """(k, 3, 3) relative velocity for an impulse between points of links, `arm` (k, 3) m from centres of mass."""
        of, one, two = self.inverse_inertia, skew(arm), skew(other_arm)
        mass = self.inverse_mass[first] + self.inverse_mass[second]
        half = of[first, first] @ one - of[first, second] @ two
        other = of[second, second] @ two - of[second, first] @ one
        across = jnp.swapaxes(one, -1, -2) @ half + jnp.swapaxes(two, -1, -2) @ other
        return mass[:, None, None] * np.eye(3) + across


def response(system: Any, rotors: Rotors, now: Joints, x: Transform) -> Response:
    """How links at the poses `x` of their frames answer."""
    inertia = system.link.inertia
    frame = multiply(jnp, x.rot, inertia.transform.rot)
    axes = jnp.stack([rotate(jnp, frame, jnp.asarray(axis)) for axis in np.eye(3)], axis=-1)
    moments = jax.vmap(jnp.diagonal)(inertia.i)
    own = jnp.einsum("lia,la,lja->lij", axes, 1.0 / moments, axes)
    own = jnp.concatenate([own, jnp.zeros((1, 3, 3))])
    blocks = own[:, None] * np.eye(len(own))[:, :, None, None]
    if len(rotors.link):
        rows = rotors.sign[:, :, None] * now.turns[rotors.link, rotors.slot][:, None]
        answer = jnp.einsum("lij,klj->kli", own, rows)
        coupling = np.diag(rotors.inverse_inertia) + jnp.einsum("kli,mli->km", rows, answer)
        factor = jax.scipy.linalg.cho_factor(coupling)
        held = jax.scipy.linalg.cho_solve(factor, answer.reshape(len(answer), -1)).reshape(answer.shape)
        blocks -= jnp.einsum("kia,kjb->ijab", answer, held)
    return Response(jnp.append(1.0 / inertia.mass, 0.0), blocks)


def answer_along(locked: Array, compliance: Array, change: Array) -> Array:
    """The impulse (k, 3) along locked directions that makes a change (k, 3) of what is locked.

    Args:
        locked: (k, 3, 3) projector.
        compliance: (k, 3, 3) change by an impulse.
        change: (k, 3).
    """
    size = jnp.trace(compliance, axis1=-2, axis2=-1)[:, None, None] / 3.0 + 1e-9
    within = locked @ compliance @ locked + size * (np.eye(3) - locked)
    return apply(locked, apply(inverse(within), apply(locked, change)))


def skew(vector: Array) -> Array:
    """(k, 3, 3) matrices that multiply by `vector` (k, 3) from the left in the sense of the cross product."""
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    zero = jnp.zeros_like(x)
    rows = [jnp.stack(row, axis=-1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return jnp.stack(rows, axis=-2)
