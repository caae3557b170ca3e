"""`swarm/pursuit`: drones keep moving targets in sight, which they know by noisy ranges and bearings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.entity_rows import Kind, entity_rows
from embodied.core.facets import Language, Pictures
from embodied.core.hooks import UNCHANGED, Changes, Observation
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.dynamics.crazyflie import RADIUS
from tasks.swarm.dynamics.drones import Box, Drones, places, scatter
from tasks.swarm.dynamics.neighbours import nearest
from tasks.swarm.team.drone_team import DroneTeam, DroneTeamConfig, TaskState

AREA = 4.0  # m^2 of floor for each target: the crowd is as dense with a thousand as with four
HEIGHT = 1.5  # m, of the drones at the start
MARGIN = 1.0  # m around the targets' square in which drones may fly
CAUGHT = 0.5  # m along the floor from a target within which it is tracked
EGO_SIZE = 10  # numbers of `Pursuit.ego_observation`


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    nearness: float = 0.5
    """Closeness to the target that the drone itself is nearest to, in [0, 1]."""
    tracked: float = 1.0
    """Share of all targets that some drone tracks."""
    crowding: float = -1.0
    """Closeness of others within 30 cm, now or soon, in [0, 1]."""
    height: float = -0.5
    """m off the starting height."""
    action_rate: float = -0.02
    """Squared change of the action."""
    ended: float = -20.0
    """Once or at every step of it, for a drone that collides, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class PursuitConfig(DroneTeamConfig):
    """Options of `swarm/pursuit`."""

    agents: int = 4
    """Number of drones."""
    targets: int | None = None
    """Number of targets; by default as many as drones."""
    target_speed: float = 0.3
    """m/s, of every target; drones fly at up to 1 m/s."""
    seen: int = 6
    """Targets that each drone sees, the nearest ones."""
    range_noise: float = 0.03
    """Standard deviation of a measured range, as a fraction of it."""
    bearing_noise: float = 0.03
    """rad, standard deviation of a measured bearing."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.targets is not None and self.targets < 1) or self.seen < 1:
            raise EmbodiedError(f"targets={self.targets} and seen={self.seen}; expected at least 1")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Goal:
    """The targets, and the drones near them."""

    pos: Array
    """(T, 2) m."""
    heading: Array
    """(T,) rad."""
    seen: Array
    """(A, seen) int32 nearest targets of each drone; T where there is none in reach."""
    distance: Array
    """(T,) m along the floor to the nearest drone; infinite beyond the drones' reach."""


