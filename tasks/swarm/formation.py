"""`swarm/formation`: drones scattered in the air take their slots in a formation that travels."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tasks.swarm.drones import Box, Drones
from tasks.swarm.points import Points, PointsConfig

PITCH = 0.8  # m between neighbours in a formation
HEIGHT = 1.5  # m, of its centre


class Shape(StrEnum):
    """What a formation looks like from above."""

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
class FormationConfig(PointsConfig):
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


class Formation(Points):
    """Drones take their slots and travel together.

    Task: fly to the own slot of a formation, which is drawn at a random heading and moves at up to 0.3 m/s, past the
    others and without touching them. Randomised: starts, at least 30 cm apart; heading, course. Success: all within
    15 cm of their slots for a second, at the end of 12 s. Failure: a collision, a crash, a drone outside the arena.
    """

    config_type = FormationConfig
    config: FormationConfig
    seconds = 12.0
    instruction = ("Get into formation.", "Take your places and fly together.", "Form up and travel as one.")

    def __init__(self, config: FormationConfig | None = None) -> None:
        """Make the arena wide enough for the formation."""
        options = config or self.config_type()
        self.slots = slots(options.shape, options.agents)
        reach = float(np.abs(self.slots).max()) + 2.0
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 3.0))
        super().__init__(options)

    def start_box(self) -> Box:
        """Around the formation's place."""
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

    def points(self, course: Course, time: Array, drones: Drones) -> tuple[Array, Array]:
        """The slots on their way."""
        points = course.centre + course.velocity * time + course.slots
        return points, jnp.broadcast_to(course.velocity, drones.pos.shape)
