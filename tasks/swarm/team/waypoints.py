"""`WaypointTask`: tasks in which every drone follows a point of its own, still or moving.

Formation, leader and followers, meeting, swapping places, trajectories and landing differ in the points and in what
counts as solved; they share observation, rewards and script.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.entity_rows import Kind, entity_rows
from embodied.core.facets import Pictures
from embodied.core.world import World
from embodied.robot.rotors import GRAVITY
from tasks.swarm.control.levels import FASTEST, SPEED, STEP, Level, require_level
from tasks.swarm.dynamics.drones import Drones, length
from tasks.swarm.dynamics.neighbours import nearest
from tasks.swarm.team.drone_team import CREW, DroneTeam, DroneTeamConfig, TaskState

FAR = 1.5  # m, farther points look as far as this: along the floor in their direction, and in height
EGO_SIZE = 21  # numbers of `WaypointTask.ego_observation`


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    position: float = 1.0
    """Closeness to the point, in [0, 1]."""
    approach: float = 1.0
    """m/s towards the point while away from it."""
    crowding: float = -2.0
    """Closeness of others within 30 cm, now or soon, in [0, 1]."""
    action_rate: float = -0.05
    """Squared change of the action."""
    ended: float = -50.0
    """Once, for the drone that collides, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class WaypointConfig(DroneTeamConfig):
    """Options of tasks with a point for every drone."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Goal:
    """Point of every drone."""

    point: Array
    """(A, 3) m, world frame, now."""
    velocity: Array
    """(A, 3) m/s of the points."""
    acceleration: Array
    """(A, 3) m/s^2 of the points."""
    course: Any
    """Course of the points; its type is the task's."""
    time: Array
    """() s since the episode began."""
    steady_steps: Array
    """() int32 control steps since some drone was last away from its point."""


