"""One physics step of Brax's `generalized` pipeline, part by part.

Brax provides the kinematics, the motions, the joint-space inertia and the bias forces, the collisions (which are
MJX's), the rows of contacts and limits, and the integration: semi-implicit Euler with implicit damping. The engine
adds the actuators, the forces of constraints (`embodied.engines.brax.solver`), and two corrections:

- Brax does not turn the axes of slides with the link that they are in, so it gets them in the world frame;
- a ball joint is three hinges, whose frame is put where the joint is before each step: they are always near zero.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax import contact as contacts
from brax import kinematics
from brax.base import Transform
from brax.generalized import constraint, dynamics, integrator, mass
from brax.generalized.base import State
from jax import Array

from embodied.engines.brax.constraints import edges, one_sided
from embodied.engines.brax.coordinates import Coordinates
from embodied.engines.brax.model import BALL, SLIDE, Links
from embodied.engines.brax.solver import Rows, solve
from embodied.engines.sensors import Bodies, cross, multiply, rotate


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Pushes:
    """Contacts and their forces; the first shape feels the opposite."""

    first: Array
    """(contacts,) first shape."""
    second: Array
    """(contacts,) second shape."""
    point: Array
    """(contacts, 3) m, world frame."""
    depth: Array
    """(contacts,) m, negative where they are apart."""
    force: Array
    """(contacts, 3) N on the second shape, world frame."""
    normal: Array
    """(contacts,) N, its part along the normal."""


def motion(system: Any, links: Links, names: Coordinates, qpos: Array, qvel: Array) -> tuple[Any, State]:
    """Brax's system and its state, poses and motions of the links, at MuJoCo's coordinates."""
    balls = np.flatnonzero(links.kind == BALL)[::3]
    base = system.link.transform
    turn = multiply(jnp, base.rot[balls], names.orientations(qpos))
    transform = Transform(pos=base.pos, rot=base.rot.at[balls].set(turn))
    system = system.replace(link=system.link.replace(transform=transform))
    q = names.of(qpos)
    x, xd = kinematics.forward(system, q, qvel)
    own, sliding = system.dof.motion, links.kind[links.dof_link] == SLIDE
    axes = jnp.where(sliding[:, None], rotate(jnp, x.rot[links.dof_link], own.vel), own.vel)
    turned = system.replace(dof=system.dof.replace(motion=own.replace(vel=axes)))
    return system, dynamics.transform_com(turned, State.init(q, qvel, x, xd))


def bodies(links: Links, state: State, place: tuple[Array, Array], ipos: Any, iquat: Any) -> Bodies:
    """All bodies, the world included, where Brax has their links; mocap bodies at `place`."""
    pos, quat = links.poses(state.x, *place)
    angvel = links.of_bodies(state.cd.ang)
    vel = links.of_bodies(state.cd.vel) + cross(jnp, angvel, pos - links.of_bodies(state.root_com))
    return Bodies(pos=pos, quat=quat, vel=vel, angvel=angvel, ipos=ipos, iquat=iquat)


def outside(links: Links, state: State, now: Bodies, wrench: Array) -> Array:
    """(nv,) N or N m on the degrees of freedom, by forces and torques (nbody, 6) on centres of mass."""
    arm = now.pos + rotate(jnp, now.quat, jnp.asarray(now.ipos)) - links.of_bodies(state.root_com)
    force, torque = wrench[:, :3], wrench[:, 3:] + cross(jnp, arm, wrench[:, :3])
    add = lambda rows: links.moves @ jax.ops.segment_sum(rows, links.carrier, links.count + 1)  # noqa: E731
    return jnp.sum(state.cdof.vel * add(force) + state.cdof.ang * add(torque), axis=1)


def advance(
    system: Any, links: Links, state: Any, joint_rows: Rows, force: Array, damping: Array
) -> tuple[State, Pushes | None]:
    """The state after one step, and its contacts.

    Args:
        joint_rows: Constraints of joints beyond their limits.
        force: (nv,) N or N m, of everything but gravity, gyroscopic forces and constraints.
        damping: (nv,) N s/m or N m s/rad, the part of `force` that is proportional to speed, taken implicitly.
    """
    system = system.replace(dof=system.dof.replace(damping=damping))
    # Brax takes the damping off by itself, so the force is given without it.
    smooth = dynamics.forward(system, state, force + damping * state.qd)
    state = state.replace(mass_mx=mass.matrix(system, state), qf_smooth=smooth)
    state = constraint.jacobian(system, state)
    rows = one_sided(state.con_jac, state.con_diag, state.con_aref).and_(joint_rows)
    solved = solve(state.mass_mx, smooth, rows) if len(rows.wanted) else jnp.zeros(0)
    state = state.replace(qf_constraint=rows.jacobian.T @ solved)
    touching = contacts.get(system, state.x)
    pushes = None
    if touching is not None:
        each = solved[: 4 * len(touching.dist)].reshape(-1, 4)
        pushes = Pushes(
            first=jnp.asarray(touching.geom1),
            second=jnp.asarray(touching.geom2),
            point=touching.pos,
            depth=-touching.dist,
            force=jnp.einsum("ck,cki->ci", each, edges(touching)),
            normal=each.sum(axis=1),
        )
    return integrator.integrate(system, state), pushes
