"""`swarm/trajectory`: a drone follows a figure of eight or a random smooth path, commanding body rates and thrust."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from enum import StrEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.facets import CommandRange, Language, Operator
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.robot.option import RobotPath, keep_absolute
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.aerodynamics import Effect
from tasks.swarm.dynamics.crazyflie import Preset
from tasks.swarm.dynamics.drones import Box, Drones, still
from tasks.swarm.dynamics.robots import DroneRobot, drone_robot
from tasks.swarm.team.drone_team import TaskState
from tasks.swarm.team.waypoints import Goal, WaypointConfig, WaypointTask

HEIGHT = 1.5  # m, of the paths' middle
PREVIEW = (0.1, 0.2, 0.4, 0.6)  # s ahead, where the drone also sees the path
WAVES = 3  # sines that a random path is made of, along each axis
KNOWN_EFFECTS = (Effect.DRAG, Effect.WIND)  # effects known for other drones than the Crazyflie
APART = 3.0  # m between the paths of several drones


class Path(StrEnum):
    """Path that the drone follows."""

    EIGHT = "eight"
    RANDOM = "random"


@dataclasses.dataclass(frozen=True)
class TrajectoryConfig(WaypointConfig):
    """Options of `swarm/trajectory`."""

    agents: int = 1
    """Number of drones, each on a path of its own."""
    robot: RobotPath = ""
    """Name of a robot, or MJCF or URDF file of a multirotor (see docs/your_robot.md); by default the Crazyflie."""
    level: Level = Level.RATES
    """Command level: rotors, rates, attitude, velocity, position or trajectory; the firmware's PID does the rest."""
    path: Path = Path.RANDOM
    """eight: a lemniscate 2 m long; random: three sines along each axis."""
    period: tuple[float, float] = (5.0, 9.0)
    """s that a figure takes; drawn uniformly. A random path's slowest sine has this period."""
    neighbours: int = 0
    """Team-mates that each drone sees."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_absolute(self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """Paths p(t) = middle + sum of amplitude sin(frequency t + phase)."""

    middle: Array
    """(A, 3) m."""
    amplitude: Array
    """(A, 3, WAVES) m."""
    frequency: Array
    """(A, 3, WAVES) rad/s."""
    phase: Array
    """(A, 3, WAVES) rad."""


class Trajectory(WaypointTask):
    """A drone keeps to a point that moves along a smooth path.

    Task: stay with the point. Randomised: path, period and direction; the drone begins at rest up to 20 cm away.
    Success: within 15 cm for the last second of 10 s. Failure: a crash, or 1 m off the paths' box.

    A user's robot flies the same paths under the same controllers, which accelerate and turn it like a Crazyflie; with
    level `rotors` an action has one number for each.
    """

    config_type = TrajectoryConfig
    commands: Mapping[str, str] = {
        **WaypointTask.commands,
        "goal.course.middle": "m, world frame, where the course lies",
        "goal.course.amplitude": "m of each sine that the course is made of",
        "goal.course.frequency": "rad/s of each",
        "goal.course.phase": "rad of each",
        "goal.time": "s since the course began",
    }
    config: TrajectoryConfig
    seconds = 10.0
    places_drones = True
    language = Language.of("Follow the trajectory.", "Stay with the moving point.", "Fly along the path.")

    def __init__(self, config: TrajectoryConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        side = int(np.ceil(np.sqrt(options.agents)))
        number = np.arange(options.agents)
        flat = APART * np.stack([number // side, number % side], -1)
        self.middles = np.concatenate([flat - flat.mean(0), np.full((options.agents, 1), HEIGHT)], 1).astype(np.float32)
        reach = float(np.abs(self.middles[:, :2]).max()) + 2.5
        self.arena = Box((-reach, -reach, 0.0), (reach, reach, 3.5))
        super().__init__(options, changes)
        unknown = sorted(self.physics.effects - set(KNOWN_EFFECTS))
        if not self.drone.crazyflie and (options.mode is not None or unknown):
            what = f"mode={options.mode}" if options.mode is not None else f"effects={', '.join(unknown)}"
            raise EmbodiedError(
                f"{what} with robot {options.robot}; expected effects of {' and '.join(KNOWN_EFFECTS)}: the others "
                "were measured on a Crazyflie"
            )

    def chosen_robot(self, preset: Preset) -> DroneRobot:
        return drone_robot(self.config.robot, preset)

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        way, away = jax.random.split(key)
        nobody = still(jnp.asarray(self.middles))
        course = self.course(nobody, way)
        point, _ = self.points(course, jnp.zeros(()), nobody)
        drones = still(point + 0.2 / np.sqrt(3) * jax.random.uniform(away, point.shape, minval=-1.0))
        return drones, self.begun(course, drones)

    def course(self, drones: Drones, key: Array) -> Course:
        return PATHS[self.config.path](jnp.asarray(self.middles), self.config.period, key)

    def points(self, course: Course, time: Array, drones: Drones) -> tuple[Array, Array]:
        del drones
        angle = course.frequency * time + course.phase
        point = course.middle + jnp.sum(course.amplitude * jnp.sin(angle), -1)
        return point, jnp.sum(course.amplitude * course.frequency * jnp.cos(angle), -1)

    @functools.cached_property
    def operator(self) -> Operator:
        """The middle of the path, or of all paths, half a metre either way; their figures stay."""
        middle = enumerate(zip("xyz", self.middles.mean(0).tolist(), strict=True))
        ranges = tuple(
            CommandRange(f"{axis} of the path", "m", at - 0.5, at + 0.5, "goal.course.middle", (i,))
            for i, (axis, at) in middle
        )
        return dataclasses.replace(super().operator, ranges=ranges, measured=self._measured)

    def _measured(self, world: World, state: TaskState[Goal]) -> Array:
        """Middle of the path if the drone is taken to be at its point: the mean over the drones."""
        away = Drones.of(world).pos - state.goal.point
        return jnp.mean(state.goal.course.middle + away, 0)

    def course_in_order(self, course: Course, order: Array) -> Course:
        return jax.tree.map(lambda rows: rows[order], course)

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Also `preview` (12) m: way to the path .1, .2, .4 and .6 s ahead, in the level's frame."""
        goal = state.goal
        ahead = [self.points(goal.course, goal.time + after, drones)[0] for after in PREVIEW]
        preview = jnp.concatenate([self.turned(drones, point - drones.pos) for point in ahead], -1)
        return {**super().ego_observation(drones, state), "preview": jnp.clip(preview, -2.0, 2.0)}


