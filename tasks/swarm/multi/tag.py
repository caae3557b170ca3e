"""`swarm/tag`: slower predators catch a faster prey between columns; the two sides earn opposed rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.entity_rows import WIDTH, Kind, entity_rows
from embodied.core.facets import Language
from embodied.core.hooks import UNCHANGED, Changes, Observation
from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.storage.bounds import NOT_NEGATIVE, POSITIVE
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.drones import Box, Drones, length, places, scatter, still
from tasks.swarm.team.chase import flight, shortened
from tasks.swarm.team.columns import AmongColumns, Columns
from tasks.swarm.team.drone_team import DroneTeamConfig, TaskState, closest_approach

# Lengths are those of simple_tag times 2 m, so that half the square is 2 m; speeds those times SPEED / 1.3.
CATCH = 0.25  # m along the floor; there predator and prey touch at .075 + .05
HEIGHT = 1.0  # m, of the starts
MARGIN = 1.0  # m around the square in which drones may fly
CELLS = 9  # of the grid in which drones begin and columns stand, at least
GAP = 0.3  # m between columns, and from starts to columns, at least
SHARPNESS = 3.0  # 1/s, acceleration over top speed of a predator (accel 3.0, max_speed 1.0)
SPEED_RATIO = 1.3  # top speed of the prey over a predator's (max_speed 1.3 and 1.0)
ACCELERATION_RATIO = 4 / 3  # of the prey over a predator's (accel 4.0 and 3.0)
BORDER, STEEP, MOST = 0.9, 10.0, 10.0  # of the penalty for leaving, see `bound`
EGO_SIZE = 11  # numbers of `Tag.ego_observation`
COLOURS = {"predators": (0.85, 0.35, 0.35, 1.0), "prey": (0.35, 0.85, 0.35, 1.0)}  # RGBA of simple_tag


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    caught: float = 1.0
    """Prey that is caught, for each predator; minus 1 for prey that is caught itself."""
    distance: float = 0.1
    """m to the nearest of the other side: minus for a predator, plus for the prey."""
    bound: float = -0.1
    """simple_tag's penalty for prey that leaves the square, up to 20. Weighted to `caught` as there."""
    crowding: float = -0.5
    """Closeness of its own side within 30 cm and of columns within 15 cm, now or soon, in [0, 2]."""
    height: float = -0.5
    """m off the starting height."""
    action_rate: float = -0.02
    """Squared change of the commanded velocity, in units of 1 m/s."""
    ended: float = -2.0
    """At every step of it, for a drone that touches a column or its own side, crashes or leaves the arena."""


