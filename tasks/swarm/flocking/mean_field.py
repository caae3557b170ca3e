"""`swarm/mean-field-flock`: hundreds of drones fly by one rule, and a policy for all of them chooses the rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language, Operator
from embodied.core.hooks import UNCHANGED, Changes, Observation
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import SPEED as FULL_SPEED
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.drones import Drones, length
from tasks.swarm.flocking.flock import HEIGHT, SPEED, Flock, Goal, polarisation, unit
from tasks.swarm.team.drone_team import DroneTeamConfig, TaskState

TURN = np.pi / 2  # rad, by which a rule turns a drone's course at most
SPEED_SPREAD = 0.5  # share of the flock's speed by which a rule makes a drone faster or slower at most
CLIMB = 1.5  # 1/s, of the height a drone is off by
AVOID_WITHIN = 0.6  # m, from where a drone moves away from its nearest team-mate, whatever the rule commands
AVOID = 1.0  # m/s, as it touches


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms; all are means over the drones."""

    polarisation: float = 1.0
    """Length of the mean unit velocity, in [0, 1]."""
    speed: float = -1.0
    """m/s off half a metre per second."""
    crowding: float = -0.5
    """Closeness of others within 30 cm, now or soon, in [0, 1]."""
    action_rate: float = -0.02
    """Squared change of the commanded velocity, (m/s)^2."""


@dataclasses.dataclass(frozen=True)
class MeanFieldFlockConfig(DroneTeamConfig):
    """Options of `swarm/mean-field-flock`."""

    agents: int = 200
    """Number of drones. Observations and actions do not depend on it."""
    heard: int = 6
    """Team-mates, anywhere in the swarm, whose course a drone hears by radio in a control step; drawn anew in each, one
    maybe twice."""
    bins: int = 8
    """Angles, all around, at which an action gives the rule's values; those between are interpolated."""
    concentration: float = 4.0
    """Of the von Mises kernels that interpolate: 1 / sqrt(concentration) rad is their width."""
    collisions_end: bool = False
    """Whether a collision, a crash or a drone that leaves ends the episode as a failure."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level is not Level.VELOCITY:
            raise EmbodiedError(f"level={self.level}; expected velocity: a rule turns a course, and sets a speed")
        if self.heard < 1 or self.agents < 2:
            raise EmbodiedError(
                f"heard={self.heard}, agents={self.agents}; expected at least 1, and 2 drones to hear each other"
            )
        if self.bins < 2 or self.concentration <= 0:
            raise EmbodiedError(
                f"bins={self.bins}, concentration={self.concentration}; expected at least 2, and a positive number"
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Heard(Goal):
    """The flock, and what its drones heard last."""

    angle: Array
    """(A,) rad in [-pi, pi], from a drone's course to the mean course of those it heard, counter-clockwise."""


