"""`swarm/swap` and `swarm/meet-up`: drones change places with the one opposite, or come together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from tasks.swarm.drones import Box, Drones
from tasks.swarm.formation import Shape, slots
from tasks.swarm.points import Points

HEIGHT = 1.5  # m, where drones meet


class Swap(Points):
    """Drones change places, the first with the last, the second with the one before, ...

    After gym-pybullet-drones' `Meetup` (mirrored pairs), where all ways cross in the middle. Randomised: the starts, at
    least 30 cm apart. Success: all within 15 cm of their places for a second, at the end of 10 s. Failure: a
    collision, a crash, a drone outside the arena.
    """

    seconds = 10.0
    arena = Box((-2.5, -2.5, 0.0), (2.5, 2.5, 3.0))
    instruction = ("Swap places.", "Trade places with the drone opposite.", "Fly to where your partner is now.")

    def start_box(self) -> Box:
        """Well inside the arena."""
        return Box((-1.8, -1.8, 0.8), (1.8, 1.8, 2.2))

    def course(self, drones: Drones, key: Array) -> Array:
        """Where the partners are now, (A, 3) m."""
        del key
        return drones.pos[::-1]

    def points(self, course: Array, time: Array, drones: Drones) -> tuple[Array, Array]:
        """The places, which stay."""
        del time
        return course, jnp.zeros_like(drones.pos)


class MeetUp(Swap):
    """Drones scattered in the air come together in a tight circle around where they were on average.

    Randomised: the starts, at least 30 cm apart. Success and failure as in `Swap`.
    """

    instruction = ("Meet up.", "Come together in the middle.", "Gather around your common centre.")

    def course(self, drones: Drones, key: Array) -> Array:
        """A circle around the mean of the starts, entered from where each drone is, by angle."""
        circle = jnp.asarray(slots(Shape.CIRCLE, self.config.agents))
        centre = jnp.mean(drones.pos, 0).at[2].set(HEIGHT)
        away = drones.pos - centre
        # The drone with the k-th angle around the centre takes the k-th slot, from a random first one on.
        rank = jnp.argsort(jnp.argsort(jnp.arctan2(away[:, 1], away[:, 0])))
        first = jax.random.randint(key, (), 0, self.config.agents)
        return centre + circle[(rank + first) % self.config.agents]