@dataclasses.dataclass(frozen=True)
class TagConfig(DroneTeamConfig):
    """Options of `swarm/tag`; the defaults are simple_tag's three predators, one prey and two obstacles."""

    agents: int = 4
    """Number of drones, predators first."""
    prey: int = 1
    """Number of prey among them, the last ones."""
    speed_ratio: Annotated[float, POSITIVE] = SPEED_RATIO
    """Top speed of the prey, 1 m/s, over a predator's."""
    acceleration_ratio: Annotated[float, POSITIVE] = ACCELERATION_RATIO
    """Acceleration of the prey over a predator's, which reaches its top speed in a third of a second."""
    size: Annotated[float, POSITIVE] = 4.0
    """m, side of the square in which drones begin and columns stand."""
    obstacles: Annotated[int, NOT_NEGATIVE] = 2
    """Number of columns."""
    obstacle_radius: Annotated[float, POSITIVE] = 0.4
    """m."""
    neighbours: int = 3
    """Others that each drone sees, of both sides, the nearest ones."""
    seen: Annotated[int, NOT_NEGATIVE] = 2
    """Columns that a drone sees, the nearest ones."""
    sensing: float = 10.0
    """m, how far it sees them."""
    collisions_end: bool = False
    """Whether a collision, a crash or a drone that leaves ends the episode as a failure; else they only cost reward."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.prey < self.agents:
            raise EmbodiedError(f"prey={self.prey} of agents={self.agents}; expected at least one drone on either side")
        if self.level is not Level.VELOCITY:
            raise EmbodiedError(f"level={self.level}; expected velocity: the sides of a tag differ in their top speed")
        if self.neighbours < 1:
            raise EmbodiedError(f"neighbours={self.neighbours}; expected at least 1: whom to hunt, or to flee")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Chase:
    """Sides, columns, and the prey that is caught."""

    prey: Array
    """(A,) 1 for prey, 0 for a predator."""
    columns: Array
    """(O, 2) m."""
    distance: Array
    """(A,) m along the floor to the nearest drone of the other side."""
    caught: Array
    """(A,) bool, prey with a predator within `CATCH`."""
    begun: Array
    """(A,) bool, prey that was not caught a control step ago."""
    gap: Array
    """(A,) m between the centres of a drone and the nearest of its own side; infinite for one alone."""
    miss: Array
    """(A,) m, how near any of its own side would come in half a second if all flew on as they do."""


class Tag(AmongColumns[Chase]):
    """Predators try to stay near a prey that is faster than they are; the prey flies away between columns.

    After the particle environments' simple_tag (Lowe et al., "Multi-agent actor-critic for mixed
    cooperative-competitive environments", arXiv:1706.02275): its numbers of predators, prey and obstacles, its ratios
    of top speeds (1.3) and accelerations (4/3), lengths in proportion (1 there is 2 m here) and its penalty for prey
    that leaves. As there, all predators earn when one of them is near the prey. Drones of 7 cm radius for points that
    bounce off each other: prey is caught while a predator is within 25 cm along the floor; touching a column or one's
    own side costs. Two teams: `predators`, and `prey`, the last drone. Randomised: starts and columns, in a square of
    4 m. Success, which is the predators': all prey is caught at this instant, so `success` counts episodes in which it
    is at the last step, and `success_any` those in which it ever was. Episodes last 10 s; no failure, unless
    `collisions_end`.

    Action: velocity x, y, z and yaw rate. 1 is the side's top speed, which a faster horizontal command is shortened to,
    and the commanded velocity changes no faster than the side accelerates.
    """

    config_type = TagConfig
    commands: Mapping[str, str] = {
        "goal.prey": "1 for a drone that is prey, 0 for a predator",
        "goal.columns": "x and y m of each column",
    }
    config: TagConfig
    seconds = 10.0
    places_drones = True
    language = Language.of(
        "Catch the prey, or get away from the predators.", "Play tag.", "Hunt, or flee if you are hunted."
    )
    metric_units: Mapping[str, str] = {"distance": "m"}

    def __init__(self, config: TagConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        hunters = options.agents - options.prey
        self.sides = {"predators": tuple(range(hunters)), "prey": tuple(range(hunters, options.agents))}
        self.columns = Columns(options.obstacles, options.obstacle_radius)
        self.half = options.size / 2
        reach = self.half + MARGIN
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 2.5))
        flat = Box((-self.half, -self.half, HEIGHT), (self.half, self.half, HEIGHT))
        try:
            self.grid = places(flat, max(CELLS, options.agents + options.obstacles), 2 * options.obstacle_radius + GAP)
        except ValueError as error:
            raise EmbodiedError(
                f"size={options.size} m: {options.agents} starts and {options.obstacles} columns of "
                f"{options.obstacle_radius} m radius find no room ({error})"
            ) from None
        super().__init__(options, changes)
        # Top speed and largest change per control step of predators and prey, in units of what an action of 1 commands.
        fastest = np.array([1 / options.speed_ratio, 1.0], np.float32)
        change = SHARPNESS * self.timing.control_dt / options.speed_ratio
        self.limits = np.stack([fastest, change * np.array([1.0, options.acceleration_ratio], np.float32)])

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        for side, drones in self.sides.items():
            for drone in drones:
                spec.body(f"cf{drone}_cf").add_geom(
                    type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.02, 0, 0], pos=[0, 0, 0.03], rgba=COLOURS[side],
                    mass=0.0, group=2, contype=0, conaffinity=0,
                )  # fmt: skip
        return spec

    def draw(self, key: Array) -> tuple[Drones, Chase]:
        """Starts and columns in cells of one grid."""
        agents, config = self.config.agents, self.config
        drawn = scatter(key, self.grid, len(self.grid[0]))
        drones, columns = still(drawn[:agents]), drawn[agents : agents + config.obstacles, :2]
        prey = jnp.zeros(agents).at[jnp.asarray(self.sides["prey"])].set(1.0)
        return drones, self._looked(drones, prey, columns, jnp.ones(agents, bool))

    def advance(self, drones: Drones, state: TaskState[Chase], key: Array) -> Chase:
        del key
        return self._looked(drones, state.goal.prey, state.goal.columns, state.goal.caught)

    def _looked(self, drones: Drones, prey: Array, columns: Array, before: Array) -> Chase:
        """Distances and catches; `before` (A,) bool: prey that was caught already."""
        offset, velocity = drones.pos - drones.pos[:, None], drones.vel - drones.vel[:, None]
        foe = prey[:, None] != prey
        friend = ~foe & ~jnp.eye(len(prey), dtype=bool)
        distance = least(length(offset.at[..., 2].set(0.0)), foe)
        caught = (prey > 0) & (distance < CATCH)
        gap, miss = least(length(offset), friend), least(closest_approach(offset, velocity), friend)
        return Chase(prey, columns, distance, caught, caught & ~before, gap, miss)

    def goal_in_order(self, goal: Chase, order: Array) -> Chase:
        return dataclasses.replace(goal, prey=goal.prey[order])

    def process_action(
        self, world: World, state: TaskState[Chase], action: Array, key: Array
    ) -> tuple[Any, TaskState[Chase]]:
        """Velocities that the drone's side can fly and reach within a control step, from what it commanded last."""
        fastest, change = jnp.where(state.goal.prey > 0, self.limits[:, 1:], self.limits[:, :1])[..., None]
        flat, up = action[:, :2], action[:, 2:3]
        wanted = fastest * jnp.concatenate([shortened(flat, 1.0), up], 1)
        now = state.action[:, :3]
        command = now + shortened(wanted - now, change)
        return super().process_action(world, state, jnp.concatenate([command, action[:, 3:]], 1), key)

    def ego_observation(self, drones: Drones, state: TaskState[Chase]) -> Mapping[str, Array]:
        """`side` (1): 1 for prey, -1 for a predator; `place` (3): x and y over half the square, m above the start;
        `velocity` (3) m/s, `last_action` (4): commanded velocity m/s and yaw rate; world frame.
        """
        flat, up = drones.pos[:, :2] / self.half, drones.pos[:, 2:] - HEIGHT
        return {
            "side": 2 * state.goal.prey[:, None] - 1,
            "place": jnp.concatenate([flat, up], 1),
            "velocity": drones.vel,
            "last_action": state.action,
        }

    def entities(self, drones: Drones, state: TaskState[Chase]) -> Mapping[str, Array]:
        """`others`: the nearest drones, a team-mate or, of the other side, a target; and the nearest `columns`."""
        found = {"columns": self.column_rows(drones, state.goal)} if self.config.seen else {}
        return {"others": self._others(drones, state), **found}

    def _others(self, drones: Drones, state: TaskState[Chase]) -> Array:
        """Rows (A, neighbours, WIDTH); a target is as large as the distance at which it is caught."""
        prey = state.goal.prey
        others = jnp.minimum(state.near, len(prey) - 1)
        present, foe = state.near < len(prey), prey[others] != prey[:, None]
        offset, velocity = drones.pos[others] - drones.pos[:, None], drones.vel[others] - drones.vel[:, None]
        team = entity_rows(Kind.TEAMMATE, offset, velocity, 2 * self.radius, present & ~foe)
        return team + entity_rows(Kind.TARGET, offset, velocity, CATCH, present & foe)

    def observe(self, world: World, state: TaskState[Chase], key: Array) -> Observation:
        """`policy`: `ego_observation` and the rows of `entities`, for critics too: drones see all there is."""
        del key
        drones = Drones.of(world)
        return {"policy": {**self.ego_observation(drones, state), **self.entities(drones, state)}}

    def crowding(self, state: TaskState[Chase]) -> Array:
        """(A,) as of every team, of the drone's own side."""
        return jnp.clip((self.spacing - state.goal.miss) / (self.spacing - 2 * self.radius), 0.0, 1.0)

    def collided(self, state: TaskState[Chase]) -> Array:
        """(A,) bool, whether a drone touches its own side."""
        return state.goal.gap < 2 * self.radius

    def rewards(self, world: World, state: TaskState[Chase], action: Array) -> Mapping[str, Array]:
        del action
        drones, goal = Drones.of(world), state.goal
        prey, caught = goal.prey > 0, goal.caught.astype(jnp.float32)
        return {
            "caught": jnp.where(prey, -caught, jnp.sum(caught)),
            "distance": jnp.where(prey, goal.distance, -goal.distance),
            "bound": jnp.where(prey, jnp.sum(bound(drones.pos[:, :2] / self.half), -1), 0.0),
            "crowding": self.crowding(state) + self.columns.crowding(drones, goal.columns),
            "height": jnp.abs(drones.pos[:, 2] - HEIGHT),
            "action_rate": jnp.sum(state.action_change[:, :3] ** 2, -1),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Chase]) -> Array:
        """All prey is caught."""
        del drones
        return jnp.all(state.goal.caught | (state.goal.prey == 0))

    def metrics(self, world: World, state: TaskState[Chase]) -> Mapping[str, Array]:
        """Averaged over the prey: `caught`, the share of control steps, `catches` per episode, and `distance` in m to
        the nearest predator. A catch begins where no predator was within 25 cm a control step ago; of episodes that end
        early they are counted as if they went on so. Shares of drones in a collision, in a column, and lost.
        """
        drones, goal = Drones.of(world), state.goal
        of_prey = lambda value: jnp.sum(goal.prey * value) / self.config.prey  # noqa: E731
        return {
            "caught": of_prey(goal.caught),
            "catches": of_prey(goal.begun) * self.timing.max_steps,
            "distance": of_prey(goal.distance),
            "collision": self.collided(state).astype(jnp.float32),
            "obstacle_collision": self.obstructed(drones, state).astype(jnp.float32),
            "lost": self.lost(drones).astype(jnp.float32),
        }

    def expert(self, observation: Mapping[str, Array], state: TaskState[Chase]) -> Array:
        """Predators fly to where the nearest prey will be, from their own sides; prey flies away from all of them."""
        del state
        own, rows = jnp.split(observation["policy"], [EGO_SIZE], 1)
        prey, place, velocity = own[:, :1] > 0, own[:, 1:4], own[:, 4:7]
        flat = flight(rows.reshape(len(rows), -1, WIDTH), prey, self.half * place[:, :2], velocity[:, :2], self.half)
        return jnp.clip(jnp.concatenate([flat, -2 * place[:, 2:], jnp.zeros_like(flat[:, :1])], 1), -1.0, 1.0)


def least(value: Array, mask: Array) -> Array:
    """(A,) smallest of each row of (A, A) where the mask is true; infinite where it is nowhere."""
    return jnp.min(jnp.where(mask, value, jnp.inf), 1)


def bound(x: Array) -> Array:
    """(...) simple_tag's penalty for a coordinate over half the square's side: 0 up to .9, 1 at 1, at most 10."""
    x = jnp.abs(x)
    return jnp.clip(jnp.where(x < 1, STEEP * (x - BORDER), jnp.exp(2 * x - 2)), 0.0, MOST)
