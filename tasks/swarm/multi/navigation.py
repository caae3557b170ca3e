"""`swarm/navigation`: every drone to its own place, between columns that it senses only nearby."""

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
from embodied.errors import EmbodiedError
from tasks.swarm.dynamics.drones import Box, Drones, places, scatter, still
from tasks.swarm.team.columns import AmongColumns, Columns
from tasks.swarm.team.drone_team import TaskState
from tasks.swarm.team.waypoints import Goal, WaypointConfig, WaypointTask

COLUMN_RADIUS = 0.1  # m
HEIGHT = 1.0  # m, of starts and places
PARTING = 0.45  # m between starts, places and columns: room for a drone between any two


@dataclasses.dataclass(frozen=True)
class NavigationConfig(WaypointConfig):
    """Options of `swarm/navigation`; the defaults are InforMARL's 2 m with three agents and three obstacles."""

    agents: int = 3
    """Number of drones."""
    obstacles: int = 3
    """Number of columns."""
    size: float = 2.0
    """m, side of the square in which drones begin, are to arrive, and columns stand."""
    sensing: float = 1.0
    """m, how far a drone sees team-mates and columns."""
    seen: int = 4
    """Columns that a drone sees, the nearest ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.obstacles < 0 or self.seen < 0 or self.size <= 0:
            raise EmbodiedError(
                f"obstacles={self.obstacles} and seen={self.seen} must not be negative, size={self.size} m positive"
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """One draw of the world."""

    ends: Array
    """(A, 3) m, the drones' places."""
    columns: Array
    """(O, 2) m."""


class Navigation(AmongColumns[Goal], WaypointTask):
    """Each drone flies to its own place among columns, seeing team-mates and columns up to 1 m away.

    After InforMARL's navigation (Nayak et al., ICML 2023): the same square, numbers of agents and obstacles, sensing
    radius and threshold; drones of 7 cm radius instead of points with inertia. Randomised: starts, places and columns,
    all at least 45 cm apart. Success: all within 10 cm of their places for half a second, at the end of 10 s. Failure:
    a collision with a drone or a column, a crash, a drone outside the arena.
    """

    config_type = NavigationConfig
    commands: Mapping[str, str] = {**WaypointTask.commands, "goal.course.columns": "x and y m of each column"}
    config: NavigationConfig
    seconds = 10.0
    places_drones = True
    close = 0.1
    hold = 0.5
    language = Language.of(
        "Fly to your place without touching anything.", "Find a way between the columns.", "Go to the goal."
    )

    def __init__(self, config: NavigationConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.columns = Columns(options.obstacles, COLUMN_RADIUS)
        half = options.size / 2
        self.arena = Box((-half - 1.0, -half - 1.0, 0.0), (half + 1.0, half + 1.0, 2.5))
        flat = Box((-half, -half, HEIGHT), (half, half, HEIGHT))
        try:
            self.grid = places(flat, 2 * options.agents + options.obstacles, PARTING)
        except ValueError as error:
            raise EmbodiedError(
                f"size={options.size} m: {options.agents} starts, as many places and {options.obstacles} columns find "
                f"no room ({error})"
            ) from None
        super().__init__(options, changes)

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        """Starts, places and columns in cells of one grid."""
        agents, drawn = self.config.agents, scatter(key, self.grid, len(self.grid[0]))
        starts, ends, rest = jnp.split(drawn, [agents, 2 * agents])
        drones = still(starts)
        return drones, self.begun(Course(ends, rest[: self.config.obstacles, :2]), drones)

    def course(self, drones: Drones, key: Array) -> Any:
        """Drawn together with the starts, see `draw`."""
        raise NotImplementedError

    def points(self, course: Course, time: Array, drones: Drones) -> tuple[Array, Array]:
        del time
        return course.ends, jnp.zeros_like(drones.pos)

    def standing(self, goal: Goal) -> Array:
        return goal.course.columns

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        """As for all points; nearness to columns, now or soon, counts as crowding."""
        terms = dict(super().rewards(world, state, action))
        crowding = self.columns.crowding(Drones.of(world), state.goal.course.columns)
        terms["crowding"] = terms["crowding"] + crowding
        return terms

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """As for all points, and the share of drones that touch a column."""
        drones = Drones.of(world)
        touched = self.obstructed(drones, state).astype(jnp.float32)
        return {**super().metrics(world, state), "obstacle_collision": touched}
