"""`swarm/formation`: drones scattered in the air take their slots in a formation that travels."""

from __future__ import annotations

import dataclasses
import functools
from enum import StrEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.facets import CommandRange, Language, Operator
from embodied.core.hooks import UNCHANGED, Changes
from tasks.swarm.dynamics.drones import Box, Drones
from tasks.swarm.team.waypoints import WaypointConfig, WaypointTask

PITCH = 0.8  # m between neighbours in a formation
HEIGHT = 1.5  # m, of a formation, of the leader's circle, and where drones meet


class Shape(StrEnum):
    """Shape of a formation, from above."""

    CIRCLE = "circle"
    GRID = "grid"
    LINE = "line"
    WEDGE = "wedge"


def slots(shape: Shape, count: int) -> np.ndarray:
    """(count, 3) m from the centre, neighbours at least `PITCH` apart, all at one height."""
    number = np.arange(count)
    if shape is Shape.CIRCLE:
        # Neighbours on a circle of radius R stand 2 R sin(pi / n) apart.
        radius = 0.0 if count == 1 else PITCH / (2 * np.sin(np.pi / count))
        angle = 2 * np.pi * number / count
        flat = radius * np.stack([np.cos(angle), np.sin(angle)], -1)
    elif shape is Shape.GRID:
        side = int(np.ceil(np.sqrt(count)))
        flat = PITCH * np.stack([number // side, number % side], -1)
    elif shape is Shape.LINE:
        flat = PITCH * np.stack([np.zeros(count), number], -1)
    else:
        rank = (number + 1) // 2
        flat = PITCH * np.stack([-rank, rank * np.where(number % 2, 1, -1)], -1)
    flat = flat - flat.mean(0)
    return np.concatenate([flat, np.zeros((count, 1))], 1).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class FormationConfig(WaypointConfig):
    """Options of `swarm/formation`."""

    shape: Shape = Shape.CIRCLE
    """circle, grid, line or wedge."""
    speed: float = 0.3
    """m/s, with which the formation travels at most."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """A formation on its way."""

    centre: Array
    """(3,) m at the start."""
    velocity: Array
    """(3,) m/s."""
    slots: Array
    """(A, 3) m from the centre."""


class Formation(WaypointTask):
    """Drones take their slots and travel together.

    Task: fly to the own slot of a formation, which is drawn at a random heading and moves at up to 0.3 m/s, past the
    others and without touching them. Randomised: starts, at least 30 cm apart; heading, course. Success: all within
    15 cm of their slots for a second, at the end of 12 s. Failure: a collision, a crash, a drone outside the arena.
    """

    config_type = FormationConfig
    config: FormationConfig
    seconds = 12.0
    language = Language.of("Get into formation.", "Take your places and fly together.", "Form up and travel as one.")

    def __init__(self, config: FormationConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.slots = slots(options.shape, options.agents)
        reach = float(np.abs(self.slots).max()) + 2.0
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 3.0))
        super().__init__(options, changes)

    def start_box(self) -> Box:
        reach = self.arena.high[0] - 1.0
        return Box((-reach, -reach, 0.7), (reach, reach, 2.3))

    def course(self, drones: Drones, key: Array) -> Course:
        """A formation at a random heading and speed, in the middle of the arena."""
        del drones
        heading, direction, speed = jax.random.uniform(key, (3,))
        turn, way = 2 * jnp.pi * heading, 2 * jnp.pi * direction
        cosine, sine = jnp.cos(turn), jnp.sin(turn)
        x, y, z = jnp.asarray(self.slots).T
        velocity = self.config.speed * speed * jnp.stack([jnp.cos(way), jnp.sin(way), jnp.zeros(())])
        # It passes the arena's centre half-way through the episode.
        centre = jnp.array([0.0, 0.0, HEIGHT]) - velocity * self.seconds / 2
        return Course(centre, velocity, jnp.stack([cosine * x - sine * y, sine * x + cosine * y, z], -1))

    @functools.cached_property
    def operator(self) -> Operator:
        """The formation's centre, 1 m around the middle of the arena; the slots keep their places around it.

        Measured is the mean of the drones' positions.
        """
        spans = zip("xyz", (0.0, 0.0, HEIGHT), (1.0, 1.0, 0.5), range(3), strict=True)
        still = ("goal.velocity", "goal.acceleration")
        ranges = tuple(
            CommandRange(axis, "m", at - span, at + span, "goal.point", (i,), derivatives=still)
            for axis, at, span, i in spans
        )
        return dataclasses.replace(
            super().operator, ranges=ranges, measured=lambda world, state: jnp.mean(Drones.of(world).pos, 0)
        )

    def points(self, course: Course, time: Array, drones: Drones) -> tuple[Array, Array]:
        points = course.centre + course.velocity * time + course.slots
        return points, jnp.broadcast_to(course.velocity, drones.pos.shape)


class LeaderFollower(WaypointTask):
    """A leader flies a way of its own; the others keep their places behind it, from what they see of it.

    Only the leader, drone 0, knows its way; a follower sees its own point, which moves with the leader. Randomised:
    starts, the leader's way. Success: all within 20 cm of their points for a second, at the end of 12 s. Failure: a
    collision, a crash, a drone outside the arena.
    """

    seconds = 12.0
    close = 0.2
    arena = Box((-6.0, -6.0, 0.0), (6.0, 6.0, 3.0))
    language = Language.of("Follow the leader.", "Keep your place behind the first drone.", "Fly in the leader's wake.")

    def start_box(self) -> Box:
        return Box((-2.0, -2.0, 0.8), (2.0, 2.0, 2.2))

    def course(self, drones: Drones, key: Array) -> Array:
        """The leader's circle: its phase (rad), radius (m) and angular speed (rad/s), (3,)."""
        del drones
        phase, radius, speed = jax.random.uniform(key, (3,))
        # The outermost of eight is 5.5 m from the circle's centre at most, and so flies up to 0.55 m/s.
        return jnp.stack([2 * jnp.pi * phase, 1.5 + radius, 0.05 + 0.05 * speed])

    def points(self, course: Array, time: Array, drones: Drones) -> tuple[Array, Array]:
        """The leader's place on its circle, and those of the others from where the leader really is.

        The wedge turns as the leader flies round, so that its places move by the leader's velocity and that turning.
        """
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
        turning = speed * jnp.stack([-behind[:, 1], behind[:, 0], jnp.zeros_like(z)], -1)
        leads = jnp.arange(self.config.agents)[:, None] == 0
        return jnp.where(leads, ahead, followers), jnp.where(leads, velocity, drones.vel[0] + turning)


class Swap(WaypointTask):
    """Drones change places, the first with the last, the second with the one before, ...

    After gym-pybullet-drones' `Meetup` (mirrored pairs), where all ways cross in the middle. Randomised: the starts, at
    least 30 cm apart. Success: all within 15 cm of their places for a second, at the end of 10 s. Failure: a
    collision, a crash, a drone outside the arena.
    """

    seconds = 10.0
    arena = Box((-2.5, -2.5, 0.0), (2.5, 2.5, 3.0))
    language = Language.of("Swap places.", "Trade places with the drone opposite.", "Fly to where your partner is now.")

    def start_box(self) -> Box:
        return Box((-1.8, -1.8, 0.8), (1.8, 1.8, 2.2))

    def course(self, drones: Drones, key: Array) -> Array:
        """Positions of the partners now, (A, 3) m."""
        del key
        return drones.pos[::-1]

    def points(self, course: Array, time: Array, drones: Drones) -> tuple[Array, Array]:
        del time
        return course, jnp.zeros_like(drones.pos)


class MeetUp(Swap):
    """Drones scattered in the air come together in a tight circle around where they were on average.

    Randomised: the starts, at least 30 cm apart. Success and failure as in `Swap`.
    """

    language = Language.of("Meet up.", "Come together in the middle.", "Gather around your common centre.")

    def course(self, drones: Drones, key: Array) -> Array:
        """A circle around the mean of the starts, entered from where each drone is, by angle."""
        circle = jnp.asarray(slots(Shape.CIRCLE, self.config.agents))
        centre = jnp.mean(drones.pos, 0).at[2].set(HEIGHT)
        away = drones.pos - centre
        # The drone with the k-th angle around the centre takes the k-th slot, from a random first one on.
        rank = jnp.argsort(jnp.argsort(jnp.arctan2(away[:, 1], away[:, 0])))
        first = jax.random.randint(key, (), 0, self.config.agents)
        return centre + circle[(rank + first) % self.config.agents]
