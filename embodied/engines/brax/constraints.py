"""Rows of constraints: Brax's of contacts and limits, and those of dry friction and coupled joints, which it lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.engines.brax.solver import Rows


@dataclasses.dataclass(frozen=True)
class JointRows:
    """The constant part of the constraints on joints beyond their limits."""

    model: mujoco.MjModel
    rubbing: np.ndarray
    """(k,) degrees of freedom that have dry friction."""
    first: np.ndarray
    """(e,) joints that are coupled to another one, or held at a place."""
    second: np.ndarray
    """(e,) that other joint; -1 where there is none."""
    equalities: np.ndarray
    """(e,) their equality constraints."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel) -> JointRows:
        """Look up which joints these are."""
        active = np.flatnonzero(model.eq_active0 & (model.eq_type == mujoco.mjtEq.mjEQ_JOINT))
        return cls(
            model, np.flatnonzero(model.dof_frictionloss), model.eq_obj1id[active], model.eq_obj2id[active], active
        )

    def __call__(self, fields: Mapping[str, Array], qpos: Array, qvel: Array) -> Rows:
        """The rows at a state; an episode that varies dry friction has a row for every degree of freedom."""
        weight = jnp.asarray(fields.get("dof_invweight0", self.model.dof_invweight0), jnp.float32)
        return self._friction(fields, weight, qvel).and_(self._couplings(weight, qpos, qvel))

    def _friction(self, fields: Mapping[str, Array], weight: Array, qvel: Array) -> Rows:
        model = self.model
        dofs = np.arange(model.nv) if "dof_frictionloss" in fields else self.rubbing
        most = jnp.asarray(fields.get("dof_frictionloss", model.dof_frictionloss), jnp.float32)[dofs]
        impedance, wanted = self._reference(
            model.dof_solref[dofs], model.dof_solimp[dofs], jnp.zeros(len(dofs)), qvel[dofs]
        )
        return Rows(jnp.eye(model.nv)[dofs], weight[dofs] * (1 - impedance) / impedance, wanted, -most, most)

    def _couplings(self, weight: Array, qpos: Array, qvel: Array) -> Rows:
        """The first joint follows the second by a polynomial; both are measured from the reference pose."""
        model, ids = self.model, self.equalities
        coefficients = model.eq_data[ids, :5]
        own, other = model.jnt_dofadr[self.first], model.jnt_dofadr[self.second]
        here, there = (
            qpos[model.jnt_qposadr[joint]] - model.qpos0[model.jnt_qposadr[joint]]
            for joint in (self.first, self.second)
        )
        coupled = (self.second >= 0).astype(float)
        powers = jnp.stack([there**k for k in range(5)], axis=-1) if len(ids) else jnp.zeros((0, 5))
        slope = coupled * jnp.sum(coefficients[:, 1:] * np.arange(1, 5) * powers[:, :4], axis=1)
        follow = coefficients[:, 0] + coupled * jnp.sum(coefficients[:, 1:] * powers[:, 1:], axis=1)
        jacobian = jnp.eye(model.nv)[own] - slope[:, None] * jnp.eye(model.nv)[other]
        impedance, wanted = self._reference(model.eq_solref[ids], model.eq_solimp[ids], here - follow, jacobian @ qvel)
        both = weight[own] + coupled * weight[other]
        endless = jnp.full(len(ids), jnp.inf)
        return Rows(jacobian, both * (1 - impedance) / impedance, wanted, -endless, endless)

    def _reference(self, solref: np.ndarray, solimp: np.ndarray, pos: Array, vel: Array) -> tuple[Array, Array]:
        """Impedances and wanted accelerations (k,) of constraints that are off by `pos` and drift at `vel`.

        Source: MuJoCo's documentation, "Solver parameters".
        """
        low, high, width, middle, power = solimp.T
        safe = not self.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_REFSAFE
        least = 2 * self.model.opt.timestep if safe else 1e-6
        direct = solref[:, 0] <= 0  # stiffness and damping, negative
        time, ratio = np.where(direct, 1.0, np.maximum(solref[:, 0], least)), np.where(direct, 1.0, solref[:, 1])
        damping = np.where(direct, -solref[:, 1] / high, 2 / (high * time))
        stiffness = np.where(direct, -solref[:, 0] / high**2, 1 / (high * time * ratio) ** 2)
        share = jnp.minimum(jnp.abs(pos) / width, 1.0)
        rising = share**power / middle ** (power - 1)
        falling = 1 - (1 - share) ** power / (1 - middle) ** (power - 1)
        impedance = low + jnp.where(share < middle, rising, falling) * (high - low)
        return impedance, -damping * vel - stiffness * impedance * pos


def one_sided(jacobian: Array, softness: Array, wanted: Array) -> Rows:
    """Rows of constraints that push and never pull, as Brax writes them."""
    return Rows(jacobian, softness, wanted, jnp.zeros_like(wanted), jnp.full_like(wanted, jnp.inf))


def edges(contact: Any) -> Array:
    """(contacts, 4, 3) the force on the second shape, world frame, for 1 N in each of Brax's four rows of a contact."""
    tangents = contact.frame[:, 1:]
    sides = jnp.stack([tangents[:, 0], -tangents[:, 0], tangents[:, 1], -tangents[:, 1]], axis=1)
    return contact.frame[:, :1] + contact.friction[:, :1, None] * sides