class MeanFieldFlock(Flock):
    """A flock as one decision: one action is the rule by which all drones fly for a control step.

    Mean-field control (Cui et al., "Learning decentralized partially observable mean field control for artificial
    collective behavior", ICLR 2024, arXiv:2307.06175): many alike agents are described by how they are distributed. A
    policy sees that distribution and picks a decision rule, a map from what a drone observes to what it does; every
    drone then applies the rule to its own observation. So a policy learned with 200 drones is one for any number.

    A drone observes an angle: from its own course to the mean course of the `heard` team-mates it hears by radio. The
    rule turns its course and changes its speed; its values at the `bins` angles are the action, those between are their
    means weighted by von Mises kernels. Beneath the rule, every drone keeps its height and moves away from a team-mate
    nearer than 60 cm. Randomised: starts, velocities. Success: for the last 2 s of 12 s the polarisation is above 0.95.
    No failure, unless `collisions_end`.

    Action: of each bin, from -pi on, by how much the course turns, 1 is 90 degrees to the left; then of each bin, how
    much faster than 0.5 m/s, 1 is by half.
    """

    config_type = MeanFieldFlockConfig
    language = Language.of(
        "Give all drones one rule by which they come to fly in one direction.", "Steer the swarm as one."
    )

    def __init__(self, config: MeanFieldFlockConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.team = None
        self.action_size = 2 * self.config.bins
        self.operator = Operator()
        self.angles = np.linspace(-np.pi, np.pi, self.config.bins, endpoint=False, dtype=np.float32)

    def build_spec(self) -> mujoco.MjSpec:
        """The drones, too many for cameras of their own, and `view`, a camera that sees all of them at first."""
        spec = super().build_spec()
        away = self.half + 0.5
        spec.worldbody.add_camera(name="view", pos=[0, -2 * away, HEIGHT + away], xyaxes=[1, 0, 0, 0, 0.45, 0.9])
        return spec

    @property
    def command_size(self) -> int:
        """Numbers of a drone's velocity command, which the rule gives; the action is the rule."""
        return self.level.size

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        drawn, radio = jax.random.split(key)
        drones, goal = super().draw(drawn)
        return drones, Heard(goal.ordered_steps, self._hear(drones, radio))

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        goal = super().advance(drones, state, key)
        return Heard(goal.ordered_steps, self._hear(drones, key))

    def _hear(self, drones: Drones, key: Array) -> Array:
        """(A,) rad, from each drone's course to the mean course of `heard` others."""
        count = self.config.agents
        steps = jax.random.randint(key, (count, self.config.heard), 1, count)
        others = (jnp.arange(count)[:, None] + steps) % count
        course = unit(drones.vel * jnp.array([1.0, 1.0, 0.0]))
        mean = jnp.mean(course[others], 1)
        across = course[:, 0] * mean[:, 1] - course[:, 1] * mean[:, 0]
        along = jnp.sum(course * mean, -1)
        return jnp.arctan2(across, jnp.where(jnp.abs(along) + jnp.abs(across) < 1e-6, 1.0, along))

    def _kernels(self, angle: Array) -> Array:
        """(A, bins), how much each bin counts for the angles (A,); rows sum to one."""
        return jax.nn.softmax(self.config.concentration * jnp.cos(angle[:, None] - self.angles), -1)

    def process_action(
        self, world: World, state: TaskState[Goal], action: Array, key: Array
    ) -> tuple[Any, TaskState[Goal]]:
        """Every drone's velocity by the rule (2 * bins,)."""
        drones = Drones.of(world)
        turn, faster = (self._kernels(heard(state)) @ action.reshape(2, -1).T).T
        course = jnp.arctan2(drones.vel[:, 1], drones.vel[:, 0] + 1e-9) + TURN * turn
        speed = SPEED * (1 + SPEED_SPREAD * faster)
        velocity = jnp.stack([jnp.cos(course), jnp.sin(course)], -1) * speed[:, None] + self._away(drones, state)
        climb = jnp.clip(CLIMB * (HEIGHT - drones.pos[:, 2:]), -1.0, 1.0)
        command = jnp.concatenate([velocity, climb, jnp.zeros_like(climb)], 1) / FULL_SPEED
        return super().process_action(world, state, jnp.clip(command, -1.0, 1.0), key)

    def _away(self, drones: Drones, state: TaskState[Goal]) -> Array:
        """(A, 2) m/s away from the nearest team-mate, as far as that is too near."""
        nearest = jnp.minimum(state.near[:, 0], self.config.agents - 1)
        offset = (drones.pos - drones.pos[nearest])[:, :2]
        within = jnp.clip(1 - state.gap / AVOID_WITHIN, 0.0, 1.0)
        return AVOID * within[:, None] * offset / jnp.maximum(length(offset), 1e-3)[:, None]

    def observe(self, world: World, state: TaskState[Goal], key: Array) -> Observation:
        """`policy`: `histogram` (bins), the share of drones that hear each angle, times the number of bins; `speed`
        (1), m/s, their mean speed; `polarisation` (1); `time_left` (1), of 1 at the start.
        """
        del key
        drones = Drones.of(world)
        left = 1.0 - world.time / self.timing.episode_seconds
        return {
            "policy": {
                "histogram": self.config.bins * jnp.mean(self._kernels(heard(state)), 0),
                "speed": jnp.mean(length(drones.vel))[None],
                "polarisation": polarisation(drones.vel)[None],
                "time_left": jnp.reshape(left, (1,)),
            }
        }

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones = Drones.of(world)
        return {
            "polarisation": polarisation(drones.vel),
            "speed": jnp.mean(jnp.abs(length(drones.vel) - SPEED)),
            "crowding": jnp.mean(self.crowding(state)),
            "action_rate": jnp.mean(jnp.sum(state.action_change**2, -1)),
        }

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """As of every flock, the means over its drones."""
        return {name: jnp.mean(value) for name, value in super().metrics(world, state).items()}


def heard(state: TaskState[Goal]) -> Array:
    """(A,) rad, what each drone heard last, see `Heard`."""
    goal = state.goal
    assert isinstance(goal, Heard)
    return goal.angle
