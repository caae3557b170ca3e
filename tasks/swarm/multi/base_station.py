"""`swarm/base-station`: drones place themselves as radio stations for people on the ground."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.entity_rows import Kind, entity_rows
from embodied.core.facets import Language, Operator, Pictures
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.world import Control, World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import SPEED, Level, require_level
from tasks.swarm.dynamics.drones import Box, Drones
from tasks.swarm.team.drone_team import DroneTeam, DroneTeamConfig, TaskState

SIDE = 6.0  # m of ground, a town in miniature: one metre here stands for a hundred
HEIGHT = 1.5  # m, of the drones at the start
CLUSTERS = 4  # crowds among which people gather
SPREAD = 0.5  # m, standard deviation of a crowd
# Free-space loss at a reference distance of 1 m, transmit power and noise together: 20 dB of signal over noise there.
SNR_AT_1M = 100.0  # -
INTERFERENCE = 0.1  # -, share of the other stations' power that a receiver's channel filter lets through
LEAST = 0.05  # -, least request of a station, of 1 at the most: none is ever silent
WANTED = ("power wanted, relative", "bandwidth wanted, relative")
EGO_SIZE = 13  # numbers of `BaseStation.ego_observation`


class Radio(StrEnum):
    """Allocation of power and bands."""

    OWN = "own"
    """Each station has a band and a power of its own, for each person alike; others' bands leak into it."""
    SHARED = "shared"
    """The team has one power and one band, of a hertz per person. Each station commands, with two numbers more, how
    much it wants of both; they get shares in proportion, and each divides its own among its people."""


SERVED: Mapping[Radio, float] = {Radio.OWN: 2.5, Radio.SHARED: 4.5}
"""bit/s/Hz, least rate at which a person counts as served (`shared`: bit/s, of a band of a hertz per person).

Together in the middle drones give 2 (`own`); over their crowds, but with equal shares, they seldom serve nine of ten
(`shared`)."""


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    rate: float = 0.3
    """Mean rate of all people, bit/s/Hz."""
    served: float = 1.0
    """Share of the people who are served."""
    crowding: float = -1.0
    """Closeness of others within 30 cm, now or soon, in [0, 1]."""
    speed: float = -0.05
    """m/s."""
    ended: float = -20.0
    """For a drone that collides, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class BaseStationConfig(DroneTeamConfig):
    """Options of `swarm/base-station`."""

    agents: int = 4
    """Number of drones."""
    users: int = 24
    """Number of people on the ground."""
    seen: int = 8
    """People that each drone hears, those with the strongest signals."""
    radio: Radio = Radio.OWN
    """own: a band and a power of each station. shared: stations also command how much they want of the team's."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.users < 1 or not 1 <= self.seen <= self.users:
            raise EmbodiedError(f"users={self.users} must be positive and seen={self.seen} between 1 and users")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Goal:
    """Positions of the people, and their reception."""

    users: Array
    """(U, 2) m."""
    rate: Array
    """(U,) bit/s/Hz from the best station."""
    station: Array
    """(U,) int32 the drone that serves each."""


