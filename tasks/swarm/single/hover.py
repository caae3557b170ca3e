"""`swarm/hover`: one Crazyflie recovers from a thrown start and holds a point in the air."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import CommandRange, Deployment, Language, Operator, Pictures, TermDescription
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.randomization import Distribution, Range, Term
from embodied.core.scenes import compose_text
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.math.rotations import quat_rotate_inverse, up_vector
from embodied.math.sampling import ball, between, coarse_noise, tilted
from embodied.math.symmetry import PSEUDOVECTOR, VECTOR, Mirror, Reflection, unchanged
from embodied.robot.option import RobotPath, keep_absolute
from embodied.storage.bounds import BELOW_ONE, Bounded
from tasks.swarm.dynamics.crazyflie import Preset
from tasks.swarm.dynamics.multirotor import Multirotor, body_drag, rotor_lag, speed_for_thrust, world_wrench
from tasks.swarm.dynamics.robots import BODY, drone_robot

HEIGHT = 2.0  # m, target above the floor: room to fall while recovering from 90 degrees of tilt
REACH = 3.0  # m from the target, beyond which the drone is lost
FLOOR = 0.05  # m above the floor, below which it crashed; a larger robot where its lowest point touches
CLOSE = 0.10  # m, success: this near ...
SLOW = 0.10  # m/s, ... this slow ...
STEADY = 2.0  # s, ... for this long at the episode's end
CONTROL_DT = 0.02  # s
ROTORS = Reflection((3, 2, 1, 0), (1, 1, 1, 1))  # clockwise from the front right: partners turn oppositely
PHYSICS_DT = 0.002  # s

# XLA's CPU compiler would compute what a vector's elements share once per element; apart, it takes half the time.
apart = jax.lax.optimization_barrier


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 20 ms."""

    position: float = 1.0
    """Closeness to the target, in [0, 1]."""
    steady: float = 0.5
    """Slowness while near the target, in [0, 1]."""
    upright: float = 0.1
    """Uprightness, in [-1, 1]."""
    spin: float = -0.02
    """Angular speed, rad/s."""
    action_rate: float = -0.05
    """Squared change of the action, of four rotors on average."""
    lost: float = -10.0
    """Once, when the drone crashes or leaves."""


@dataclasses.dataclass(frozen=True)
class HoverConfig(Bounded):
    """Options of `swarm/hover`."""

    preset: Preset = Preset.P250
    """Constants of the Crazyflie: identified ones (p250, l250, t350, b500) or gym-pybullet-drones' cf2x (gpd)."""
    robot: RobotPath = ""
    """Name of a robot, or MJCF or URDF file of a multirotor (see docs/your_robot.md); by default the Crazyflie."""
    start_distance: float = 1.0
    """m, the start lies at most this far from the target."""
    start_tilt: float = 90.0
    """degrees, largest tilt at the start."""
    start_speed: float = 1.0
    """m/s, largest speed at the start."""
    start_spin: float = 2.0
    """rad/s, largest angular speed about each axis at the start; less for a robot that turns less readily."""
    thrust_spread: Annotated[float, BELOW_ONE] = 0.05
    """Each episode's thrust is scaled by U(1 - x, 1 + x): battery, air density, worn propellers."""
    mass_spread: Annotated[float, BELOW_ONE] = 0.05
    """Each episode's mass and inertia are scaled by U(1 - x, 1 + x): decks and battery."""
    latency: tuple[float, float] = (0.0, 0.01)
    """s that commands take to reach the rotors, smallest and largest: estimator, mixer, radio where there is one."""
    noise: bool = True
    """Whether observations carry the sensor noise of the learning-to-fly recipe."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_absolute(self)
        low, high = self.latency
        if not 0 <= low <= high <= CONTROL_DT:
            raise ValueError(
                f"latency=({low}, {high}) s; expected the smaller first, within one step of {CONTROL_DT} s"
            )
        if not 0 <= self.start_distance < HEIGHT:
            raise ValueError(f"start_distance={self.start_distance} m; expected [0, {HEIGHT})")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one hovering drone's episode."""

    rotor_speed: Array
    """(rotors,) in the drone's `speed_unit`, and so below."""
    action: Array
    """(rotors,) the last action."""
    action_change: Array
    """(rotors,) the last action minus the one before."""
    steady_steps: Array
    """() int32 control steps since the drone was last away from the target or fast."""
    strength: Array
    """() factor on thrust in this episode."""
    latency: Array
    """() s that a command takes to reach the rotors in this episode."""
    command: Array
    """(rotors,) the newest command."""
    last_command: Array
    """(rotors,) the one before, which the rotors follow until the newest has arrived."""
    waited: Array
    """() s since the newest command was sent."""
    constants: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Field of `Multirotor` -> its value in this episode, where the drone that flies differs from the preset."""
    target: Array | None = None
    """(3,) m, world frame, where a user moves the target; None: the task's own."""


