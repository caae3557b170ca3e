"""Links as free bodies: their motion, what drives them, and the impulses by which joints hold them together."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax.base import Transform
from jax import Array

from embodied.engines.brax.joints import Joints, JointTable, joints
from embodied.engines.brax.response import Response, Rotors, answer_along, response, skew
from embodied.engines.sensors import cross, multiply, rotate, rotate_inverse


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Links:
    """Poses and motions of the links' frames, world frame."""

    x: Transform
    vel: Array
    """(links, 3) m/s of the frames' origins."""
    angvel: Array
    """(links, 3) rad/s."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Bodies:
    """The same at the centres of mass, with a last row for the world, which is at rest."""

    pos: Array
    """(links + 1, 3) m."""
    quat: Array
    """(links, 4) wxyz of the links' frames."""
    vel: Array
    """(links + 1, 3) m/s."""
    angvel: Array
    """(links + 1, 3) rad/s."""

    def kicked(self, linear: Array, angular: Array) -> Bodies:
        """With changes (links + 1, 3) of the velocities."""
        return dataclasses.replace(self, vel=self.vel + linear, angvel=self.angvel + angular)

    def moved(self, shift: Array, turn: Array) -> Bodies:
        """With small displacements (links + 1, 3), m and rad."""
        half = jnp.concatenate([jnp.zeros((len(turn) - 1, 1)), 0.5 * turn[:-1]], axis=1)
        quat = self.quat + multiply(jnp, half, self.quat)
        quat = quat / jnp.linalg.norm(quat, axis=1, keepdims=True)
        return dataclasses.replace(self, pos=self.pos + shift, quat=quat)


def driven(
    system: Any, table: JointTable, now: Joints, answers: Response, bodies: Bodies, tau: Array, wrench: Array
) -> Bodies:
    """The links after one step of gravity, joint forces, wrenches and the gyroscopic torque -w x I w."""
    along = table.values(tau)
    force = jnp.einsum("lk,lki->li", along, now.shifts)
    torque = jnp.einsum("lk,lki->li", along, now.turns)
    linear, angular = between(table, now, bodies, force, torque)
    inertia = system.link.inertia
    frame = multiply(jnp, bodies.quat, inertia.transform.rot)
    spin = rotate_inverse(jnp, frame, bodies.angvel[:-1])
    gyroscopic = rotate(jnp, frame, cross(jnp, jax.vmap(jnp.diagonal)(inertia.i) * spin, spin))
    outside = jnp.concatenate([wrench[:, 3:] + gyroscopic, jnp.zeros((1, 3))])
    linear += jnp.concatenate([wrench[:, :3] + inertia.mass[:, None] * system.gravity, jnp.zeros((1, 3))])
    dt = system.opt.timestep
    return bodies.kicked(*answers.kick(dt * linear, dt * (angular + outside)))


def between(table: JointTable, now: Joints, bodies: Bodies, force: Array, torque: Array) -> tuple[Array, Array]:
    """Forces and torques (links, 3) of joints on links, and back on parents, at centres of mass (links + 1, 3)."""
    own = torque + cross(jnp, now.point - bodies.pos[:-1], force)
    back = torque + cross(jnp, now.point - bodies.pos[table.parent], force)
    world = np.zeros((1, 3))
    linear = jnp.concatenate([force, world]) - table.under @ force
    return linear, jnp.concatenate([own, world]) - table.under @ back


def relative(table: JointTable, now: Joints, bodies: Bodies) -> tuple[Array, Array]:
    """Velocities (links, 3) and angular velocities (links, 3) of links against their parents at the joints."""
    own = bodies.vel[:-1] + cross(jnp, bodies.angvel[:-1], now.point - bodies.pos[:-1])
    parent = bodies.angvel[table.parent]
    under = bodies.vel[table.parent] + cross(jnp, parent, now.point - bodies.pos[table.parent])
    return own - under, bodies.angvel[:-1] - parent


