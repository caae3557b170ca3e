"""`swarm/path-finding`: drones among many columns, each sent from goal to goal; what counts is how many they reach."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.entity_rows import WIDTH
from embodied.core.facets import Language, Pictures
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.storage.bounds import NOT_NEGATIVE
from tasks.swarm.control.levels import SPEED, Level, require_level
from tasks.swarm.dynamics.drones import Box, Drones, still
from tasks.swarm.maze.grid import Grid
from tasks.swarm.maze.reciprocal import avoiding
from tasks.swarm.team.columns import AmongColumns, Columns
from tasks.swarm.team.drone_team import DroneTeamConfig, TaskState

CELL = 0.6  # m, side of a cell: two drones pass each other between columns that stand a free cell apart
COLUMN_RADIUS = 0.2  # m, of a column in the middle of its cell: nothing passes between two in neighbouring cells
HEIGHT = 1.0  # m, of starts and goals
MARGIN = 0.3  # m around the square in which drones may fly
CLOSE = 0.2  # m along the floor from its goal at which a drone has reached it
AHEAD = 3  # next cells of its way that a drone observes
FAR = 3.0  # m, farther goals look as far as this: five cells, the reach of POGEMA's window of 11 by 11
GOALS = 4.0  # per drone within an episode that make it a success: a drone that is alone reaches five, see docs/swarm.md
EGO_SIZE = 13 + 2 * AHEAD  # numbers of `PathFinding.ego_observation`
CRUISE, LANE = 1.0, 0.17  # m/s, m to the right of the middle of its way, of the expert
GAIN, BRAKE = 2.0, 0.5  # 1/s, -, of the expert: up and down, and against drifting off its way


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    reached: float = 5.0
    """A goal that a drone reaches."""
    approach: float = 0.05
    """m/s along the way to the goal."""
    crowding: float = -0.5
    """Closeness of others within 30 cm and of columns within 15 cm, now or soon, in [0, 2]."""
    height: float = -0.1
    """m off the starting height."""
    action_rate: float = -0.02
    """Squared change of the action."""
    ended: float = -20.0
    """For a drone that collides, touches a column, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class PathFindingConfig(DroneTeamConfig):
    """Options of `swarm/path-finding`."""

    agents: int = 8
    """Number of drones."""
    cells: int = 12
    """Cells along a side of the square, each 60 cm wide."""
    obstacles: Annotated[int, NOT_NEGATIVE] = 36
    """Number of columns, each in the middle of a cell of its own."""
    seen: Annotated[int, NOT_NEGATIVE] = 8
    """Columns that a drone sees, the nearest ones."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.obstacles + 2 * self.agents > self.cells**2:
            raise EmbodiedError(
                f"cells={self.cells}: {self.cells**2} cells have no room for obstacles={self.obstacles}, and a start "
                f"and a goal for each of agents={self.agents}"
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Errand:
    """The map, and each drone's goal."""

    columns: Array
    """(O, 2) m."""
    far: Array
    """(C, C) int16 steps to each goal (first) from each cell (second), around columns."""
    aim: Array
    """(A,) int32 the cell of each drone's goal."""
    point: Array
    """(A, 2) m, its middle."""
    way: Array
    """(A, AHEAD, 2) m, middles of the next cells on each drone's shortest way around columns; at its end the goal's."""
    left: Array
    """(A,) cells that are left behind the first of these."""
    reached: Array
    """(A,) bool, drones that reached a goal in the last step."""
    count: Array
    """(A,) goals that each has reached."""


