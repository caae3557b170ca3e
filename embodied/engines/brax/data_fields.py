"""User sensors: the MjData fields that this engine can fill in (`embodied.engines.base.data_fields`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.engines.base import data_fields
from embodied.engines.brax.step import Pushes
from embodied.engines.sensors import Bodies, cross, multiply, rotate
from embodied.errors import EngineError


@dataclasses.dataclass(frozen=True)
class Instant:
    """A physics step as its dynamics were evaluated."""

    model: mujoco.MjModel
    bodies: Bodies
    mass: Any
    """(nbody,) kg."""
    inertia: Any
    """(nbody, 3) kg m^2, principal."""
    driven: Array
    """(nv,) N or N m, of the actuators."""
    wrench: Array
    """(nbody, 6) N and N m at centres of mass, from outside."""
    pushes: Pushes | None
    """Contacts and their forces."""

    @property
    def centres(self) -> Array:
        """(nbody, 3) m, centres of mass."""
        return self.bodies.pos + rotate(jnp, self.bodies.quat, jnp.asarray(self.bodies.ipos))

    @property
    def origins(self) -> Array:
        """(nbody, 3) m, centre of mass of the tree that each body belongs to, about which MuJoCo has its motions."""
        roots = self.model.body_rootid
        add = lambda rows: jax.ops.segment_sum(rows, roots, self.model.nbody)  # noqa: E731
        mass = jnp.asarray(self.mass, jnp.float32)
        whole = add(mass)
        return (add(mass[:, None] * self.centres) / jnp.where(whole > 0, whole, 1.0)[:, None])[roots]


def _cvel(now: Instant) -> Array:
    """(nbody, 6) rad/s and m/s."""
    at_origin = now.bodies.vel + cross(jnp, now.bodies.angvel, now.origins - now.bodies.pos)
    return jnp.concatenate([now.bodies.angvel, at_origin], axis=1)


def _cinert(now: Instant) -> Array:
    """(nbody, 10): xx, yy, zz, xy, xz, yz of the inertia about the origin, mass times offset, mass."""
    frame = multiply(jnp, now.bodies.quat, jnp.asarray(now.bodies.iquat, jnp.float32))
    axes = jnp.stack([rotate(jnp, frame, jnp.asarray(axis)) for axis in np.eye(3)], axis=-1)
    own = jnp.einsum("bij,bj,bkj->bik", axes, jnp.asarray(now.inertia, jnp.float32), axes)
    arm, mass = now.centres - now.origins, jnp.asarray(now.mass, jnp.float32)[:, None]
    around = jnp.sum(arm**2, axis=1)[:, None, None] * np.eye(3) - arm[:, :, None] * arm[:, None, :]
    whole = own + mass[:, :, None] * around
    entries = [whole[:, i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    return jnp.concatenate([jnp.stack(entries, axis=1), mass * arm, mass], axis=1).at[0].set(0.0)


def _cfrc_ext(now: Instant) -> Array:
    """(nbody, 6) N m and N, of contacts and of external forces."""
    force, arm = now.wrench[:, :3], now.centres - now.origins
    total = jnp.concatenate([now.wrench[:, 3:] + cross(jnp, arm, force), force], axis=1)
    if now.pushes is None:
        return total
    for shapes, sign in ((now.pushes.first, -1.0), (now.pushes.second, 1.0)):
        body, push = jnp.asarray(now.model.geom_bodyid)[shapes], sign * now.pushes.force
        torque = cross(jnp, now.pushes.point - now.origins[body], push)
        total += jax.ops.segment_sum(jnp.concatenate([torque, push], axis=1), body, now.model.nbody)
    return total.at[0].set(0.0)


FIELDS: Mapping[str, Callable[[Instant], Array]] = {
    "xpos": lambda now: now.bodies.pos,
    "xquat": lambda now: now.bodies.quat,
    "xipos": lambda now: now.centres,
    "cvel": _cvel,
    "cinert": _cinert,
    "cfrc_ext": _cfrc_ext,
    "qfrc_actuator": lambda now: now.driven,
}
"""Field -> its value; bodies' motions and forces about `Instant.origins`, rotation first."""


def readable(model: mujoco.MjModel) -> Mapping[str, slice]:
    """Field -> its place in the sensor array.

    Raises:
        EngineError: a user sensor names a field that this engine cannot fill in, or none of MjData's.
    """
    fields = data_fields(model)
    if unknown := sorted(set(fields) - set(FIELDS)):
        raise EngineError(f"engine brax cannot fill in the MjData field {unknown[0]!r}; it has {', '.join(FIELDS)}")
    return fields
