"""`swarm/navigation`: every drone to its own place, between columns that it senses only nearby."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.entities import Kind, entity_rows
from embodied.core.world import Control, World
from embodied.errors import EmbodiedError
from tasks.swarm.dynamics.drones import RADIUS, Box, Drones, places, scatter, still
from tasks.swarm.team.drone_team import TaskState, closest_approach
from tasks.swarm.team.waypoints import Goal, WaypointConfig, WaypointTask

COLUMN_RADIUS = 0.1  # m
COLUMN_HEIGHT = 2.0  # m
HEIGHT = 1.0  # m, of starts and places
BERTH = 0.15  # m of free air beside a column that a drone does well to leave
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


class Navigation(WaypointTask):
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
    instruction = ("Fly to your place without touching anything.", "Find a way between the columns.", "Go to the goal.")

    def __init__(self, config: NavigationConfig | None = None) -> None:
        options = config or self.config_type()
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
        super().__init__(options)

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        for number in range(self.config.obstacles):
            body = spec.worldbody.add_body(name=f"column{number}", mocap=True, pos=[0, 0, -COLUMN_HEIGHT])
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[COLUMN_RADIUS, COLUMN_HEIGHT / 2, 0],
                rgba=[0.75, 0.45, 0.25, 1], contype=1, conaffinity=2, condim=1,
            )  # fmt: skip
        return spec

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

    def apply_action(self, world: World, state: TaskState[Goal], command: Any) -> tuple[Control, TaskState[Goal]]:
        control, state = super().apply_action(world, state, command)
        return dataclasses.replace(control, mocap_pos=self.mocap_positions(state)), state

    def mocap_positions(self, state: TaskState[Goal]) -> Array:
        return jnp.pad(state.goal.course.columns, ((0, 0), (0, 1)), constant_values=COLUMN_HEIGHT / 2)

    def entities(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`teammates`, and the nearest `columns` within the sensing radius."""
        columns = state.goal.course.columns
        seen = min(self.config.seen, self.config.obstacles)
        offset = columns - drones.pos[:, None, :2]
        distance = jnp.sqrt(jnp.sum(offset**2, -1)) - COLUMN_RADIUS
        closeness, index = jax.lax.top_k(-distance, seen)
        near = jnp.take_along_axis(offset, index[..., None], 1)
        flat = jnp.pad(near, ((0, 0), (0, 0), (0, 1)))  # the nearest point of a column is at the drone's own height
        standing = jnp.broadcast_to(-drones.vel[:, None], flat.shape)
        turn = jax.vmap(self.turned, (None, 1), 1)
        rows = entity_rows(
            Kind.OBSTACLE, turn(drones, flat), turn(drones, standing), COLUMN_RADIUS + RADIUS,
            -closeness < self.config.sensing,
        )  # fmt: skip
        rows = jnp.pad(rows, ((0, 0), (0, self.config.seen - seen), (0, 0)))
        return {**super().entities(drones, state), "columns": rows}

    def clearance(self, drones: Drones, state: TaskState[Goal]) -> Array:
        """(A,) m of free air between a drone and the nearest column; infinite without columns."""
        columns = state.goal.course.columns
        if not len(columns):
            return jnp.full(self.config.agents, jnp.inf)
        distance = jnp.sqrt(jnp.sum((columns - drones.pos[:, None, :2]) ** 2, -1))
        return jnp.min(distance, 1) - COLUMN_RADIUS - RADIUS

    def ended(self, drones: Drones, state: TaskState[Goal]) -> Array:
        return super().ended(drones, state) | (self.clearance(drones, state) < 0)

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        """As for all points; nearness to columns, now or soon, counts as crowding."""
        terms = dict(super().rewards(world, state, action))
        drones, columns = Drones.of(world), state.goal.course.columns
        if len(columns):
            offset = jnp.pad(columns - drones.pos[:, None, :2], ((0, 0), (0, 0), (0, 1)))
            passing = closest_approach(offset, -drones.vel[:, None] * jnp.array([1.0, 1.0, 0.0]))
            clearance = jnp.min(passing, 1) - COLUMN_RADIUS - RADIUS
            terms["crowding"] = terms["crowding"] + jnp.clip(1 - clearance / BERTH, 0.0, 1.0)
        return terms

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """As for all points, and the share of drones that touch a column."""
        drones = Drones.of(world)
        touched = (self.clearance(drones, state) < 0).astype(jnp.float32)
        return {**super().metrics(world, state), "obstacle_collision": touched}