class PathFinding(AmongColumns[Errand]):
    """Each drone flies to its goal among columns, and is given the next one when it is there.

    Lifelong multi-agent path finding, as POGEMA has it on a grid (Skrynnik et al., arXiv:2206.10944 and 2407.14931),
    with drones that have velocities for moves from cell to cell. A drone observes the next three cells of its shortest
    way around columns, which a planner finds from the map as in Follower (Skrynnik et al., arXiv:2310.01207), and its
    goal; it sees team-mates and columns up to 3 m away, which is five cells, and has to find out by itself who gives
    way. Randomised: a quarter of the cells have columns, which never divide the ground; starts; goals, no two of which
    are the same at a time. Success: no drone has touched anything, and drones have reached 4 goals on average. Failure:
    a collision with a drone or a column, a crash, a drone outside the arena.
    """

    config_type = PathFindingConfig
    commands: Mapping[str, str] = {
        "goal.columns": "x and y m of each column",
        "goal.point": "x and y m of each drone's goal, world frame",
        "goal.way": "x and y m of the middles of the next cells on each drone's shortest way to its goal, world frame",
        "goal.left": "cells that are left of each drone's way behind the first of these",
    }
    config: PathFindingConfig
    seconds = 30.0
    places_drones = True
    language = Language.of(
        "Fly to your goal, then to the next one.", "Reach goal after goal.", "Find your way in the maze."
    )
    metric_units: Mapping[str, str] = {"throughput": "1/min"}

    def __init__(self, config: PathFindingConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.grid = Grid(options.cells, CELL)
        self.columns = Columns(options.obstacles, COLUMN_RADIUS)
        reach = self.grid.half + MARGIN
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 2.0))
        super().__init__(options, changes)

    def draw(self, key: Array) -> tuple[Drones, Errand]:
        """Columns first, then starts and goals in cells without."""
        ground, starts, goals = jax.random.split(key, 3)
        agents, centres = self.config.agents, jnp.asarray(self.grid.centres)
        blocked = self.grid.maze(ground, self.config.obstacles)
        _, cells = jax.lax.top_k(blocked.astype(jnp.float32), self.config.obstacles)
        # Should the ground have no room for all of them, the others stand in the first one.
        columns = centres[jnp.where(blocked[cells], cells, cells[:1])]
        start = self._drawn(starts, blocked)
        drones = still(jnp.pad(centres[start], ((0, 0), (0, 1)), constant_values=HEIGHT))
        aim = self._drawn(goals, blocked.at[start].set(True))
        nothing = jnp.zeros(agents, jnp.int32)
        return drones, self._told(drones, columns, self.grid.distances(blocked), aim, nothing > 0, nothing)

    def _drawn(self, key: Array, taken: Array) -> Array:
        """(A,) int32 different random cells that are not `taken` (C,)."""
        return jax.lax.top_k(jnp.where(taken, -1.0, jax.random.uniform(key, taken.shape)), self.config.agents)[1]

    def _told(self, drones: Drones, columns: Array, far: Array, aim: Array, reached: Array, count: Array) -> Errand:
        centres = jnp.asarray(self.grid.centres)
        way, left = self.grid.way(jnp.asarray(far)[aim], self.grid.cell(drones.pos[:, :2]), AHEAD)
        return Errand(columns, far, aim, centres[aim], centres[way], left.astype(jnp.float32), reached, count)

    def advance(self, drones: Drones, state: TaskState[Errand], key: Array) -> Errand:
        """New goals, in cells that are no drone's, for drones that reached theirs."""
        goal = state.goal
        offset = goal.point - drones.pos[:, :2]
        reached = jnp.sum(offset**2, -1) < CLOSE**2
        unreachable = jnp.diagonal(jnp.asarray(goal.far)) > 0
        drawn = self._drawn(key, unreachable.at[goal.aim].set(True))
        aim = jnp.where(reached, drawn, goal.aim)
        return self._told(drones, goal.columns, goal.far, aim, reached, goal.count + reached)

    def goal_in_order(self, goal: Errand, order: Array) -> Errand:
        return dataclasses.replace(
            goal, aim=goal.aim[order], point=goal.point[order], way=goal.way[order], left=goal.left[order]
        )

    def ego_observation(self, drones: Drones, state: TaskState[Errand]) -> Mapping[str, Array]:
        """`velocity` (3) m/s, `height` (1) m, `place` (2) in the square, `way` (6) m, `goal` (2), `left` (1),
        `last_action` (4).

        `way`: to the middles of the next three cells on the shortest way; `goal`: along the floor, in units of 3 m,
        brought within 3 m; `left`: cells to go, over those along a side.
        """
        goal, place = state.goal, drones.pos[:, :2]
        offset = goal.point - place
        distance = jnp.sqrt(jnp.sum(offset**2, -1, keepdims=True) + 1e-12)
        return {
            "velocity": drones.vel,
            "height": drones.pos[:, 2:] - HEIGHT,
            "place": place / self.grid.half,
            "way": (goal.way - place[:, None]).reshape(len(place), -1),
            "goal": offset / jnp.maximum(distance, FAR),
            "left": goal.left[:, None] / self.config.cells,
            "last_action": state.action,
        }

    def rewards(self, world: World, state: TaskState[Errand], action: Array) -> Mapping[str, Array]:
        del action
        drones, goal = Drones.of(world), state.goal
        way = goal.way[:, 0] - drones.pos[:, :2]
        length = jnp.sqrt(jnp.sum(way**2, -1))
        return {
            "reached": goal.reached.astype(jnp.float32),
            "approach": jnp.sum(way * drones.vel[:, :2], -1) / jnp.maximum(length, 0.1),
            "crowding": self.crowding(state) + self.columns.crowding(drones, goal.columns),
            "height": jnp.abs(drones.pos[:, 2] - HEIGHT),
            "action_rate": jnp.sum(state.action_change**2, -1),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Errand]) -> Array:
        del drones
        return jnp.mean(state.goal.count.astype(jnp.float32)) >= GOALS

    def metrics(self, world: World, state: TaskState[Errand]) -> Mapping[str, Array]:
        """Goals reached per drone and minute; shares of drones in a collision, in a column, and lost."""
        drones = Drones.of(world)
        return {
            "throughput": state.goal.reached * (60.0 / self.timing.control_dt),
            "collision": self.collided(state).astype(jnp.float32),
            "obstacle_collision": self.obstructed(drones, state).astype(jnp.float32),
            "lost": self.lost(drones).astype(jnp.float32),
        }

    @functools.cached_property
    def pictures(self) -> Pictures:
        def markers(world: World, state: TaskState[Errand]) -> Mapping[str, Array]:
            del world
            return {"target": jnp.pad(state.goal.point, ((0, 0), (0, 1)), constant_values=HEIGHT)}

        return dataclasses.replace(super().pictures, markers=markers)

    def expert(self, observation: Mapping[str, Array], state: TaskState[Errand]) -> Array:
        """Along the shortest way, on its right-hand side, with reciprocal collision avoidance.

        Raises:
            EmbodiedError: actions of another level than velocity.
        """
        require_level(self.config.level, (Level.VELOCITY,))
        own, rows = jnp.split(observation["policy"], [EGO_SIZE], 1)
        way = own[:, 6 : 6 + 2 * AHEAD].reshape(-1, AHEAD, 2)
        here = (self.grid.half * own[:, 4:6] + self.grid.half) % CELL - CELL / 2  # m from the middle of its cell
        along = way[:, 1] + here
        along = along / jnp.maximum(jnp.sqrt(jnp.sum(along**2, -1, keepdims=True)), 1e-6)
        right = jnp.stack([along[:, 1], -along[:, 0]], -1)
        target = way[:, 0] + LANE * right * (state.goal.left > 0)[:, None]
        distance = jnp.sqrt(jnp.sum(target**2, -1, keepdims=True) + 1e-9)
        wished = CRUISE * target / distance
        flat = avoiding(rows.reshape(len(rows), -1, WIDTH), own[:, :2], wished, SPEED)
        up = -GAIN * own[:, 3:4]
        return jnp.clip(jnp.concatenate([flat, up, jnp.zeros_like(up)], 1) / SPEED, -1.0, 1.0)
