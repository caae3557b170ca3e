"""One step of Brax's spring and positional pipelines, with joint forces and wrenches from outside.

Both move every link as a body of its own and answer all joints, then all contacts, once per step. `spring` does so
with impulses of springs and dampers; `positional` moves the links where they belong and takes the motion from that,
as extended position-based dynamics does (Mueller et al., Detailed Rigid Body Simulation with Extended Position Based
Dynamics, 2020).

Kinematics and contacts are Brax's. What answers them is the engine's own: Brax has one stiffness for N/m and N m/rad,
which no number suits where links weigh 0.2 kg and have 4e-5 kg m^2, and knows no rotors. With it a Go1 diverges on
`spring` at 1 ms and sits back on its hind legs on `positional` at 0.5 ms. Here joints are as stiff as the step
allows, by the links' true masses and rotors (`embodied.engines.brax.response`), and both pipelines are equally stiff.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from embodied.engines.brax.contacts import Contacts, contacts, push
from embodied.engines.brax.joints import Joints, JointTable, apply, joints
from embodied.engines.brax.links import Links, answered, centred, damped, driven, framed, relative
from embodied.engines.brax.response import Response

POSITIONAL_PUSH = 0.5
"""What part of a contact's depth one step of `positional` takes away.

Pushed out wholly, feet would touch every other step only and slip in between: a walking Go1's error of yaw doubles.
"""


def spring_step(
    system: Any, table: JointTable, now: Joints, answers: Response, links: Links, tau: Array, wrench: Array
) -> tuple[Links, Contacts | None, Array | None]:
    """One step of the spring pipeline.

    Args:
        system: Brax's system.
        table: The constant part of the joints.
        now: The joints at the beginning.
        answers: How the links answer to impulses.
        links: Where they are.
        tau: (nv,) N, N m.
        wrench: (links, 6) N, N m at the centres of mass, world frame.

    Returns:
        The links after the step, and the contacts with the normal force (contacts,) N of each.
    """
    dt, share = system.opt.timestep, system.joint_scale_pos
    bodies = driven(system, table, now, answers, centred(system, links), tau, wrench)
    shift, turn = relative(table, now, bodies)
    slack = (1.0 - share) / dt
    gap, tilt = shift + slack * now.gap, turn + slack * now.tilt
    kick = answered(table, now, answers, bodies, gap, tilt, system.baumgarte_erp / dt, shift, turn)
    bodies = bodies.kicked(*answers.kick(*(share * part for part in kick)))
    touching = contacts(system, answers, links.x, bodies.pos)
    force = None
    if touching is not None:
        slip = touching.relative(bodies.vel, bodies.angvel)
        approach = touching.along(slip)
        wanted = system.baumgarte_erp / dt * touching.depth - touching.elasticity * jnp.minimum(approach, 0.0)
        impulse = push(touching, wanted[:, None] * touching.normal - slip)
        bodies = bodies.kicked(*answers.kick(*touching.gathered(impulse, len(table.parent))))
        force = touching.along(impulse) / dt
    bodies = damped(system, bodies)
    return framed(system, bodies.moved(dt * bodies.vel, dt * bodies.angvel)), touching, force


def positional_step(
    system: Any, table: JointTable, now: Joints, answers: Response, links: Links, tau: Array, wrench: Array
) -> tuple[Links, Contacts | None, Array | None]:
    """One step of the positional pipeline; see `spring_step`.

    Velocities are the sum of what moved the links, not the difference of positions, which would lose digits in single
    precision. Poses change so little in a step that `answers` holds throughout.
    """
    dt, share = system.opt.timestep, system.joint_scale_pos
    start = centred(system, links)
    bodies = driven(system, table, now, answers, start, tau, wrench)
    zero = jnp.zeros_like(now.gap)
    # Limits act on velocities, as in `spring`: taken away by position, an excess would come back as a bounce.
    kick = answered(table, now, answers, bodies, zero, zero, system.baumgarte_erp / dt, *relative(table, now, bodies))
    bodies = damped(system, bodies.kicked(*answers.kick(*(share * part for part in kick))))
    bodies = bodies.moved(dt * bodies.vel, dt * bodies.angvel)
    after = joints(table, system, framed(system, bodies).x, now.qpos)
    linear, angular = answered(table, after, answers, bodies, after.gap, after.tilt, 0.0, zero, zero)
    shift, turn = answers.kick(share * linear, share * angular)
    bodies = bodies.moved(shift, turn).kicked(shift / dt, turn / dt)
    touching = contacts(system, answers, framed(system, bodies).x, bodies.pos)
    force = None
    if touching is not None:
        before = touching.along(touching.relative(start.vel, start.angvel))
        slip = touching.relative(bodies.vel, bodies.angvel)
        slip -= touching.along(slip)[:, None] * touching.normal
        impulse = push(touching, POSITIONAL_PUSH * touching.depth[:, None] * touching.normal - dt * slip)
        shift, turn = answers.kick(*touching.gathered(impulse, len(table.parent)))
        bodies = bodies.moved(shift, turn).kicked(shift / dt, turn / dt)
        pressed = touching.along(impulse) / dt
        # What pushed the links out must not throw them: they leave as fast as they came, times the elasticity.
        allowed = jnp.maximum(before, -touching.elasticity * before)
        excess = allowed - touching.along(touching.relative(bodies.vel, bodies.angvel))
        own = touching.along(apply(touching.compliance, touching.normal))
        held = jnp.where(pressed > 0, jnp.maximum(touching.share * excess / own, -pressed), 0.0)
        kick = answers.kick(*touching.gathered(held[:, None] * touching.normal, len(table.parent)))
        bodies = bodies.kicked(*kick)
        force = (pressed + held) / dt
    return framed(system, bodies), touching, force


STEPS = {"spring": spring_step, "positional": positional_step}
"""Pipeline -> its step."""