def answered(
    table: JointTable,
    now: Joints,
    answers: Response,
    bodies: Bodies,
    gap: Array,
    tilt: Array,
    stiffness: Any,
    shift: Array,
    turn: Array,
) -> tuple[Array, Array]:
    """The impulses (links + 1, 3) at centres of mass that would take away what is wrong at each joint alone.

    Args:
        table: The constant part of the joints.
        now: The joints.
        answers: How the links answer to impulses.
        bodies: Where they are.
        gap: (links, 3) what to take away along locked translations.
        tilt: (links, 3) about locked rotations.
        stiffness: What to take away per rad or m beyond a limit.
        shift: (links, 3) what to take away along a slide that is beyond its limit.
        turn: (links, 3) about a hinge that is beyond its limit.
    """
    child = np.arange(len(table.parent))
    arm, other_arm = now.point - bodies.pos[:-1], now.point - bodies.pos[table.parent]
    shifting = answers.shifting(child, table.parent, arm, other_arm)
    turning = answers.turning(child, table.parent)
    force = answer_along(now.locked_shift, shifting, -gap)
    torque = answer_along(now.locked_turn, turning, -tilt)
    for wrong, compliance, duals in ((shift, shifting, now.shifts), (turn, turning, now.turns)):
        rate = jnp.einsum("lki,li->lk", duals, wrong) + stiffness * now.beyond
        own = jnp.einsum("lki,lij,lkj->lk", duals, compliance, duals)
        back = -rate / jnp.where(own > 0, own, 1.0)
        back = jnp.where((now.beyond * back < 0) & (own > 0), back, 0.0)  # limits push and never pull
        pushed = jnp.einsum("lk,lki->li", back, duals)
        force, torque = (force + pushed, torque) if duals is now.shifts else (force, torque + pushed)
    return between(table, now, bodies, force, torque)


def stiffness(table: JointTable, system: Any, rotors: Rotors, x: Transform) -> tuple[Array, Array]:
    """How the joints answer at poses `x`.

    Returns:
        (links,) 1 / kg, how easily an impulse on each link's centre of mass moves it along what its joint locks.
        (6 links + 6, 6 links + 6) the change of all motions if every joint took away its whole error: more than one of
        the error, since a link has several joints.
    """
    now = joints(table, system, x, jnp.asarray(table.reference))
    answers = response(system, rotors, now, x)
    zero = jnp.zeros_like(x.pos)
    bodies = centred(system, Links(x, zero, zero))
    arm, other_arm = now.point - bodies.pos[:-1], now.point - bodies.pos[table.parent]
    child = np.arange(len(table.parent))
    lever, locked = skew(arm), now.locked_shift
    bending = now.locked_turn @ answers.turning(child, table.parent) @ now.locked_turn
    easy = locked @ answers.shifting(child, table.parent, arm, other_arm) @ locked
    easy += jnp.swapaxes(lever, -1, -2) @ bending @ lever

    def taken_away(motion: Array) -> Array:
        moving = dataclasses.replace(bodies, vel=motion[:, :3], angvel=motion[:, 3:])
        impulse = answered(table, now, answers, moving, *relative(table, now, moving), 0.0, zero, zero)
        return -jnp.concatenate(answers.kick(*impulse), axis=1)

    size = bodies.pos.size * 2
    matrix = jax.jacfwd(taken_away)(jnp.zeros((size // 6, 6))).reshape(size, size)
    return jnp.linalg.eigvalsh(easy)[:, -1], matrix


def centred(system: Any, links: Links) -> Bodies:
    """The links at their centres of mass."""
    arm = rotate(jnp, links.x.rot, system.link.inertia.transform.pos)
    world = jnp.zeros((1, 3))
    pos = jnp.concatenate([links.x.pos + arm, world])
    vel = jnp.concatenate([links.vel + cross(jnp, links.angvel, arm), world])
    return Bodies(pos, links.x.rot, vel, jnp.concatenate([links.angvel, world]))


def framed(system: Any, bodies: Bodies) -> Links:
    """The frames of links with these centres of mass."""
    arm = rotate(jnp, bodies.quat, system.link.inertia.transform.pos)
    vel = bodies.vel[:-1] - cross(jnp, bodies.angvel[:-1], arm)
    return Links(Transform(pos=bodies.pos[:-1] - arm, rot=bodies.quat), vel, bodies.angvel[:-1])


def damped(system: Any, bodies: Bodies) -> Bodies:
    """With Brax's damping of all motion, which is 0 unless the model asks for it."""
    vel, ang = (jnp.exp(rate * system.opt.timestep) for rate in (system.vel_damping, system.ang_damping))
    return dataclasses.replace(bodies, vel=vel * bodies.vel, angvel=ang * bodies.angvel)
