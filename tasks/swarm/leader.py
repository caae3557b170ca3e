"""`swarm/leader-follower`: one drone knows the way, the others follow it in a wedge."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from tasks.swarm.drones import Box, Drones
from tasks.swarm.formation import Shape, slots
from tasks.swarm.points import Points

HEIGHT = 1.5  # m, of the leader's circle


class LeaderFollower(Points):
    """A leader flies a way of its own; the others keep their places behind it, from what they see of it.

    Only the leader, drone 0, is told where it goes; a follower sees its own point, which moves with the leader.
    Randomised: starts, the leader's way. Success: all within 20 cm of their points for a second, at the end of 12 s.
    Failure: a collision, a crash, a drone outside the arena.
    """

    seconds = 12.0
    close = 0.2
    arena = Box((-5.0, -5.0, 0.0), (5.0, 5.0, 3.0))
    instruction = ("Follow the leader.", "Keep your place behind the first drone.", "Fly in the leader's wake.")

    def start_box(self) -> Box:
        """Around the place where the leader sets out."""
        return Box((-2.0, -2.0, 0.8), (2.0, 2.0, 2.2))

    def course(self, drones: Drones, key: Array) -> Array:
        """The leader's circle: its phase (rad), radius (m) and angular speed (rad/s), (3,)."""
        del drones
        phase, radius, speed = jax.random.uniform(key, (3,))
        return jnp.stack([2 * jnp.pi * phase, 1.0 + radius, 0.15 + 0.15 * speed])

    def points(self, course: Array, time: Array, drones: Drones) -> tuple[Array, Array]:
        """The leader's place on its circle, and those of the others from where the leader really is."""
        phase, radius, speed = jnp.unstack(course)
        angle = phase + speed * time
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        zero = jnp.zeros(())
        ahead = jnp.stack([radius * cosine, radius * sine, zero + HEIGHT])
        velocity = radius * speed * jnp.stack([-sine, cosine, zero])
        wedge = slots(Shape.WEDGE, self.config.agents)
        x, y, z = jnp.asarray(wedge - wedge[0], jnp.float32).T
        # The wedge points where the leader's circle leads: along (-sine, cosine).
        behind = jnp.stack([-sine * x - cosine * y, cosine * x - sine * y, z], -1)
        followers = drones.pos[0] + behind
        leads = jnp.arange(self.config.agents)[:, None] == 0
        return jnp.where(leads, ahead, followers), jnp.where(leads, velocity, drones.vel[0])