class BaseStation(DroneTeam[Goal]):
    """A team spreads over a crowd so that everybody receives.

    People gather in four crowds. Each takes the nearest drone as station; the others interfere. The rate is
    log2(1 + signal / (noise + interference)), power falls with the square of the distance. Where power and bandwidth
    are shared (`config.radio`), it is B/n log2(1 + signal / (B noise)) with a station's bandwidth B for its n people.
    Randomised: starts, crowds. Success: nine of ten people get at least 2.5 bit/s/Hz (shared: 4.5 bit/s). Failure: a
    collision, a crash, a drone outside the arena.
    """

    config_type = BaseStationConfig
    commands: Mapping[str, str] = {"goal.users": "x and y m of each person, world frame"}
    config: BaseStationConfig
    seconds = 12.0
    arena = Box((-SIDE / 2 - 1, -SIDE / 2 - 1, 0.0), (SIDE / 2 + 1, SIDE / 2 + 1, 4.0))
    language = Language.of(
        "Serve the people on the ground.", "Spread out as base stations.", "Cover all users with signal."
    )

    def __init__(self, config: BaseStationConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        if self.config.radio == Radio.SHARED:
            self.action_size += len(WANTED)

    @functools.cached_property
    def operator(self) -> Operator:
        setpoints = (*self.level.entries, *WANTED) if self.config.radio == Radio.SHARED else self.level.entries
        return dataclasses.replace(super().operator, setpoints=setpoints)

    def start_box(self) -> Box:
        reach = max(1.0, 0.3 * self.config.agents**0.5)
        return Box((-reach, -reach, HEIGHT), (reach, reach, HEIGHT))

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        place, crowd, which, away = jax.random.split(key, 4)
        drones, count = self.scattered(place), self.config.users
        centres = jax.random.uniform(crowd, (CLUSTERS, 2), minval=-SIDE / 2 + SPREAD, maxval=SIDE / 2 - SPREAD)
        of = jax.random.randint(which, (count,), 0, CLUSTERS)
        users = jnp.clip(centres[of] + SPREAD * jax.random.normal(away, (count, 2)), -SIDE / 2, SIDE / 2)
        return drones, self._received(drones, users, jnp.zeros((self.config.agents, self.action_size)))

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        """People stay; what they receive changes."""
        del key
        return self._received(drones, state.goal.users, state.action)

    def _received(self, drones: Drones, users: Array, action: Array) -> Goal:
        """Station and rate of each person."""
        offset = drones.pos[:, None] - jnp.pad(users, ((0, 0), (0, 1)))
        power = SNR_AT_1M / jnp.maximum(jnp.sum(offset**2, -1), 0.01)  # (A, U), over noise, at full power
        best, station = jnp.max(power, 0), jnp.argmax(power, 0).astype(jnp.int32)
        if self.config.radio == Radio.SHARED:
            share = shares(action[:, self.level.size :])[station]  # (U, 2) of the station that serves each
            bandwidth = len(users) * share[:, 1]
            people = jnp.sum(station == station[:, None], 1)
            rate = bandwidth / people * jnp.log2(1 + best * share[:, 0] / share[:, 1])
        else:
            rate = jnp.log2(1 + best / (1 + INTERFERENCE * (jnp.sum(power, 0) - best)))
        return Goal(users, rate, station)

    def process_action(
        self, world: World, state: TaskState[Goal], action: Array, key: Array
    ) -> tuple[Any, TaskState[Goal]]:
        command, state = super().process_action(world, state, action, key)
        return jnp.concatenate([command, action[:, self.level.size :]], 1), state

    def apply_action(self, world: World, state: TaskState[Goal], command: Any) -> tuple[Control, TaskState[Goal]]:
        return super().apply_action(world, state, command[:, : self.level.size])

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`place` (3) and `velocity` (3) m and m/s, `load` (1), `heard` (2) m, `last_action` (4).

        `load`: share of the people it serves; `heard`: from the drone to their middle, along the ground; `last_action`
        without what it wanted of power and bandwidth.
        """
        serves = state.goal.station == jnp.arange(self.config.agents)[:, None]
        count = jnp.sum(serves, 1, keepdims=True)
        middle = (serves @ state.goal.users) / jnp.maximum(count, 1)
        return {
            "place": drones.pos / jnp.array([SIDE / 2, SIDE / 2, 2.0]),
            "velocity": drones.vel,
            "load": count / self.config.users,
            "heard": jnp.where(count > 0, middle - drones.pos[:, :2], 0.0),
            "last_action": state.action[:, : self.level.size],
        }

    def entities(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`teammates`, and the `people` with the strongest signals, of size 1 where another drone serves them."""
        users, goal = state.goal.users, state.goal
        offset = jnp.pad(users, ((0, 0), (0, 1))) - drones.pos[:, None]
        _, near = jax.lax.top_k(-jnp.sum(offset**2, -1), self.config.seen)
        theirs = (goal.station[near] != jnp.arange(self.config.agents)[:, None]).astype(jnp.float32)
        offset = jnp.take_along_axis(offset, near[..., None], 1)
        present = jnp.ones(near.shape, bool)
        people = entity_rows(Kind.TARGET, offset, jnp.zeros_like(offset), theirs, present)
        return {**super().entities(drones, state), "people": people}

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones = Drones.of(world)
        return {
            "rate": jnp.mean(state.goal.rate),
            "served": self._served(state.goal),
            "crowding": self.crowding(state),
            "speed": jnp.sqrt(jnp.sum(drones.vel**2, -1)),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Goal]) -> Array:
        del drones
        return self._served(state.goal) >= 0.9

    def _served(self, goal: Goal) -> Array:
        return jnp.mean((goal.rate >= SERVED[self.config.radio]).astype(jnp.float32))

    metric_units: Mapping[str, str] = {"rate": "bit/s/Hz"}

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Share of people served, mean rate in bit/s/Hz, share of drones in a collision."""
        del world
        goal = state.goal
        collided = self.collided(state).astype(jnp.float32)
        return {"served": self._served(goal), "rate": jnp.mean(goal.rate), "collision": collided}

    def expert(self, observation: Mapping[str, Array], state: TaskState[Goal]) -> Array:
        """Lloyd's algorithm: every drone flies to the middle of the people that it serves, at half the height.

        The standard placement by k-means, which descends from where the drones begin: one that serves no person stays.
        Where power and bandwidth are shared, each wants as much as it may (greedy), so that all get the same.

        Raises:
            EmbodiedError: actions of another level than velocity.
        """
        del state
        require_level(self.config.level, (Level.VELOCITY,))
        own = observation["policy"]
        way = jnp.concatenate([own[:, 7:9], HEIGHT / 2 - 2.0 * own[:, 2:3]], 1)
        flight = jnp.clip(jnp.pad(2.0 * way / SPEED, ((0, 0), (0, 1))), -1.0, 1.0)
        return jnp.pad(flight, ((0, 0), (0, self.action_size - self.level.size)), constant_values=1.0)

    @functools.cached_property
    def pictures(self) -> Pictures:
        pad = functools.partial(jnp.pad, pad_width=((0, 0), (0, 1)), constant_values=0.05)
        return dataclasses.replace(super().pictures, markers=lambda world, state: {"target": pad(state.goal.users)})


def shares(wanted: Array) -> Array:
    """(A, k) shares of the team's power and bandwidth, each column's sum 1, of what (A, k) in [-1, 1] is wanted."""
    asked = LEAST + (1 - LEAST) * (wanted + 1) / 2
    return asked / jnp.sum(asked, 0)
