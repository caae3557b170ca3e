"""Contacts of links: Brax's (which are MJX's) in, impulses with Coulomb friction out.

Brax's own resolutions are not used. That of `spring` reads entries of the inverse inertias by a flat index, so
numbers of other links and axes; that of `positional` turns links by twice the moment of a contact's push. Both pass
only with the unit inertias that Brax's own robots are given.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from brax import contact
from brax.base import Transform
from jax import Array

from embodied.engines.brax.joints import apply, inverse
from embodied.engines.brax.response import Response
from embodied.engines.sensors import cross


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Contacts:
    """Where links may touch; the world is the link of the last index."""

    first: Array
    """(contacts,) link."""
    second: Array
    """(contacts,) link."""
    point: Array
    """(contacts, 3) m."""
    normal: Array
    """(contacts, 3) unit vectors from the second link to the first."""
    depth: Array
    """(contacts,) m, negative where they are apart."""
    arm: Array
    """(contacts, 3) m from the first link's centre of mass."""
    other_arm: Array
    """(contacts, 3) m from the second's."""
    friction: Array
    """(contacts,) coefficient of sliding."""
    elasticity: Array
    """(contacts,) Brax's."""
    compliance: Array
    """(contacts, 3, 3) 1 / kg, relative velocity of the links there for an impulse between them."""
    share: Array
    """(contacts,) 1 / how many touch the same link: all of them answer at once, so each does its part."""

    def relative(self, vel: Array, angvel: Array) -> Array:
        """(contacts, 3) m/s, first less second, of motions (links + 1, 3) of centres of mass."""
        one = vel[self.first] + cross(jnp, angvel[self.first], self.arm)
        return one - vel[self.second] - cross(jnp, angvel[self.second], self.other_arm)

    def along(self, vector: Array) -> Array:
        """(contacts,) components of (contacts, 3) along the normals."""
        return jnp.sum(self.normal * vector, axis=1)

    def gathered(self, impulse: Array, links: int) -> tuple[Array, Array]:
        """Impulses (contacts, 3) as linear and angular ones (links + 1, 3) at the links' centres of mass."""
        add = lambda rows, ids: jax.ops.segment_sum(rows, ids, links + 1)  # noqa: E731
        linear = add(impulse, self.first) - add(impulse, self.second)
        angular = add(cross(jnp, self.arm, impulse), self.first)
        return linear, angular - add(cross(jnp, self.other_arm, impulse), self.second)


def contacts(system: Any, answers: Response, x: Transform, centre: Array) -> Contacts | None:
    """The contacts at the poses `x` of the links' frames, their centres of mass at `centre` (links + 1, 3) m.

    None where no two shapes of the model can touch.
    """
    found = contact.get(system, x)
    if found is None:
        return None
    links = x.pos.shape[0]
    first, second = (jnp.where(index < 0, links, index) for index in map(jnp.asarray, found.link_idx))
    arm, other_arm = found.pos - centre[first], found.pos - centre[second]
    depth = -found.dist
    sliding: Array = found.friction[:, 0]
    active = (depth > 0).astype(jnp.float32)
    count = sum(jax.ops.segment_sum(active, index, links + 1) for index in (first, second))
    count = jnp.asarray(count).at[links].set(0.0)
    return Contacts(
        first=first,
        second=second,
        point=found.pos,
        normal=-found.frame[:, 0],
        depth=depth,
        arm=arm,
        other_arm=other_arm,
        friction=jnp.where(jnp.asarray(found.dim) > 1, sliding, 0.0),
        elasticity=found.elasticity,
        compliance=answers.shifting(first, second, arm, other_arm),
        share=1.0 / jnp.maximum(1.0, jnp.maximum(count[first], count[second])),
    )


def push(at: Contacts, change: Array) -> Array:
    """The impulses (contacts, 3) that change relative velocities by `change`, or what friction allows of it.

    A contact sticks if its impulse lies in the friction cone, else it slides with the full friction against the motion.
    """
    normal = at.along(change)
    stick = apply(inverse(at.compliance), change)
    pressed = at.along(stick)
    sideways = length(stick - pressed[:, None] * at.normal)
    slip = change - normal[:, None] * at.normal
    direction = slip / (length(slip)[:, None] + 1e-9)
    pulled = at.normal + at.friction[:, None] * direction
    own = at.along(apply(at.compliance, at.normal))
    slide = normal / jnp.maximum(at.along(apply(at.compliance, pulled)), 0.3 * own)
    sticks = (sideways <= at.friction * pressed)[:, None]
    active = (at.depth > 0) & (normal > 0)
    return jnp.where(active[:, None], jnp.where(sticks, stick, slide[:, None] * pulled), 0.0) * at.share[:, None]


def length(vector: Array) -> Array:
    """The lengths (k,) of vectors (k, 3)."""
    return jnp.sqrt(jnp.sum(jnp.square(vector), axis=-1))
