"""`swarm/gate-race`: through a course of gates as fast as it goes, commanding body rates and thrust."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language, Pictures
from embodied.core.hooks import PROPRIO, UNCHANGED, Changes, Observation
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.crazyflie import RADIUS
from tasks.swarm.dynamics.drones import DETAILED, Box, Drones, length, still
from tasks.swarm.team.drone_team import DroneTeam, DroneTeamConfig, TaskState
from tasks.swarm.team.gates import (
    CLEAR,
    FRAME,
    OPENING,
    Gate,
    Wall,
    add_frames,
    blocked,
    frames,
    in_gate,
    random_course,
)

AHEAD = 2  # next gates that a drone observes
PROPRIO_TERMS = ("velocity", "up", "gyro", "last_action")  # of the drone itself, without its gates
CAMERA = "fpv"  # with which a pilot would race the drone
FIELD_OF_VIEW = 100.0  # degrees, of both sides of a square picture: racing drones' wide lenses; our choice
UPTILT = 25.0  # degrees, by which racing drones' cameras look up, so that they see ahead in fast flight; our choice
EYE = (0.03, 0.0, 0.012)  # m from the drone's middle to the camera, before its boards and above its battery


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 21 ms."""

    progress: float = 5.0
    """m less of the course to fly."""
    passed: float = 2.0
    """Once for every gate."""
    spin: float = -0.001
    """Angular speed, rad/s."""
    action_rate: float = -0.003
    """Squared change of the action."""
    braking: float = -0.01
    """m/s of speed, once the course is flown."""
    ended: float = -20.0
    """Once, for the drone that hits a gate or a wall, crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class GateRaceConfig(DroneTeamConfig):
    """Options of `swarm/gate-race`."""

    agents: int = 1
    """Number of drones; they do not see each other's gates."""
    level: Level = Level.RATES
    """Command level: rotors, rates, attitude, velocity, position or trajectory; the firmware's PID does the rest."""
    neighbours: int = 0
    """Team-mates that each drone sees."""
    gates: int = 5
    """Gates of a random course: around a ring, each at a random height and a little turned."""
    course: tuple[Gate, ...] = ()
    """A course of your own instead, in the order of flight."""
    walls: tuple[Wall, ...] = ()
    """Boxes that no drone may touch."""
    laps: int = 1
    """Rounds to fly."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gates < 2 or self.laps < 1:
            raise EmbodiedError(f"gates={self.gates} must be at least 2 and laps={self.laps} at least 1")
        for number, gate in enumerate(self.course):
            if gate.z < OPENING + FRAME:
                raise EmbodiedError(f"gate {number} at z={gate.z} m reaches into the floor; expected {OPENING + FRAME}")
            for wall in self.walls:
                if blocked(gate, wall):
                    raise EmbodiedError(
                        f"gate {number} at ({gate.x:g}, {gate.y:g}, {gate.z:g}) m cannot be flown through: the wall "
                        f"from {wall.low} to {wall.high} m stands within {CLEAR} m before, in or behind it"
                    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Goal:
    """The course, and how far each drone has come."""

    middle: Array
    """(G, 3) m."""
    heading: Array
    """(G,) rad."""
    next: Array
    """(A,) int32 gates passed so far; the number of the next is this, modulo G."""
    pos: Array
    """(A, 3) m, where the drones were after the last step."""
    progress: Array
    """(A,) m less of the course that was left before the last step: straight to the next gate's middle, and from middle
    to middle. So the reward for a course does not depend on where in their openings its gates are passed."""
    passed: Array
    """(A,) bool, whether a gate was passed in it."""
    hit: Array
    """(A,) bool, whether a frame was hit in it."""


class GateRace(DroneTeam[Goal]):
    """A drone flies through all gates in their order, in their directions, and stops behind the last.

    Randomised: the course (unless one is given), the start. Success: all gates of all laps passed. Failure: crossing a
    gate's plane through its frame, touching a wall, a crash, leaving. A gate passed is crossed within its opening of 80
    cm; its frame is 10 cm wide. It stops 60 cm behind the last.
    """

    config_type = GateRaceConfig
    commands: Mapping[str, str] = {
        "goal.middle": "m, the gates' centres in the order of the course, world frame",
        "goal.heading": "rad about z of the way through each gate",
    }
    config: GateRaceConfig
    seconds = 15.0
    places_drones = True
    arena = Box((-5.0, -5.0, 0.0), (5.0, 5.0, 4.0))
    carried_cameras = (*DroneTeam.carried_cameras, CAMERA)
    language = Language.of(
        "Fly through the gates.", "Race the course, gate by gate.", "Pass all gates as fast as you can."
    )

    def __init__(self, config: GateRaceConfig | None = None, changes: Changes = UNCHANGED) -> None:
        options = config or self.config_type()
        self.gates = len(options.course) or options.gates
        super().__init__(options, changes)

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        add_frames(spec, self.gates)
        # All of a random course, from beside and above it.
        spec.worldbody.add_camera(name="course", pos=[0, -5, 5], xyaxes=[1, 0, 0, 0, 0.6, 0.8], fovy=48)
        if self.config.agents <= DETAILED:
            tilt = np.radians(UPTILT)
            for number in range(self.config.agents):
                spec.body(f"cf{number}_cf").add_camera(
                    name=f"cf{number}_{CAMERA}", pos=EYE, fovy=FIELD_OF_VIEW,
                    xyaxes=[0, -1, 0, -np.sin(tilt), 0, np.cos(tilt)],
                )  # fmt: skip
        for wall in self.config.walls:
            low, high = np.array(wall.low), np.array(wall.high)
            spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_BOX, pos=(low + high) / 2, size=(high - low) / 2,
                rgba=[0.6, 0.6, 0.65, 1], contype=1, conaffinity=2, condim=1,
            )  # fmt: skip
        return spec

    def start_box(self) -> Box:
        """Room for all drones over the middle; `draw` moves them before the first gate."""
        reach = 0.2 * self.config.agents**0.5
        return Box((-reach, -reach, 0.0), (reach, reach, 0.0))

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        """A course, and the drones a metre before its first gate."""
        lay, place = jax.random.split(key)
        middle, heading = self._course(lay)
        offset = self.scattered(place).pos if self.config.agents > 1 else 0.1 * jax.random.normal(place, (1, 3))
        drones = still(middle[0] - direction(heading[0]) + offset, jnp.full(self.config.agents, heading[0]))
        agents = self.config.agents
        return drones, Goal(
            middle, heading, jnp.zeros(agents, jnp.int32), drones.pos, jnp.zeros(agents),
            jnp.zeros(agents, bool), jnp.zeros(agents, bool),
        )  # fmt: skip

    def _course(self, key: Array) -> tuple[Array, Array]:
        """Middles (G, 3) m and headings (G,) rad of the gates."""
        if given := self.config.course:
            rows = jnp.array([[gate.x, gate.y, gate.z, gate.heading] for gate in given])
            return rows[:, :3], rows[:, 3]
        return random_course(key, self.gates)

    def advance(self, drones: Drones, state: TaskState[Goal], key: Array) -> Goal:
        """Progress, gates passed and frames hit in the last step."""
        del key
        goal = state.goal
        middle, heading = self._gate(goal, 0)
        before, after = in_gate(middle, heading, goal.pos), in_gate(middle, heading, drones.pos)
        crossed = (before[:, 0] < 0) & (after[:, 0] >= 0)
        # Point where the way between the two positions meets the gate's plane.
        part = before[:, :1] / jnp.minimum(before[:, :1] - after[:, :1], -1e-6)
        off = jnp.max(jnp.abs(before + part * (after - before))[:, 1:], 1)
        passed = crossed & self.racing(goal) & (off < OPENING - RADIUS)
        hit = crossed & (off >= OPENING - RADIUS) & (off < OPENING + FRAME + RADIUS)
        now = dataclasses.replace(goal, next=goal.next + passed, pos=drones.pos, passed=passed, hit=hit)
        aim, next_aim = self._ahead(goal, 0)[0], self._ahead(now, 0)[0]
        # All of the course that is left, before and now, along the gates' middles.
        progress = length(aim - goal.pos) + length(next_aim - aim) - length(next_aim - drones.pos)
        return dataclasses.replace(now, progress=progress)

    def racing(self, goal: Goal) -> Array:
        """(A,) bool, whether gates are left to pass."""
        return goal.next < self.gates * self.config.laps

    def _gate(self, goal: Goal, ahead: int) -> tuple[Array, Array]:
        """Middle (A, 3) m and heading (A,) rad of the gate that comes after `ahead` others."""
        gate = (goal.next + ahead) % self.gates
        return goal.middle[gate], goal.heading[gate]

    def _ahead(self, goal: Goal, ahead: int) -> tuple[Array, Array]:
        """Place to which a drone flies after `ahead` gates, (A, 3) m, and the direction through it, (A, 3).

        Behind the last gate this is the place where it stops, with no direction.
        """
        last = (self.gates * self.config.laps - 1) % self.gates
        stop = goal.middle[last] + CLEAR * direction(goal.heading[last])
        middle, heading = self._gate(goal, ahead)
        left = (goal.next + ahead < self.gates * self.config.laps)[:, None]
        return jnp.where(left, middle, stop), jnp.where(left, direction(heading), 0.0)

    def ego_observation(self, drones: Drones, state: TaskState[Goal]) -> Mapping[str, Array]:
        """The drone's motion and last action, and two gates, in its level's frame.

        `velocity` (3) m/s; `up` (3); `gyro` (3) 5 rad/s; `last_action` (4); `gates` (12): for each of the next two the
        way to its middle, 3 m, and the direction through it; behind the last gate, the way to where it stops, and 0.
        """
        seen: list[Array] = []
        for ahead in range(AHEAD):
            middle, through = self._ahead(state.goal, ahead)
            seen += [self.turned(drones, middle - drones.pos) / 3.0, self.turned(drones, through)]
        return {
            "velocity": self.turned(drones, drones.vel),
            "up": self.turned(drones, jnp.broadcast_to(jnp.eye(3)[2], drones.pos.shape)),
            "gyro": 0.2 * drones.angvel,
            "last_action": state.action,
            "gates": jnp.concatenate(seen, -1),
        }

    def observe(self, world: World, state: TaskState[Goal], key: Array) -> Observation:
        """As every team's; and `proprio`, for policies that see the gates.

        `proprio`: `velocity` (3) m/s, `up` (3), `gyro` (3) 5 rad/s, `last_action` (4): `policy` without its `gates`.
        """
        seen = super().observe(world, state, key)
        return {**seen, PROPRIO: {name: value for name, value in seen["policy"].items() if name in PROPRIO_TERMS}}

    def touched(self, drones: Drones) -> Array:
        """(A,) bool, whether a drone touches a wall."""
        touched = jnp.zeros(self.config.agents, bool)
        for wall in self.config.walls:
            nearest = jnp.clip(drones.pos, jnp.array(wall.low), jnp.array(wall.high))
            touched |= length(drones.pos - nearest) < RADIUS
        return touched

    def ended(self, drones: Drones, state: TaskState[Goal]) -> Array:
        return super().ended(drones, state) | state.goal.hit | self.touched(drones)

    def rewards(self, world: World, state: TaskState[Goal], action: Array) -> Mapping[str, Array]:
        del action
        drones, goal = Drones.of(world), state.goal
        racing = self.racing(goal)
        return {
            "progress": goal.progress,
            "passed": goal.passed.astype(jnp.float32),
            "spin": length(drones.angvel),
            "action_rate": jnp.sum(state.action_change**2, -1),
            "braking": jnp.where(racing, 0.0, length(drones.vel)),
            "ended": self.ended(drones, state).astype(jnp.float32),
        }

    def solved(self, drones: Drones, state: TaskState[Goal]) -> Array:
        del drones
        return ~jnp.any(self.racing(state.goal))

    metric_units: Mapping[str, str] = {"speed": "m/s", "course_time": "s"}

    def metrics(self, world: World, state: TaskState[Goal]) -> Mapping[str, Array]:
        """Gates passed so far (on average over the episode), speed in m/s, and s until all gates are passed.

        This `course_time` is all of an episode's time where they are not.
        """
        return {
            "gates_passed": state.goal.next.astype(jnp.float32),
            "speed": length(Drones.of(world).vel),
            "course_time": self.racing(state.goal) * self.seconds,
        }

    @functools.cached_property
    def pictures(self) -> Pictures:
        """With the middle of each drone's next gate, and the gates' frames where the course has them."""
        return dataclasses.replace(
            super().pictures,
            markers=lambda world, state: {"gate": self._gate(state.goal, 0)[0]},
            geom_appearance=lambda state: frames(state.goal.middle, state.goal.heading),
        )


def direction(heading: Array) -> Array:
    """(..., 3) unit vector along the floor, at (...,) rad about z."""
    return jnp.stack([jnp.cos(heading), jnp.sin(heading), jnp.zeros_like(heading)], -1)
