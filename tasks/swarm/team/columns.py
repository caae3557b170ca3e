"""Columns between drones: bodies of the scene, rows of drones that see them, and the free air beside them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.entity_rows import Kind, entity_rows
from embodied.core.facets import Pictures
from embodied.core.world import Control, World
from tasks.swarm.dynamics.crazyflie import RADIUS
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.team.drone_team import DroneTeam, G, TaskState, closest_approach

HEIGHT = 2.0  # m
BERTH = 0.15  # m of free air that a drone should keep beside a column


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of one radius, which stand elsewhere in every episode, at `where` (count, 2) m."""

    count: int
    radius: float
    """m."""

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add mocap bodies `column0`, `column1` ..., which push drones on engines that know contact."""
        for number in range(self.count):
            body = spec.worldbody.add_body(name=f"column{number}", mocap=True, pos=[0, 0, -HEIGHT])
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[self.radius, HEIGHT / 2, 0], rgba=[0.75, 0.45, 0.25, 1],
                contype=1, conaffinity=2, condim=1,
            )  # fmt: skip

    @staticmethod
    def mocap_positions(where: Array) -> Array:
        """(count, 3) m, of the bodies."""
        return jnp.pad(where, ((0, 0), (0, 1)), constant_values=HEIGHT / 2)

    def rows(
        self, drones: Drones, where: Array, turned: Callable[[Drones, Array], Array], seen: int, sensing: float
    ) -> Array:
        """Rows (A, seen, WIDTH) of the nearest columns within `sensing` m; `turned`: as `DroneTeam.turned`."""
        there = min(seen, self.count)
        offset = where - drones.pos[:, None, :2]
        distance = jnp.sqrt(jnp.sum(offset**2, -1)) - self.radius
        closeness, index = jax.lax.top_k(-distance, there)
        near = jnp.take_along_axis(offset, index[..., None], 1)
        flat = jnp.pad(near, ((0, 0), (0, 0), (0, 1)))  # the nearest point of a column is at the drone's own height
        standing = jnp.broadcast_to(-drones.vel[:, None], flat.shape)
        turn = jax.vmap(turned, (None, 1), 1)
        rows = entity_rows(
            Kind.OBSTACLE, turn(drones, flat), turn(drones, standing), self.radius + RADIUS, -closeness < sensing
        )
        return jnp.pad(rows, ((0, 0), (0, seen - there), (0, 0)))

    def clearance(self, drones: Drones, where: Array) -> Array:
        """(A,) m of free air between a drone and the nearest column; infinite without columns."""
        if not self.count:
            return jnp.full(len(drones.pos), jnp.inf)
        distance = jnp.sqrt(jnp.sum((where - drones.pos[:, None, :2]) ** 2, -1))
        return jnp.min(distance, 1) - self.radius - RADIUS

    def crowding(self, drones: Drones, where: Array) -> Array:
        """(A,) how near a column is, or will be soon if the drone flies on: 0 from `BERTH` on, 1 where they touch."""
        if not self.count:
            return jnp.zeros(len(drones.pos))
        offset = jnp.pad(where - drones.pos[:, None, :2], ((0, 0), (0, 0), (0, 1)))
        passing = closest_approach(offset, -drones.vel[:, None] * jnp.array([1.0, 1.0, 0.0]))
        return jnp.clip(1 - (jnp.min(passing, 1) - self.radius - RADIUS) / BERTH, 0.0, 1.0)


class AmongColumns(DroneTeam[G]):
    """A team between columns: a drone sees them as far as team-mates, and ends where it touches one."""

    columns: Columns

    def standing(self, goal: G) -> Array:
        """(count, 2) m, where the columns stand."""
        return goal.columns  # pyright: ignore[reportAttributeAccessIssue]

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        self.columns.add_to(spec)
        return spec

    def apply_action(self, world: World, state: TaskState[G], command: Any) -> tuple[Control, TaskState[G]]:
        control, state = super().apply_action(world, state, command)
        return dataclasses.replace(control, mocap_pos=self._mocap_positions(state)), state

    @functools.cached_property
    def pictures(self) -> Pictures:
        return dataclasses.replace(super().pictures, mocap_positions=self._mocap_positions)

    def _mocap_positions(self, state: TaskState[G]) -> Array:
        return self.columns.mocap_positions(self.standing(state.goal))

    def entities(self, drones: Drones, state: TaskState[G]) -> Mapping[str, Array]:
        """As of every team, and the nearest `columns` within the sensing radius."""
        return {**super().entities(drones, state), "columns": self.column_rows(drones, state.goal)}

    def column_rows(self, drones: Drones, goal: G) -> Array:
        """(A, seen, WIDTH)."""
        return self.columns.rows(drones, self.standing(goal), self.turned, self.config.seen, self.config.sensing)

    def obstructed(self, drones: Drones, state: TaskState[G]) -> Array:
        """(A,) bool, whether a drone touches a column."""
        return self.columns.clearance(drones, self.standing(state.goal)) < 0

    def ended(self, drones: Drones, state: TaskState[G]) -> Array:
        return super().ended(drones, state) | self.obstructed(drones, state)
