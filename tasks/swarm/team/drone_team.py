"""`DroneTeam`: base class of the tasks of several drones: flight, reset states, collisions, rows of entities.

A task defines starts and goals of drones (`draw`), the next goals (`advance`), what a drone observes of itself
(`ego_observation`) and around it (`entities`), and its rewards.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.entity_rows import Kind, entity_rows, passing
from embodied.core.facets import Deployment, Operator, Pictures, Team
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.randomization import Range, Term
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.errors import EmbodiedError
from embodied.storage.bounds import BELOW_ONE, NOT_NEGATIVE, POSITIVE, Bounded, at_least
from tasks.swarm.control.levels import LEVELS, Level
from tasks.swarm.dynamics.aerodynamics import Effect, find_mode
from tasks.swarm.dynamics.crazyflie import RADIUS, Preset
from tasks.swarm.dynamics.drones import DETAILED, Box, Drones, drones_spec, length, places, scatter, still
from tasks.swarm.dynamics.neighbours import nearest
from tasks.swarm.dynamics.robots import DroneRobot, drone_robot
from tasks.swarm.team.flight import Flight, Physics, known_effects

G = TypeVar("G")

SPACING = 0.3  # m, least distance of drones at the start; four radii of larger ones. Nearer later on costs reward
FORESIGHT = 0.5  # s ahead for which drones that fly on as they do must keep that distance; they stop from 1 m/s in that
CREW = 8  # team-mates that the critic sees, however far; it exists up to `CRITICS` drones, to train with
CRITICS = 64
MOST_AGENTS = 10_000  # MuJoCo takes 12 s to compile 4,000 bodies, and two minutes for 10,000
CONTACTS = 16  # drones up to which engines that know contact compute it: every pair of drones costs a test per step


@dataclasses.dataclass(frozen=True)
class DroneTeamConfig(Bounded):
    """Options that every task of several drones has."""

    agents: Annotated[int, at_least(1)] = 8
    """Number of drones."""
    preset: Preset = Preset.P250
    """Constants of the Crazyflie: identified ones (p250, l250, t350, b500) or gym-pybullet-drones' cf2x (gpd)."""
    effects: tuple[Effect, ...] = (Effect.DRAG,)
    """Effects besides the rotors: drag, ground, downwash, wind, battery."""
    mode: str | None = None
    """Instead of preset and effects, one of gym-pybullet-drones' physics modes by its name, e.g. pyb_gnd_drag_dw."""
    thrust_spread: Annotated[float, BELOW_ONE] = 0.05
    """Each drone's thrust is scaled by U(1 - x, 1 + x) in every episode: battery, air density, worn propellers."""
    mass_spread: Annotated[float, BELOW_ONE] = 0.05
    """Each drone's mass and inertia are scaled by U(1 - x, 1 + x) in every episode: decks and battery."""
    level: Level = Level.VELOCITY
    """Command level: rotors, rates, attitude, velocity, position or trajectory; the firmware's PID does the rest."""
    rate: Annotated[int, at_least(1)] = 240
    """Hz, of physics and controllers."""
    decimation: Annotated[int, at_least(1)] = 5
    """Physics steps per action."""
    neighbours: Annotated[int, NOT_NEGATIVE] = 6
    """Team-mates that each drone sees, the nearest ones."""
    sensing: Annotated[float, POSITIVE] = 3.0
    """m, how far it sees them."""
    starts: tuple[tuple[float, float, float], ...] = ()
    """m, where the drones begin, one place for each; by default at random places of the task's own."""
    collisions_end: bool = True
    """Whether a collision, a crash or a drone that leaves ends the episode as a failure; else they only cost reward."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.agents > MOST_AGENTS:
            raise EmbodiedError(
                f"agents={self.agents}; expected at most {MOST_AGENTS}: MuJoCo takes minutes to compile more bodies; "
                "for more drones at a time take more environments"
            )
        if self.starts and len(self.starts) != self.agents:
            raise EmbodiedError(f"{len(self.starts)} starts for agents={self.agents}; expected one for each, or none")
        for one, other in itertools.combinations(range(len(self.starts)), 2):
            gap = math.dist(self.starts[one], self.starts[other])
            if gap < 2 * RADIUS:
                raise EmbodiedError(
                    f"starts {one} at {self.starts[one]} and {other} at {self.starts[other]} overlap: {gap:.3g} m "
                    f"between drones of {RADIUS} m radius"
                )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState(Generic[G]):
    """State of a team's episode."""

    flight: Flight
    action: Array
    """(A, k) the last action."""
    action_change: Array
    """(A, k) the last action minus the one before."""
    near: Array
    """(A, neighbours) int32 nearest team-mates; A where there is none in reach."""
    gap: Array
    """(A,) m between the centres of a drone and its nearest team-mate."""
    miss: Array
    """(A,) m, how near any of those would come within `FORESIGHT` if all flew on as they do."""
    goal: G
    """Goals of the drones."""