def eights(middle: Array, period: tuple[float, float], key: Array) -> Course:
    """Lemniscates 2 m long and 1 m wide, level, in a random direction: x = sin a, y = .5 sin 2a."""
    agents = len(middle)
    low, high = period
    draw = jax.random.uniform(key, (2, agents))
    frequency = 2 * jnp.pi / (low + (high - low) * draw[0])
    way = jnp.where(draw[1] < 0.5, 1.0, -1.0)
    zero = jnp.zeros((agents, 3, WAVES))
    amplitude = zero.at[:, 0, 0].set(1.0).at[:, 1, 0].set(0.5 * way)
    frequencies = zero.at[:, 0, 0].set(frequency).at[:, 1, 0].set(2 * frequency)
    return Course(middle, amplitude, frequencies, zero)


def wanders(middle: Array, period: tuple[float, float], key: Array) -> Course:
    """Sums of sines with 1, 2 and 3 times a base frequency, each half as large as the one before."""
    agents = len(middle)
    low, high = period
    base, amplitude, phase = jax.random.split(key, 3)
    order = jnp.arange(1.0, WAVES + 1.0)
    frequency = 2 * jnp.pi / (low + (high - low) * jax.random.uniform(base, (agents, 1, 1))) * order
    size = jnp.array([0.8, 0.8, 0.4])[:, None] / 2 ** (order - 1)
    shape = (agents, 3, WAVES)
    return Course(
        middle,
        size * jax.random.uniform(amplitude, shape, minval=0.3),
        jnp.broadcast_to(frequency, shape),
        2 * jnp.pi * jax.random.uniform(phase, shape),
    )


PATHS = {Path.EIGHT: eights, Path.RANDOM: wanders}
