"""`swarm/flock`: drones agree on a direction and fly it together, without a leader."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.world import World
from tasks.swarm.dynamics.drones import Box, Drones, length, still
from tasks.swarm.team.drone_team import DroneTeam, DroneTeamConfig, TaskState

SPEED = 0.5  # m/s, of the flock
HEIGHT = 1.5  # m
ROOM = 1.0  # m, side of the cube that each drone has at the start
EGO_SIZE = 11  # numbers of `Flock.ego_observation`
REACH = 12.0  # m from the start's border, farther than a flock comes in an episode


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    alignment: float = 1.0
    """Cosine between a drone's velocity and that of the team-mates it sees, in [-1, 1]."""
    speed: float = -1.0
    """m/s off half a metre per second."""
    cohesion: float = -0.5
    """m between a drone and the middle of the team-mates it sees, beyond 1 m."""
    crowding: float = -2.0
    """Closeness of others within 30 cm, now or soon, in [0, 1]."""
    height: float = -0.5
    """m off 1.5 m."""
    action_rate: float = -0.02
    """Squared change of the action."""
    ended: float = -20.0
    """For a drone that collides, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class FlockConfig(DroneTeamConfig):
    """Options of `swarm/flock`."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Goal:
    """Progress of the flock."""

    ordered_steps: Array
    """() int32 control steps since the flock was last not aligned."""


class Flock(DroneTeam[Goal]):
    """Drones that start in all directions end up flying in one.

    Each sees its nearest team-mates only. Randomised: starts, velocities. Success: for the last 2 s of 12 s the
    polarisation of the flock (Vicsek et al. 1995: the length of the mean unit velocity) is above 0.95. Failure: a
    collision, a crash.
    """

    config_type = FlockConfig
    config: Any
    seconds = 12.0
    language = Language.of("Flock together.", "Fly in the same direction as your neighbours.", "Move as one swarm.")

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.half = ROOM * max(options.agents, 2) ** (1 / 2) / 2
        reach = self.half + REACH
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 3.0))
        super().__init__(options, changes)

    def start_box(self) -> Box:
        return Box((-self.half, -self.half, HEIGHT - 0.4), (self.half, self.half, HEIGHT + 0.4))

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        place, way = jax.random.split(key)
        drones = self.scattered(place)
        angle = jax.random.uniform(way, (self.config.agents,), maxval=2 * jnp.pi)
        velocity = SPEED * jnp.stack([jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)], -1)
        return dataclasses.replace(still(drones.pos), vel=velocity), Goal(jnp.zeros((), jnp.int32))

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        del key
        ordered = polarisation(drones.vel) > 0.95
        return Goal(jnp.where(ordered, state.goal.ordered_steps + 1, 0))

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`velocity` (3) m/s, `up` (3), `height` (1) m off the flock's, `last_action` (4)."""
        return {
            "velocity": drones.vel,
            "up": drones.up,
            "height": drones.pos[:, 2:] - HEIGHT,
            "last_action": state.action,
        }

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones = Drones.of(world)
        seen = state.near < self.config.agents
        others = jnp.minimum(state.near, self.config.agents - 1)
        share = seen[..., None] / jnp.maximum(jnp.sum(seen, 1), 1)[:, None, None]
        middle = jnp.sum(share * (drones.pos[others] - drones.pos[:, None]), 1)
        common = jnp.sum(share * unit(drones.vel)[others], 1)
        return {
            "alignment": jnp.sum(unit(drones.vel) * common, -1),
            "speed": jnp.abs(length(drones.vel) - SPEED),
            "cohesion": jnp.maximum(length(middle) - 1.0, 0.0),
            "crowding": self.crowding(state),
            "height": jnp.abs(drones.pos[:, 2] - HEIGHT),
            "action_rate": jnp.sum(state.action_change**2, -1),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Goal]) -> Array:
        del drones
        return state.goal.ordered_steps * self.timing.control_dt >= 2.0

    metric_units: Mapping[str, str] = {"speed": "m/s"}

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Vicsek's polarisation, Kuramoto's order parameter of the headings, speed in m/s, share in a collision."""
        drones = Drones.of(world)
        return {
            "polarisation": polarisation(drones.vel),
            "kuramoto": kuramoto(jnp.arctan2(drones.vel[:, 1], drones.vel[:, 0])),
            "speed": length(drones.vel),
            "collision": self.collided(state).astype(jnp.float32),
        }


def polarisation(velocity: Array) -> Array:
    """() in [0, 1], length of the mean of the unit vectors along (A, 3) velocities (Vicsek et al. 1995, eq. 4)."""
    return length(jnp.mean(unit(velocity), 0))


def kuramoto(phase: Array) -> Array:
    """() in [0, 1], order parameter |1/N sum exp(i phase)| of (A,) phases in rad (Kuramoto 1984)."""
    return jnp.sqrt(jnp.mean(jnp.cos(phase)) ** 2 + jnp.mean(jnp.sin(phase)) ** 2)


def unit(vector: Array) -> Array:
    """(..., 3) of length 1; of a vector that is nearly zero, shorter."""
    return vector / jnp.maximum(length(vector), 1e-3)[..., None]