class DroneTeam(Task[TaskState[G]], abc.ABC, Generic[G]):
    """Several drones of one kind in one world."""

    config: Any
    applies_every_substep = True
    arena: Box
    """Box in which drones may fly."""
    seconds: ClassVar[float] = 10.0
    """s per episode."""
    places_drones: ClassVar[bool] = False
    """Whether the task places its drones by itself, so that the config's `starts` would mean nothing."""
    carried_cameras: ClassVar[tuple[str, ...]] = ("front", "track")
    """Of each drone: what it sees ahead of it; the drone as seen by a camera that flies along."""
    commands: Mapping[str, str] = {}
    """Fields of the state that a drone receives and does not measure, see `Operator`."""
    sides: Mapping[str, tuple[int, ...]] = {}
    """Sides of a game, see `Team`."""

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        options = self.config
        preset, effects = options.preset, known_effects(options.effects)
        if options.mode is not None:
            preset, effects = find_mode(options.mode).preset, find_mode(options.mode).effects
        self.robot = self.chosen_robot(preset)
        self.drone, self.radius = self.robot.drone, self.robot.radius
        self.spacing = max(SPACING, 4 * self.radius)
        self.level = LEVELS[options.level].of(self.drone)
        self.action_size = self.level.size
        self.timing = Timing(1 / options.rate, options.decimation, self.seconds)
        self.physics = Physics(
            self.drone, self.level, effects, options.agents, self.timing.physics_dt, self.timing.control_dt
        )
        if options.starts and self.places_drones:
            raise EmbodiedError(f"starts={options.starts}: {type(self).__name__} places its drones by itself")
        if away := [place for place in options.starts if not bool(self.arena.contains(jnp.asarray(place)))]:
            raise EmbodiedError(f"start {away[0]} lies outside the arena, from {self.arena.low} to {self.arena.high} m")
        try:
            self.start_grid = places(self.start_box(), options.agents, self.spacing)
        except ValueError as error:
            raise EmbodiedError(f"agents={options.agents}: {error}") from None

    def chosen_robot(self, preset: Preset) -> DroneRobot:
        """The robot that flies."""
        return drone_robot(preset=preset)

    def start_box(self) -> Box:
        """Box in which drones begin."""
        return self.arena

    def build_spec(self) -> mujoco.MjSpec:
        """The drones over a floor; up to `CONTACTS` of them push each other on engines that know contact."""
        contacts = 1 < self.config.agents <= CONTACTS
        return drones_spec(self.robot, self.config.agents, contacts)

    @property
    def command_size(self) -> int:
        """k, numbers of a drone's command, which `TaskState.action` keeps: an agent's action."""
        return self.action_size

    @functools.cached_property
    def operator(self) -> Operator:
        fence = Deployment(workspace=tuple(zip(self.arena.low, self.arena.high, strict=True)))
        return Operator(self.commands, setpoints=self.level.entries, deployment=fence)

    @functools.cached_property
    def team(self) -> Team | None:
        return Team(self.config.agents, self.sides, self._seen_by)

    @functools.cached_property
    def pictures(self) -> Pictures:
        """With `carried_cameras` of each drone; of more than `DETAILED` drones none has any."""
        carried = self.carried_cameras if self.config.agents <= DETAILED else ()
        drones = range(self.config.agents)
        return Pictures({name: tuple(f"cf{number}_{name}" for number in drones) for name in carried})

    @abc.abstractmethod
    def draw(self, key: Array) -> tuple[Drones, G]:
        """Starts and goals of the drones."""

    def scattered(self, key: Array) -> Drones:
        """Drones at rest, upright, at the config's starts or at random places."""
        if self.config.starts:
            return still(jnp.asarray(self.config.starts))
        return still(scatter(key, self.start_grid, self.config.agents))

    def reset(self, key: Array) -> ResetState[TaskState[G]]:
        config = self.config
        drawn, air, spread = jax.random.split(key, 3)
        drones, goal = self.draw(drawn)
        none = jnp.zeros((config.agents, self.command_size))
        near, gap, miss = self._look_around(drones)
        strength, density = 1 + jax.random.uniform(spread, (2, config.agents), minval=-1.0) * jnp.array(
            [[config.thrust_spread * ("thrust" in self.varied)], [config.mass_spread * ("mass" in self.varied)]]
        )
        state = TaskState(self.physics.start(drones, air, strength), none, none, near, gap, miss, goal)
        return ResetState(drones.qpos, drones.qvel, state, self._masses(density) if "mass" in self.varied else {})

    def _masses(self, density: Array) -> dict[str, Array]:
        """Model fields of drones whose mass and inertia are scaled by `density` (A,)."""
        scale = jnp.ones(self.model.nbody).at[1 : 1 + self.config.agents].set(density)
        mass, inertia = (jnp.asarray(field, jnp.float32) for field in (self.model.body_mass, self.model.body_inertia))
        return {"body_mass": mass * scale, "body_inertia": inertia * scale[:, None]}

    def declared_terms(self) -> tuple[Term, ...]:
        config = self.config
        terms = [self.start_term()]
        if spread := config.thrust_spread:
            ranges = (Range.spread("factor", spread, "1", about=1.0),)
            terms.append(Term("thrust", "of each drone", ranges=ranges))
        if spread := config.mass_spread:
            ranges = (Range.spread("factor", spread, "1", about=1.0),)
            terms.append(Term("mass", "mass and inertia of each drone", ranges=ranges))
        if Effect.WIND in self.physics.effects:
            why = f"its spread follows from speed and height (Dryden) about {self.physics.wind.velocity} m/s"
            terms.append(Term("wind", "gusts", optional=False, no_range=why))
        return tuple(terms)

    def start_term(self) -> Term:
        """Declaration of the drones' starts."""
        if self.places_drones:
            return Term("start", "where the drones begin", optional=False, no_range="on the course, see the task")
        if self.config.starts:
            return Term("start", "where the drones begin", optional=False, no_range="as config.starts has them")
        box = self.start_box()
        ranges = tuple(
            Range(axis, float(low), float(high), "m")
            for axis, low, high in zip("xyz", box.low, box.high, strict=True)
            if low < high
        )
        apart = f"places of a grid, at least {100 * self.spacing:g} cm apart"
        return Term("start", f"where the drones begin, {apart}", optional=False, ranges=ranges)

    def process_action(self, world: World, state: TaskState[G], action: Array, key: Array) -> tuple[Any, TaskState[G]]:
        """The controllers' setpoints for this control step, and the air's motion."""
        drones = Drones.of(world)
        flight = self.physics.prepare(drones, state.flight, key)
        change = action - state.action
        state = dataclasses.replace(state, flight=flight, action=action, action_change=change)
        return self.level.setpoint(action[:, : self.level.size], drones), state

    def apply_action(self, world: World, state: TaskState[G], command: Any) -> tuple[Control, TaskState[G]]:
        """Controllers, rotors and air, at every physics step."""
        wrench, flight = self.physics.wrench(Drones.of(world), state.flight, command)
        still = jnp.zeros((self.model.nbody - len(wrench), 6))  # columns and other bodies of the world
        return Control(wrench=jnp.concatenate([wrench, still])), dataclasses.replace(state, flight=flight)

    def post_step(self, world: World, state: TaskState[G], action: Array, key: Array) -> TaskState[G]:
        del action
        drones = Drones.of(world)
        near, gap, miss = self._look_around(drones)
        state = dataclasses.replace(state, near=near, gap=gap, miss=miss)
        return dataclasses.replace(state, goal=self.advance(drones, state, key))

    def advance(self, drones: Drones, state: TaskState[G], key: Array) -> G:
        """Next goals of the drones."""
        del drones, key
        return state.goal

    def _seen_by(self, world: World, state: TaskState[G], agent: Array) -> tuple[World, TaskState[G]]:
        drones = Drones.of(world)
        number = jnp.arange(self.config.agents)
        order = jnp.where(number == 0, agent, jnp.where(number == agent, 0, number))
        drones, action = jax.tree.map(lambda rows: rows[order], (drones, state.action))
        world = dataclasses.replace(world, qpos=drones.qpos, qvel=drones.qvel)
        return world, dataclasses.replace(state, action=action, goal=self.goal_in_order(state.goal, order))

    def goal_in_order(self, goal: G, order: Array) -> G:
        """Goals with drone `order[i]`, (A,) int, renumbered to i: the fields that `commands` names, of each drone.

        Here, where all have the same goal, it is unchanged.
        """
        del order
        return goal

    def _look_around(self, drones: Drones) -> tuple[Array, Array, Array]:
        """Nearest team-mates (A, neighbours), the distance (A,) to the nearest, and how near (A,) any is going to come.

        Distances are infinite where a drone sees none.
        """
        found = nearest(drones.pos, max(self.config.neighbours, 1), self.config.sensing)
        others = jnp.minimum(found.index, self.config.agents - 1)
        misses = closest_approach(drones.pos[others] - drones.pos[:, None], drones.vel[others] - drones.vel[:, None])
        miss = jnp.min(jnp.where(found.mask, misses, jnp.inf), 1)
        return found.index[:, : self.config.neighbours], found.distance[:, 0], miss

    def turned(self, drones: Drones, vector_w: Array) -> Array:
        """(A, 3) world vectors as the level's commands have them: in the world's frame, or in the drones'."""
        return vector_w if self.level.world else drones.in_body(vector_w)

    @abc.abstractmethod
    def ego_observation(self, drones: Drones, state: TaskState[G]) -> Mapping[str, Array]:
        """Observation that each drone has of itself and its goal: terms (A, k), scaled to about 1."""

    def entities(self, drones: Drones, state: TaskState[G]) -> Mapping[str, Array]:
        """Entities around a drone: terms (A, rows, embodied.core.entity_rows.WIDTH). Here its nearest `teammates`."""
        return {"teammates": self.teammates(drones, state.near)} if self.config.neighbours else {}

    def teammates(self, drones: Drones, near: Array) -> Array:
        """Rows (A, k, WIDTH) for team-mates (A, k); ids past the end are absent."""
        present, others = near < self.config.agents, jnp.minimum(near, self.config.agents - 1)
        offset, velocity = drones.pos[others] - drones.pos[:, None], drones.vel[others] - drones.vel[:, None]
        turn = jax.vmap(self.turned, (None, 1), 1)
        return entity_rows(Kind.TEAMMATE, turn(drones, offset), turn(drones, velocity), 2 * self.radius, present)

    def observe(self, world: World, state: TaskState[G], key: Array) -> Observation:
        """`policy`: `ego_observation` and the rows of `entities`. `critic`, up to 64 drones: these and `privileged`.

        The critic does not see the nearest `teammates` twice: the `crew` is the same drones and more.
        """
        del key
        drones = Drones.of(world)
        policy = {**self.ego_observation(drones, state), **self.entities(drones, state)}
        if self.config.agents > CRITICS:
            return {"policy": policy}
        critic = {**policy, **self.privileged(drones, state)}
        if "crew" in critic:
            critic.pop("teammates", None)
        return {"policy": policy, "critic": critic}

    def privileged(self, drones: Drones, state: TaskState[G]) -> Mapping[str, Array]:
        """Rows that only a central critic sees. Here `crew`: up to 8 team-mates, however far away."""
        del state
        return {"crew": self.teammates(drones, nearest(drones.pos, CREW).index)} if self.config.agents > 1 else {}

    def crowding(self, state: TaskState[G]) -> Array:
        """(A,) how far a team-mate has come within 30 cm, or is about to: 0 there, 1 where the two touch."""
        return jnp.clip((self.spacing - state.miss) / (self.spacing - 2 * self.radius), 0.0, 1.0)

    def collided(self, state: TaskState[G]) -> Array:
        """(A,) bool, whether two drones touch."""
        return state.gap < 2 * self.radius

    def lost(self, drones: Drones) -> Array:
        """(A,) bool, whether a drone is on the floor or outside the arena."""
        return ~self.arena.contains(drones.pos) | (drones.pos[:, 2] < self.radius)

    def ended(self, drones: Drones, state: TaskState[G]) -> Array:
        """(A,) bool, drones that collided, crashed or left."""
        return self.collided(state) | self.lost(drones)

    @abc.abstractmethod
    def solved(self, drones: Drones, state: TaskState[G]) -> Array: ...

    def outcome(self, world: World, state: TaskState[G]) -> Outcome:
        """Success as the task defines it; failure when a drone collides, crashes or leaves."""
        drones = Drones.of(world)
        failure = jnp.any(self.ended(drones, state)) & self.config.collisions_end
        return Outcome(success=self.solved(drones, state) & ~failure, failure=failure)


def closest_approach(offset: Array, velocity: Array) -> Array:
    """(...) m, how near something at (..., 3) m that moves by (..., 3) m/s comes in `FORESIGHT`."""
    return length(passing(offset, velocity, FORESIGHT))
