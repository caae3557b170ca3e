"""`swarm/coverage`: a team explores ground it does not know, around hills it cannot fly over."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.facets import Language, Pictures
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import SPEED, Level, require_level
from tasks.swarm.dynamics.drones import Box, Drones
from tasks.swarm.team.drone_team import DroneTeam, DroneTeamConfig, TaskState

CELL = 0.5  # m, side of a cell of the map
HEIGHT = 1.0  # m, of the drones at the start
CEILING = 1.6  # m: hills are higher
HIDDEN = -10.0  # m, height of markers that are not to be seen
SIGHT = 1.0  # m, how far a drone makes out ground
WINDOW = 7  # cells along each side of the map that a drone sees around itself
NEIGHBOURS = ((1, 0), (-1, 0), (0, 1), (0, -1))  # cells that the expert goes to next
APART = 0.6  # m, nearer than which the expert's drones push each other away
GAIN, BRAKE, PUSH = 2.0, 0.8, 1.0  # 1/s, -, 1/s, of the expert: to the next cell, against drifting past it, apart
EGO_SIZE = 13 + 2 * WINDOW * WINDOW  # numbers of `Coverage.ego_observation`


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    explored: float = 200.0
    """Share of the free ground that the team saw for the first time."""
    approach: float = 0.05
    """m/s along the way to the nearest ground that nobody has seen."""
    crowding: float = -1.0
    """Closeness of others within 30 cm, now or soon, in [0, 1]."""
    action_rate: float = -0.02
    """Squared change of the action."""
    ended: float = -60.0
    """For a drone that collides, meets a hill, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class CoverageConfig(DroneTeamConfig):
    """Options of `swarm/coverage`."""

    agents: int = 3
    """Number of drones."""
    size: float = 7.0
    """m, side of the square to explore."""
    hills: int = 4
    """Number of hills."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 4 * CELL or self.hills < 0:
            raise EmbodiedError(f"size={self.size} m must be at least {4 * CELL} and hills={self.hills} not negative")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Goal:
    """The ground, and what is known of it."""

    hill: Array
    """(C, C) bool, cells under a hill."""
    known: Array
    """(C, C) bool, cells that some drone has seen."""
    news: Array
    """(A,) share of the free ground that each drone saw first in the last step."""
    way: Array
    """(A, 2) m from each drone to the middle of the next cell on its way to unseen ground; 0 when all is seen."""
    far: Array
    """(A,) cells that are left on this way."""


class Coverage(DroneTeam[Goal]):
    """Drones see the ground below them and share one map; hills are known once seen.

    After MarsExplorer (Koutras et al. 2021): an unknown map of obstacles, a sensor of limited reach, an episode that
    counts what was explored; here with velocities instead of moves on a grid, and for a team. Randomised: starts in the
    middle, hills. Success: 95 % of the free ground seen. Failure: a collision, a drone in a hill or outside the arena.
    """

    config_type = CoverageConfig
    commands: Mapping[str, str] = {
        "goal.hill": "map of the team: 1 for each cell under a hill that was seen, else 0, row by row",
        "goal.known": "map of the team: 1 for each cell that some drone has seen, else 0, row by row",
    }
    config: CoverageConfig
    seconds = 20.0
    language = Language.of("Explore the ground.", "See all of the terrain.", "Map the area together, around the hills.")

    def __init__(self, config: CoverageConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.half = options.size / 2
        self.cells = round(options.size / CELL)
        middle = (np.arange(self.cells) + 0.5) * CELL - self.half
        self.centres = np.stack(np.meshgrid(middle, middle, indexing="ij"), -1).astype(np.float32)
        reach = self.half + 0.5
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, CEILING))
        super().__init__(options, changes)

    def start_box(self) -> Box:
        reach = min(0.3 + 0.2 * self.config.agents**0.5, self.half)
        return Box((-reach, -reach, HEIGHT), (reach, reach, HEIGHT))

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        """Round hills anywhere but in the middle."""
        place, where, wide = jax.random.split(key, 3)
        drones, count = self.scattered(place), self.config.hills
        spot = jax.random.uniform(where, (count, 2), minval=-self.half, maxval=self.half)
        radius = jax.random.uniform(wide, (count,), minval=0.4, maxval=0.9)
        distance = jnp.sqrt(jnp.sum((jnp.asarray(self.centres)[:, :, None] - spot) ** 2, -1))
        free = jnp.max(jnp.abs(jnp.asarray(self.centres)), -1) < self.start_box().high[0] + 2 * CELL
        hill = jnp.any(distance < radius, -1) & ~free
        nothing = jnp.zeros_like(hill)
        return drones, self._looked(drones, hill, nothing)

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        del key
        return self._looked(drones, state.goal.hill, state.goal.known)

    def _looked(self, drones: Drones, hill: Array, known: Array) -> Goal:
        offset = jnp.asarray(self.centres) - drones.pos[:, None, None, :2]  # (A, C, C, 2)
        distance = jnp.sqrt(jnp.sum(offset**2, -1))
        sees = distance < SIGHT
        fresh = sees & ~known & ~hill
        # Several may see a cell first; they share it.
        share = fresh / jnp.maximum(jnp.sum(fresh, 0), 1)
        news = jnp.sum(share, (1, 2)) / jnp.maximum(jnp.sum(~hill), 1)
        known = known | jnp.any(sees, 0)
        return Goal(hill, known, news, *self._way_to_unseen(drones.pos[:, :2], hill, known))

    def _way_to_unseen(self, place: Array, hill: Array, known: Array) -> tuple[Array, Array]:
        """Along the shortest way over ground that is known to be free: (A, 2) m to the next cell, (A,) cells to go.

        To the next cell's middle, so that corners of hills are not cut.
        """
        far = distance_to(~known, hill & known)
        around = self._cell(place)[:, None] + jnp.array(NEIGHBOURS)  # (A, 4, 2)
        inside = jnp.all((around >= 0) & (around < self.cells), -1)
        ahead = jnp.where(inside, far[tuple(jnp.moveaxis(jnp.clip(around, 0, self.cells - 1), -1, 0))], jnp.inf)
        following = jnp.take_along_axis(around, jnp.argmin(ahead, 1)[:, None, None], 1)[:, 0]
        left = jnp.min(ahead, 1) + 1.0
        reachable = jnp.isfinite(left)
        way = jnp.where(reachable[:, None], (following + 0.5) * CELL - self.half - place, 0.0)
        return way, jnp.where(reachable, left, 0.0)

    def _cell(self, place: Array) -> Array:
        """(A, 2) row and column of the map over which a drone at `place` (A, 2) m is."""
        return jnp.clip(jnp.floor((place + self.half) / CELL).astype(jnp.int32), 0, self.cells - 1)

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`velocity` (3) m/s, `height` (1) m, `place` (2) in the square, `way` (2), `far` (1), `last_action` (4), maps.

        `way`: m to the next cell on the shortest way, over ground that is known, to ground that is not; `far`: cells to
        go, over those along a side; `known` (49) and `hill` (49): the 7 by 7 cells around the drone, 1 where seen (or
        outside) and where a hill is known (or the square ends).
        """
        goal = state.goal
        pad = WINDOW // 2
        known = jnp.pad(goal.known, pad, constant_values=True)
        hill = jnp.pad(goal.hill & goal.known, pad, constant_values=True)
        cell = self._cell(drones.pos[:, :2])

        def around(grid: Array) -> Array:
            cut = jax.vmap(lambda corner: jax.lax.dynamic_slice(grid, (corner[0], corner[1]), (WINDOW, WINDOW)))
            return cut(cell).reshape(len(cell), -1).astype(jnp.float32)

        return {
            "velocity": drones.vel,
            "height": drones.pos[:, 2:] - HEIGHT,
            "place": drones.pos[:, :2] / self.half,
            "way": goal.way,
            "far": goal.far[:, None] / self.cells,
            "last_action": state.action,
            "known": around(known),
            "hill": around(hill),
        }

    def ended(self, drones: Drones, state: TaskState[Goal]) -> Array:
        cell = self._cell(drones.pos[:, :2])
        return super().ended(drones, state) | state.goal.hill[cell[:, 0], cell[:, 1]]

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones, goal = Drones.of(world), state.goal
        length = jnp.sqrt(jnp.sum(goal.way**2, -1))
        return {
            "explored": goal.news,
            "approach": jnp.sum(goal.way * drones.vel[:, :2], -1) / jnp.maximum(length, 0.1),
            "crowding": self.crowding(state),
            "action_rate": jnp.sum(state.action_change**2, -1),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def explored(self, goal: Goal) -> Array:
        """() share of the free ground that has been seen."""
        return jnp.sum(goal.known & ~goal.hill) / jnp.maximum(jnp.sum(~goal.hill), 1)

    def solved(self, drones: Drones, state: TaskState[Goal]) -> Array:
        del drones
        return self.explored(state.goal) >= 0.95

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Share of the free ground seen so far (on average over the episode), share of drones in a collision."""
        del world
        collided = self.collided(state).astype(jnp.float32)
        return {"explored": self.explored(state.goal), "collision": collided}

    @functools.cached_property
    def pictures(self) -> Pictures:
        return dataclasses.replace(super().pictures, markers=self._markers)

    def _markers(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Balls on unseen ground, and on hills, whether seen or not."""
        del world
        goal = state.goal

        def on(cells: Array, height: float) -> Array:
            up = jnp.where(cells, height, HIDDEN)
            return jnp.concatenate([jnp.asarray(self.centres), up[..., None]], -1).reshape(-1, 3)

        return {"hill": on(goal.hill, HEIGHT), "unseen": on(~goal.known & ~goal.hill, 0.05)}

    def expert(self, observation: Mapping[str, Array], state: TaskState[Goal]) -> Array:
        """Frontier exploration: along the shortest way over known ground to the nearest unseen cell.

        After Yamauchi (1998, "Frontier-based exploration using multiple robots"): one map for all, without assigning
        cells to drones. Drones nearer than 60 cm push each other away.

        Raises:
            EmbodiedError: actions of another level than velocity.
        """
        require_level(self.config.level, (Level.VELOCITY,))
        own, way = observation["policy"], state.goal.way
        place = self.half * own[:, 4:6]
        offset = place[:, None] - place
        gap = jnp.sqrt(jnp.sum(offset**2, -1, keepdims=True) + 1e-9)
        push = jnp.sum(jnp.where((gap < APART) & (gap > 1e-3), offset / gap * (APART - gap), 0.0), 1)
        along = way / jnp.maximum(jnp.sqrt(jnp.sum(way**2, -1, keepdims=True)), 1e-6)
        sideways = own[:, :2] - jnp.sum(own[:, :2] * along, -1, keepdims=True) * along
        flat = (GAIN * way - BRAKE * sideways + PUSH * push) / SPEED
        up = -GAIN * own[:, 3:4] / SPEED
        return jnp.clip(jnp.concatenate([flat, up, jnp.zeros_like(up)], 1), -1.0, 1.0)


def distance_to(goal: Array, blocked: Array) -> Array:
    """(C, C) steps from each cell to the nearest of the `goal` (C, C) bool, around `blocked` cells; inf where none."""

    def widened(_: int, far: Array) -> Array:
        padded = jnp.pad(far, 1, constant_values=jnp.inf)
        near = jnp.stack([padded[2:, 1:-1], padded[:-2, 1:-1], padded[1:-1, 2:], padded[1:-1, :-2]])
        return jnp.where(blocked, jnp.inf, jnp.minimum(far, jnp.min(near, 0) + 1.0))

    return jax.lax.fori_loop(0, 3 * len(goal), widened, jnp.where(goal, 0.0, jnp.inf))