class Pursuit(DroneTeam[Goal]):
    """A team tracks as many targets as it can, each drone by what it sees.

    Targets wander over the floor of a square that grows with their number (4 m^2 each) and turn back at its border. A
    drone measures range and bearing, with noise, of the nearest targets and team-mates within its sensing radius.
    After the scalable target tracking of Hsu et al. (arXiv:2011.08055), where few learn for a thousand. Randomised:
    starts, targets. Success: nine of ten targets are tracked: a drone is within 50 cm along the floor. Failure:
    a collision, a crash, a drone outside the arena.
    """

    config_type = PursuitConfig
    commands: Mapping[str, str] = {
        "goal.pos": "x and y m of each target, estimated, world frame",
        "goal.heading": "rad about z of each target's course, estimated",
    }
    config: PursuitConfig
    seconds = 15.0
    language = Language.of("Track the targets.", "Stay above the moving targets.", "Chase every target, each its own.")

    def __init__(self, config: PursuitConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.targets = options.targets or options.agents
        self.half = (AREA * max(self.targets, options.agents)) ** 0.5 / 2
        reach = self.half + MARGIN
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 3.0))
        self.target_grid = places(Box((-self.half, -self.half, 0.0), (self.half, self.half, 0.0)), self.targets, 0.2)
        super().__init__(options, changes)

    def start_box(self) -> Box:
        return Box((-self.half, -self.half, HEIGHT), (self.half, self.half, HEIGHT))

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        starts, ends, heading = jax.random.split(key, 3)
        drones = self.scattered(starts)
        pos = scatter(ends, self.target_grid, self.targets)[:, :2]
        return drones, self._seen(drones, pos, jax.random.uniform(heading, (self.targets,), maxval=2 * jnp.pi))

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        """Targets turn a little at random, walk on, and turn back at the border."""
        goal, dt = state.goal, self.timing.control_dt
        heading = goal.heading + 1.5 * jnp.sqrt(dt) * jax.random.normal(key, goal.heading.shape)
        step = self.config.target_speed * dt * jnp.stack([jnp.cos(heading), jnp.sin(heading)], -1)
        beyond = jnp.abs(goal.pos + step) > self.half
        step = jnp.where(beyond, -step, step)
        heading = jnp.where(jnp.any(beyond, -1), jnp.arctan2(step[:, 1], step[:, 0]), heading)
        return self._seen(drones, goal.pos + step, heading)

    def _seen(self, drones: Drones, pos: Array, heading: Array) -> Goal:
        """Neighbours among drones and targets, searched as one crowd, from above."""
        agents, config = self.config.agents, self.config
        crowd = jnp.concatenate([drones.pos.at[:, 2].set(0.0), jnp.pad(pos, ((0, 0), (0, 1)))])
        found = nearest(crowd, 2 * config.seen, config.sensing)
        target = found.mask & (found.index >= agents)
        # Targets come first, nearest first; all else that a drone saw moves to the end.
        order = jnp.argsort(jnp.where(target, found.distance, jnp.inf)[:agents], axis=1)[:, : config.seen]
        seen = jnp.where(target, found.index - agents, self.targets)[:agents]
        drone = found.mask & (found.index < agents)
        distance = jnp.min(jnp.where(drone, found.distance, jnp.inf)[agents:], 1)
        return Goal(pos, heading, jnp.take_along_axis(seen, order, 1), distance)

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`velocity` (3) m/s, `height` (1) m, `border` (2), `last_action` (4).

        `border` is 0 farther than 1 m from a side and rises to 1 at it, with the side's sign.
        """
        place = drones.pos[:, :2]
        border = jnp.sign(place) * jnp.clip(jnp.abs(place) - (self.half + MARGIN - 1.0), 0.0, 1.0)
        return {
            "velocity": drones.vel,
            "height": drones.pos[:, 2:] - HEIGHT,
            "border": border,
            "last_action": state.action,
        }

    def entities(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """`teammates`, and the nearest `targets`, without noise."""
        return {**super().entities(drones, state), "targets": self._targets(drones, state.goal, jnp.zeros(2))}

    def observe(self, world: World, state: TaskState[Goal], key: Array) -> Observation:
        """`policy`: `ego_observation`, team-mates, measured targets; `critic`: those without noise, `tracked` (1)."""
        drones, goal = Drones.of(world), state.goal
        noise = jax.random.normal(key, (2, *goal.seen.shape))
        own, clean = self.ego_observation(drones, state), self.entities(drones, state)
        return {
            "policy": {**own, **clean, "targets": self._targets(drones, goal, noise)},
            "critic": {**own, "tracked": jnp.broadcast_to(self._share(goal), (self.config.agents, 1)), **clean},
        }

    def _targets(self, drones: Drones, goal: Goal, noise: Array) -> Array:
        """Rows (A, seen, WIDTH) of the targets seen, with range and bearing off by `noise` (2, ...) deviations."""
        present, which = goal.seen < self.targets, jnp.minimum(goal.seen, self.targets - 1)
        offset = goal.pos[which] - drones.pos[:, None, :2]
        off = 1 + self.config.range_noise * noise[0]
        turn = self.config.bearing_noise * noise[1]
        x, y = offset[..., 0], offset[..., 1]
        cosine, sine = off * jnp.cos(turn), off * jnp.sin(turn)
        down = jnp.broadcast_to(-drones.pos[:, None, 2], x.shape)
        measured = jnp.stack([cosine * x - sine * y, sine * x + cosine * y, down], -1)
        return entity_rows(Kind.TARGET, measured, jnp.zeros_like(measured), RADIUS, present)

    def _share(self, goal: Goal) -> Array:
        return jnp.mean((goal.distance < CAUGHT).astype(jnp.float32))

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones, goal = Drones.of(world), state.goal
        which = jnp.minimum(goal.seen, self.targets - 1)
        distance = jnp.sqrt(jnp.sum((goal.pos[which] - drones.pos[:, None, :2]) ** 2, -1) + 1e-12)
        # A target counts for the drone that is nearest to it, so that two do not share one.
        mine = (goal.seen < self.targets) & (distance < goal.distance[which] + 1e-3)
        nearness = jnp.max(jnp.where(mine, jnp.exp(-2 * jnp.maximum(distance - 0.1, 0.0)), 0.0), 1)
        return {
            "nearness": nearness,
            "tracked": self._share(goal),
            "crowding": self.crowding(state),
            "height": jnp.abs(drones.pos[:, 2] - HEIGHT),
            "action_rate": jnp.sum(state.action_change**2, -1),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Goal]) -> Array:
        del drones
        return self._share(state.goal) >= 0.9

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Share of targets tracked, of drones in a collision, and of drones lost."""
        drones = Drones.of(world)
        return {
            "tracked": self._share(state.goal),
            "collision": self.collided(state).astype(jnp.float32),
            "lost": self.lost(drones).astype(jnp.float32),
        }

    @functools.cached_property
    def pictures(self) -> Pictures:
        pad = functools.partial(jnp.pad, pad_width=((0, 0), (0, 1)), constant_values=0.05)
        return dataclasses.replace(super().pictures, markers=lambda world, state: {"target": pad(state.goal.pos)})
