"""`swarm/landing`: come down on a pad, through the cushion of air over the floor."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.facets import CommandRange, Language, Operator
from tasks.swarm.dynamics.aerodynamics import Effect
from tasks.swarm.dynamics.drones import Box, Drones
from tasks.swarm.team.waypoints import WaypointConfig, WaypointTask

LEGS = 0.0145  # m from the floor to the body's origin when the drone stands (assets/robots/crazyflie)
TOUCH = 0.03  # m, height of the point to come down to: half a leg above standing
SINK = 0.25  # m/s, with which the point comes down
HARD = 0.4  # m/s, touching the floor faster than this is a crash


@dataclasses.dataclass(frozen=True)
class LandingConfig(WaypointConfig):
    """Options of `swarm/landing`."""

    agents: int = 1
    """Number of drones, each with a pad of its own."""
    neighbours: int = 0
    """Team-mates that each drone sees."""
    effects: tuple[Effect, ...] = (Effect.DRAG, Effect.GROUND)
    """Effects besides the rotors: drag, ground, downwash, wind, battery."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """Ways down."""

    pad: Array
    """(A, 2) m."""
    height: Array
    """(A,) m, where each begins."""


class Landing(WaypointTask):
    """A drone comes down on a pad up to a metre aside.

    The point to follow sinks at 0.25 m/s to 3 cm above the floor, a leg's half above standing, where rotors push a
    quarter harder. Randomised: start, pad. Success: within 5 cm of the point, down there, for the last second of 10 s.
    Failure: touching the floor at more than 0.4 m/s or below the legs' length, a collision, leaving.
    """

    config_type = LandingConfig
    config: LandingConfig
    seconds = 10.0
    close = 0.05
    arena = Box((-3.0, -3.0, -1.0), (3.0, 3.0, 3.0))
    language = Language.of("Land on the pad.", "Come down softly on the marked spot.", "Touch down gently.")

    def start_box(self) -> Box:
        return Box((-1.5, -1.5, 0.7), (1.5, 1.5, 1.5))

    def course(self, drones: Drones, key: Array) -> Course:
        """A pad for each drone, up to 30 cm aside where there are several, else up to 1 m."""
        aside = 1.0 if self.config.agents == 1 else 0.0
        pad = drones.pos[:, :2] + aside * jax.random.uniform(key, (self.config.agents, 2), minval=-1.0) / 2**0.5
        return Course(pad, drones.pos[:, 2])

    def points(self, course: Course, time: Array, drones: Drones) -> tuple[Array, Array]:
        """Over the pads, sinking to the floor."""
        height = jnp.maximum(course.height - SINK * time, TOUCH)
        rate = jnp.where(height > TOUCH, -SINK, 0.0)
        still = jnp.zeros_like(drones.pos)
        return jnp.concatenate([course.pad, height[:, None]], 1), still.at[:, 2].set(rate)

    @functools.cached_property
    def operator(self) -> Operator:
        """The pad, or the middle of all pads, within 1 m of the middle of the floor.

        Measured is the mean of the drones' places, from above.
        """
        ranges = tuple(
            CommandRange(f"{axis} of the pad", "m", -1.0, 1.0, "goal.course.pad", (i,)) for i, axis in enumerate("xy")
        )
        return dataclasses.replace(
            super().operator, ranges=ranges, measured=lambda world, state: jnp.mean(Drones.of(world).pos[:, :2], 0)
        )

    def lost(self, drones: Drones) -> Array:
        """(A,) bool, drones that hit the floor, sank below their legs' length or left."""
        height = drones.pos[:, 2]
        hard = (height < TOUCH) & (drones.vel[:, 2] < -HARD)
        return ~self.arena.contains(drones.pos) | hard | (height < LEGS / 2)