# Standard deviations of the uniform observation noise: m, -, m/s, rad/s (learning to fly in seconds, arXiv:2311.13081).
NOISE = {"position": 0.001, "up": 0.001, "velocity": 0.002, "gyro": 0.002}
SENSED: Mapping[str, TermDescription] = {
    "position": TermDescription("m", "commanded point minus position, in the body frame", "position"),
    "up": TermDescription(
        "1", "direction of the world's z axis in the body frame; (0, 0, 1) when level", "orientation"
    ),
    "velocity": TermDescription("m/s", "velocity of the body, in the body frame", "linvel_w"),
    "gyro": TermDescription("rad/s", "angular velocity, in the body frame", "gyro"),
}
ACTION = TermDescription("1", "the policy's action one step before, in [-1, 1]; zeros in the first step")
THRUST_AT_START = (0.5, 1.2)  # of that in hover, smallest and largest; our choice


class Hover(Task[TaskState]):
    """One multirotor, a command for each rotor, a point to hold.

    Task: fly to the target 2 m above the floor and stay. Randomised: position in a ball of 1 m, tilt up to 90
    degrees about any axis, heading, velocity, spin, thrust, mass and latency. Success: within 10 cm of the target and
    slower than 0.1 m/s for the last 2 s of an 8 s episode. Failure: on the floor, or 3 m away.

    Action: per rotor, -1 idles, 0 hovers, +1 gives full thrust (piecewise linear in thrust). The policy sees the
    world from the body's frame, so it is the same for every heading, and heading is not controlled.

    For other robots, 0 is a rotor's thrust when all hold the weight level. Distances, speeds and success are the
    Crazyflie's. A robot that turns less readily spins slower at the start, by the root of the angular accelerations,
    and its target is higher, by what it falls further until it is upright.

    The control rate is 50 Hz: the rotors' lag is about 0.1 s, and half the control steps halve the cost of learning.
    """

    config_type = HoverConfig
    config: HoverConfig
    applies_every_substep = True
    language = Language.of(
        "Hover at the target point.",
        "Fly to the marked point and hold still there.",
        "Recover and keep your position in the air.",
    )
    timing = Timing(physics_dt=PHYSICS_DT, substeps=round(CONTROL_DT / PHYSICS_DT), episode_seconds=8.0)
    action_size = 4

    def __init__(self, config: HoverConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.robot = drone_robot(self.config.robot, self.config.preset)
        self.drone, self.agility = self.robot.drone, self.robot.agility
        self.floor = max(FLOOR, self.robot.below())
        further = self.robot.falls_further(np.deg2rad(self.config.start_tilt), self.config.start_speed)
        height = min(HEIGHT + further, REACH)  # below that the drone is lost anyhow
        self.action_size = self.drone.count
        self.target = np.array([0.0, 0.0, height], np.float32)

    @property
    def mirror(self) -> Mirror | None:  # type: ignore[override]  # a declaration that depends on the robot
        """For the Crazyflie: rotors 1 and 4, 2 and 3 change places. None for other robots."""
        if not self.drone.crazyflie:
            return None
        return Mirror(
            ROTORS,
            {
                "position": VECTOR, "up": VECTOR, "velocity": VECTOR, "gyro": PSEUDOVECTOR, "action": ROTORS,
                "rotors": ROTORS, "strength": unchanged(1), "latency": unchanged(1), "steady": unchanged(1),
            },
        )  # fmt: skip

    @functools.cached_property
    def operator(self) -> Operator:
        """The point to hold, within 1 m of the task's own: from anywhere there to anywhere else is less than `REACH`.

        A drone may be within `REACH` of the middle of the floor, at any attitude.
        """
        spans = enumerate(zip("xyz", self.target.tolist(), strict=True))
        space = ((-REACH, REACH), (-REACH, REACH), (0.0, float(self.target[2]) + REACH))
        return Operator(
            commands={"target": "x, y and z m of the point to hold, world frame"},
            ranges=tuple(
                CommandRange(axis, "m", at - 1, at + 1, "target", (i,), default=at) for i, (axis, at) in spans
            ),
            measured=lambda world, state: world["position"],
            setpoints=tuple(f"rotor{number}, {self.drone.speed_unit}" for number in range(1, self.drone.count + 1)),
            deployment=Deployment({**SENSED, "action": ACTION}, space, max_tilt=math.pi),
        )

    def declared_terms(self) -> tuple[Term, ...]:
        config = self.config
        thrust, mass = (
            Range.spread("factor", spread, "1", about=1.0) for spread in (config.thrust_spread, config.mass_spread)
        )
        start = (
            Range("distance from the target", 0.0, config.start_distance, "m", Distribution.BALL),
            Range("tilt about any level axis", 0.0, config.start_tilt, "degrees"),
            Range.spread("heading", 180.0, "degrees"),
            Range("velocity", 0.0, config.start_speed, "m/s", Distribution.BALL),
            Range.spread("angular velocity about each axis", self.agility * config.start_spin, "rad/s"),
            Range("thrust of each rotor, of that in hover", *THRUST_AT_START, "1"),
        )
        # Uniform noise of standard deviation s lies within s times the root of three.
        noise = tuple(Range.spread(name, 3**0.5 * size, SENSED[name].unit) for name, size in NOISE.items())
        return (
            Term("start", "where and how the drone begins", optional=False, ranges=start),
            Term("thrust", "thrust of all rotors", state_field="strength", nominal=1.0, ranges=(thrust,)),
            Term("mass", "body_mass and body_inertia", ranges=(mass,)),
            Term(
                "latency", "commands reach the rotors late", state_field="latency",
                ranges=(Range("delay", *config.latency, "s"),),
            ),
            Term("observation_noise", "noise on readings, new at every step", ranges=noise if config.noise else (),
                 no_range="" if config.noise else "switched off by config.noise"),
        )  # fmt: skip

    def build_spec(self) -> mujoco.MjSpec:
        spec = compose_text("scenes/floor.xml", self.robot.xml)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        # Flight ends at the floor, so nothing is ever in contact.
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        body = spec.body(BODY)
        body.mass, body.inertia = self.drone.mass, self.drone.inertia
        return spec

    def reset(self, key: Array) -> ResetState[TaskState]:
        config, drone = self.config, self.drone
        # One draw cut into pieces: a dozen separate ones would take XLA ten seconds longer to compile.
        drawn = jax.random.uniform(key, (15 + drone.count,))
        place, motion, tilt, spin, rotors, spread = jnp.split(drawn, [3, 6, 9, 12, 12 + drone.count])
        away = config.start_distance * ball(place)
        linvel = config.start_speed * ball(motion)
        angvel = self.agility * config.start_spin * (2 * spin - 1)
        quat = tilted(tilt, np.deg2rad(config.start_tilt))
        thrust = jnp.asarray(drone.hover_thrust * between(THRUST_AT_START, rotors))
        strength = 1 + config.thrust_spread * ("thrust" in self.varied) * (2 * spread[0] - 1)
        density = 1 + config.mass_spread * (2 * spread[1] - 1)
        speed = speed_for_thrust(drone, thrust)
        state = TaskState(
            rotor_speed=speed,
            action=jnp.zeros(drone.count),
            action_change=jnp.zeros(drone.count),
            steady_steps=jnp.zeros((), jnp.int32),
            strength=strength,
            latency=between(config.latency, spread[2]) * ("latency" in self.varied),
            command=speed,
            last_command=speed,
            waited=jnp.zeros(()),
        )
        model = {
            "body_mass": jnp.asarray(self.model.body_mass, jnp.float32) * density,
            "body_inertia": jnp.asarray(self.model.body_inertia, jnp.float32) * density,
        }
        qpos, qvel = jnp.concatenate([self.target + away, quat]), jnp.concatenate([linvel, angvel])
        return ResetState(qpos, qvel, state, model if config.mass_spread and "mass" in self.varied else {})

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Rotor speeds (rotors,) in the drone's `speed_unit`: -1 idles, 0 hovers, +1 gives full thrust."""
        del world, key
        hover = self.drone.hover_fraction
        fraction = hover + jnp.where(action > 0, action * (1 - hover), action * hover)
        command = speed_for_thrust(self.drone, jnp.asarray(fraction * self.drone.max_thrust))
        state = dataclasses.replace(
            state,
            action=action,
            action_change=action - state.action,
            command=command,
            last_command=state.command,
            waited=jnp.zeros(()),
        )
        return command, state

    def flown(self, state: TaskState) -> Multirotor:
        """The drone of this episode; actions are relative to `self.drone`."""
        return dataclasses.replace(self.drone, **state.constants)

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        """Latency, rotor lag, thrust and torque curves and drag, at 500 Hz."""
        dt = self.timing.physics_dt
        arrived = state.waited + dt / 2 > state.latency
        wanted = jnp.where(arrived, command, state.last_command)
        drone = self.flown(state)
        speed = apart(rotor_lag(drone, state.rotor_speed, wanted, dt))
        thrust_b, torque_b = apart(drone.wrench(speed, state.strength))
        quat = world["orientation"]
        drag_b = apart(body_drag(drone, quat, world["linvel_w"]))
        wrench = world_wrench(quat, drag_b + thrust_b, torque_b)
        rows = jnp.stack([jnp.zeros_like(wrench), wrench])  # the world body, then the drone
        return Control(wrench=rows), dataclasses.replace(state, rotor_speed=speed, waited=state.waited + dt)

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        near = self._distance(world, state) < CLOSE
        slow = jnp.linalg.norm(world["linvel_w"]) < SLOW
        return dataclasses.replace(state, steady_steps=jnp.where(near & slow, state.steady_steps + 1, 0))

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """State that the drone can estimate; the critic also sees the rotors and the thrust factor.

        `policy`: position (3) m and velocity (3) m/s to the target and up (3) in the body frame, gyro (3) rad/s,
        last action (rotors). `critic`: the same without noise, rotor speeds relative to full, strength (1),
        latency (1) in control steps, steadiness (1).
        """
        quat = world["orientation"]
        clean = {
            "position": quat_rotate_inverse(quat, self._target(state) - world["position"]),
            "up": quat_rotate_inverse(quat, jnp.array([0.0, 0.0, 1.0])),
            "velocity": quat_rotate_inverse(quat, world["linvel_w"]),
            "gyro": world["gyro"],
        }
        clean = {name: apart(value) for name, value in clean.items()}  # a pytree would come back in alphabetical order
        noisy = clean
        if self.config.noise and "observation_noise" in self.varied:
            drawn = jnp.split(apart(coarse_noise(key, 3 * len(clean))), len(clean))
            noisy = {name: value + NOISE[name] * z for (name, value), z in zip(clean.items(), drawn, strict=True)}
        full = speed_for_thrust(self.drone, jnp.asarray(self.drone.max_thrust))
        hidden = {
            "rotors": state.rotor_speed / full,
            "strength": state.strength - 1.0,
            "latency": state.latency / CONTROL_DT,
            "steady": jnp.minimum(state.steady_steps * self.timing.control_dt / STEADY, 1.0),
        }
        return {"policy": {**noisy, "action": state.action}, "critic": {**clean, "action": state.action, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        distance, speed = self._distance(world, state), jnp.linalg.norm(world["linvel_w"])
        near = jnp.exp(-4.0 * distance)
        return {
            "position": 0.5 * (1 - jnp.tanh(distance)) + 0.5 * near,
            "steady": near * jnp.exp(-2.0 * speed),
            "upright": up_vector(world["orientation"])[2],
            "spin": jnp.linalg.norm(world["gyro"]),
            "action_rate": 4 / self.drone.count * jnp.sum(state.action_change**2),
            "lost": self._lost(world, state).astype(jnp.float32),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success once steady for 2 s (so, at the end, for the last 2 s); failure on the floor or far away."""
        steady = state.steady_steps * self.timing.control_dt >= STEADY
        return Outcome(success=steady, failure=self._lost(world, state))

    metric_units: Mapping[str, str] = {"position_error": "m", "speed": "m/s"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Mean distance to the target in m and mean speed in m/s."""
        return {"position_error": self._distance(world, state), "speed": jnp.linalg.norm(world["linvel_w"])}

    @functools.cached_property
    def pictures(self) -> Pictures:
        return Pictures(markers=lambda world, state: {"target": self._target(state)})

    def _target(self, state: TaskState) -> Array:
        """(3,) m, world frame."""
        return jnp.asarray(self.target) if state.target is None else state.target

    def _distance(self, world: World, state: TaskState) -> Array:
        return jnp.linalg.norm(world["position"] - self._target(state))

    def _lost(self, world: World, state: TaskState) -> Array:
        return (world["position"][2] < self.floor) | (self._distance(world, state) > REACH)