class WaypointTask(DroneTeam[Goal], abc.ABC):
    """Every drone has a point to be at."""

    config_type = WaypointConfig
    commands: Mapping[str, str] = {
        "goal.point": "m, where each drone shall be now, world frame",
        "goal.velocity": "m/s of that point",
        "goal.acceleration": "m/s^2 of that point",
    }
    config: Any
    close: ClassVar[float] = 0.15
    """m from its point within which a drone counts as there."""
    hold: ClassVar[float] = 1.0
    """s that all drones have to be there at once."""

    @abc.abstractmethod
    def course(self, drones: Drones, key: Array) -> Any:
        """Course of an episode's points, for drones with these starts."""

    @abc.abstractmethod
    def points(self, course: Any, time: Array, drones: Drones) -> tuple[Array, Array]:
        """The points (A, 3) m and their velocities (A, 3) m/s at a time."""

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        place, way = jax.random.split(key)
        drones = self.scattered(place)
        return drones, self.begun(self.course(drones, way), drones)

    def begun(self, course: Any, drones: Drones) -> Goal:
        """Goal of the drones at an episode's start."""
        return self._at(course, jnp.zeros(()), drones, jnp.zeros((), jnp.int32))

    def _at(self, course: Any, time: Array, drones: Drones, steady_steps: Array) -> Goal:
        """Points at a time, and their motion."""
        (point, velocity), (_, acceleration) = jax.jvp(
            lambda time: self.points(course, time, drones), (time,), (jnp.ones(()),)
        )
        return Goal(point, velocity, acceleration, course, time, steady_steps)

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        del key
        goal = state.goal
        moved = self._at(goal.course, goal.time + self.timing.control_dt, drones, goal.steady_steps)
        there = jnp.all(length(moved.point - drones.pos) < self.close)
        return dataclasses.replace(moved, steady_steps=jnp.where(there, goal.steady_steps + 1, 0))

    def goal_in_order(self, goal: Goal, order: Array) -> Goal:
        point, velocity, acceleration = goal.point[order], goal.velocity[order], goal.acceleration[order]
        course = self.course_in_order(goal.course, order)
        return dataclasses.replace(goal, point=point, velocity=velocity, acceleration=acceleration, course=course)

    def course_in_order(self, course: Any, order: Array) -> Any:
        """Course of the points, as `goal_in_order`; here unchanged: drones observe points, never a course."""
        del order
        return course

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Way to the point, velocities, height and the last action; vectors as the level's commands have them.

        `offset` (3) in units of 1.5 m, and `distance` (1) m, to a point brought within 1.5 m along the floor and in
        height, so that a drone far from its point still sees how high it should be; `velocity` (3) m/s,
        `point_velocity` (3) m/s, `up` (3), all in the level's frame; `gyro` (3) 5 rad/s; `height` (1) m;
        `last_action` (4).
        """
        goal, turn = state.goal, self.turned
        offset = within_reach(goal.point - drones.pos)
        return {
            "offset": turn(drones, offset) / FAR,
            "distance": length(offset)[:, None],
            "velocity": turn(drones, drones.vel),
            "point_velocity": turn(drones, goal.velocity),
            "up": drones.up if self.level.world else turn(drones, jnp.broadcast_to(jnp.eye(3)[2], drones.pos.shape)),
            "gyro": 0.2 * drones.angvel,
            "height": jnp.minimum(drones.pos[:, 2:], 2.0),
            "last_action": state.action,
        }

    def privileged(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """As of every team, and `aims`: where these team-mates are to go, as seen from the drone."""
        found = super().privileged(drones, state)
        if not found:
            return found
        crew = nearest(drones.pos, CREW).index
        others = jnp.minimum(crew, self.config.agents - 1)
        way, going = state.goal.point[others] - drones.pos[:, None], state.goal.velocity[others] - drones.vel[:, None]
        turn = jax.vmap(self.turned, (None, 1), 1)
        present = crew < self.config.agents
        return {**found, "aims": entity_rows(Kind.TARGET, turn(drones, way), turn(drones, going), 0.0, present)}

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones = Drones.of(world)
        offset = state.goal.point - drones.pos
        distance = length(offset)
        towards = jnp.sum(offset * (drones.vel - state.goal.velocity), -1) / jnp.maximum(distance, 1e-3)
        return {
            "position": 0.5 * jnp.exp(-2 * distance) + 0.5 * jnp.exp(-10 * distance),
            "approach": towards * jnp.clip(distance / self.close - 1, 0.0, 1.0),
            "crowding": self.crowding(state),
            "action_rate": jnp.sum(state.action_change**2, -1),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Goal]) -> Array:
        """All drones at their points for long enough."""
        del drones
        return state.goal.steady_steps * self.timing.control_dt >= self.hold

    metric_units: Mapping[str, str] = {"position_error": "m", "squared_position_error": "m^2"}

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Distance to the points in m, and squared, and the share of drones in a collision."""
        error = length(state.goal.point - Drones.of(world).pos)
        collided = self.collided(state).astype(jnp.float32)
        return {"position_error": error, "squared_position_error": error**2, "collision": collided}

    @functools.cached_property
    def pictures(self) -> Pictures:
        return dataclasses.replace(super().pictures, markers=lambda world, state: {"target": state.goal.point})

    def expert(self, observation: Mapping[str, Array], state: TaskState[Goal]) -> Array:
        """Straight to the point, ignoring the others; for levels velocity, position and trajectory.

        Raises:
            EmbodiedError: actions of another level.
        """
        require_level(self.config.level, SCRIPTS)
        own = observation["policy"]
        offset = own[:, :3] * FAR
        way = SCRIPTS[self.config.level](offset, state.goal)
        return jnp.clip(jnp.pad(way, ((0, 0), (0, 1))), -1.0, 1.0)


def within_reach(offset: Array) -> Array:
    """(..., 3) m, the way to a point, shortened to `FAR` along the floor, and in height."""
    flat, up = offset[..., :2], offset[..., 2:]
    far = jnp.sqrt(jnp.sum(flat**2, -1, keepdims=True) + 1e-12)
    return jnp.concatenate([flat / jnp.maximum(1.0, far / FAR), jnp.clip(up, -FAR, FAR)], -1)


# Metres or metres per second at an action of 1 are those of `tasks.swarm.control.levels`.
SCRIPTS: dict[Level, Callable[[Array, Goal], Array]] = {
    Level.VELOCITY: lambda offset, goal: (1.5 * offset + goal.velocity) / SPEED,
    Level.POSITION: lambda offset, goal: offset / STEP,
    Level.TRAJECTORY: lambda offset, goal: jnp.concatenate(
        [offset / STEP, goal.velocity / FASTEST, goal.acceleration / GRAVITY], -1
    ),
}
