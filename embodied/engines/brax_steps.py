"""One physics step of Brax's spring and positional pipelines, with joint forces and wrenches from outside.

Composed from Brax's own parts in the order of `brax.spring.pipeline.step` and `brax.positional.pipeline.step`, which
take neither, and leave out the gyroscopic torque of spinning bodies.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from brax import com, contact, kinematics, math
from brax.base import Force, Motion, Transform
from brax.positional import base as positional_base
from brax.positional import collisions as positional_collisions
from brax.positional import integrator as positional_integrator
from brax.positional import joints as positional_joints
from brax.spring import base as spring_base
from brax.spring import collisions as spring_collisions
from brax.spring import integrator as spring_integrator
from brax.spring import joints as spring_joints
from jax import Array


def joint_coordinates(system: Any, x: Transform, xd: Motion) -> tuple[Array, Array]:
    """q and qd of the links' poses and motions, in MuJoCo's conventions."""
    j, jd, _, _ = kinematics.world_to_joint(system, x, xd)
    return kinematics.inverse(system, j, jd)


def contacts(system: Any, x: Transform) -> Any:
    """Brax's contacts of the links' poses, or None where nothing can touch."""
    return contact.get(system, x)


def spring_step(
    system: Any, x: Transform, xd: Motion, tau: Array, wrench: Array
) -> tuple[Transform, Motion, Array | None]:
    """One step of the spring pipeline.

    Args:
        system: Brax's system.
        x: Poses of the links' frames in the world.
        xd: Their motions in the world, of the frames' origins.
        tau: (nv,) N, N m.
        wrench: (links, 6) N, N m at the centres of mass, world frame.

    Returns:
        The new poses and motions, and the normal force (contacts,) N of each contact.
    """
    q, qd = joint_coordinates(system, x, xd)
    j, jd, a_p, a_c = kinematics.world_to_joint(system, x, xd)
    x_i, xd_i = com.from_world(system, x, xd)
    mass = system.link.inertia.mass ** (1 - system.spring_mass_scale)
    i_inv = com.inv_inertia(system, x)
    state = spring_base.State(
        q=q, qd=qd, x=x, xd=xd, contact=None, x_i=x_i, xd_i=xd_i, j=j, jd=jd, a_p=a_p, a_c=a_c, i_inv=i_inv, mass=mass
    )
    force = spring_joints.resolve(system, state, tau) + external(system, x, xd_i, wrench)
    change = Motion(ang=jax.vmap(jnp.matmul)(i_inv, force.ang), vel=force.vel / mass[:, None] + system.gravity)
    state = state.replace(xd_i=xd_i + change * system.opt.timestep)
    bump = spring_collisions.resolve(system, state)
    x_i, xd_i = spring_integrator.integrate(system, state.x_i, state.xd_i, bump)
    after, motion = com.to_world(system, x_i, xd_i)
    touching = contacts(system, x)
    if touching is None:
        return after, motion, None
    return after, motion, shared(touching, bump.vel * mass[:, None] / system.opt.timestep)


def positional_step(
    system: Any, x: Transform, xd: Motion, tau: Array, wrench: Array
) -> tuple[Transform, Motion, Array | None]:
    """One step of the positional pipeline; see `spring_step`."""
    q, qd = joint_coordinates(system, x, xd)
    j, jd, a_p, a_c = kinematics.world_to_joint(system, x, xd)
    start, xd_i = com.from_world(system, x, xd)
    mass = system.link.inertia.mass ** (1 - system.spring_mass_scale)
    state = positional_base.State(q, qd, x, xd, None, start, xd_i, j, jd, a_p, a_c, mass)
    force = positional_joints.acceleration_update(system, state, tau) + external(system, x, xd_i, wrench)
    i_inv = com.inv_inertia(system, x)
    change = Motion(ang=jax.vmap(jnp.matmul)(i_inv, force.ang), vel=force.vel / mass[:, None] + system.gravity)
    x_i, xd_i = positional_integrator.integrate_xdd(system, start, xd_i, change)
    x, xd = com.to_world(system, x_i, xd_i)
    state = state.replace(x=x, xd=xd, x_i=x_i, xd_i=xd_i)
    x_i = positional_joints.position_update(system, state)
    x, _ = com.to_world(system, x_i, xd_i)
    state = state.replace(x=x, x_i=x_i)
    touching, before = contacts(system, x), xd_i
    x_i, push = positional_collisions.resolve_position(system, state, start, touching)
    xd_i = positional_integrator.project_xd(system, x_i, start)
    x, xd = com.to_world(system, x_i, xd_i)
    state = state.replace(x=x, xd=xd, x_i=x_i, xd_i=xd_i)
    bump = positional_collisions.resolve_velocity(system, state, before, touching, push)
    xd_i = positional_integrator.integrate_xdv(system, xd_i, bump)
    x, xd = com.to_world(system, x_i, xd_i)
    return x, xd, None if touching is None else push / system.opt.timestep**2


STEPS = {"spring": spring_step, "positional": positional_step}
"""Pipeline -> its step."""


def external(system: Any, x: Transform, xd_i: Motion, wrench: Array) -> Force:
    """The wrenches with the gyroscopic torque -w x I w, which Brax leaves out."""
    turn = jax.vmap(math.quat_mul)(x.rot, system.link.inertia.transform.rot)
    moments = jax.vmap(jnp.diagonal)(system.link.inertia.i) ** (1 - system.spring_inertia_scale)
    spin = jax.vmap(math.inv_rotate)(xd_i.ang, turn)
    gyroscopic = jax.vmap(math.rotate)(-jnp.cross(spin, moments * spin), turn)
    return Force(vel=wrench[:, :3], ang=wrench[:, 3:] + gyroscopic)


def shared(touching: Any, force: Array) -> Array:
    """The normal force (contacts,) N of each contact, from the force (links, 3) N that all contacts of a link made."""
    first, second = touching.link_idx
    link = jnp.where(second >= 0, second, first)
    outwards = jnp.where((second >= 0)[:, None], touching.frame[:, 0], -touching.frame[:, 0])
    active = touching.dist < 0
    count = jax.ops.segment_sum(active.astype(jnp.float32), link, force.shape[0])
    normal = jnp.sum(force[link] * outwards, axis=1) / jnp.maximum(count[link], 1.0)
    return jnp.where(active, jnp.maximum(normal, 0.0), 0.0)
