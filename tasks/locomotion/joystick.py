"""`locomotion/*-joystick-*`, `velocity`: a legged robot follows a velocity command, on flat or rough ground."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import CommandRange, Deployment, Language, Operator, TermDescription
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.math.rewards import gaussian_kernel, squared_norm
from embodied.math.rotations import quat_from_yaw, quat_rotate
from embodied.math.symmetry import PLANAR, PLANAR_COMMAND, PSEUDOVECTOR, VECTOR, Reflection, unchanged
from embodied.parts import standing
from embodied.parts.pushes import Push, Pushes
from embodied.parts.standing import Standing
from embodied.robot.prepared.roles import Role
from embodied.storage.bounds import POSITIVE
from tasks.locomotion.ground import Flat, Rough, Terrain
from tasks.locomotion.legged import IN_CONTACT, SENSED, LeggedConfig, LeggedTask
from tasks.locomotion.robots import QUADRUPED_POSE, by_role


@dataclasses.dataclass(frozen=True)
class CommandConfig:
    """Velocity commands: each component U(-limit, limit) or zero, renewed at random times."""

    limits: tuple[float, float, float] = (1.5, 0.8, 1.2)
    """Largest forward (m/s), sideways (m/s) and turning (rad/s) speed."""
    keep: tuple[float, float, float] = (0.9, 0.25, 0.5)
    """Probability that each component is not zero."""
    interval: float = 5.0
    """s, mean time between commands (exponentially distributed)."""
    standing: float = 0.1
    """Probability that an episode's command is zero from beginning to end."""


def draw_command(config: CommandConfig, uniform: Array) -> Array:
    """A command (3,) from `uniform` (6,): forward and sideways m/s, turning rad/s, in the heading's frame."""
    speed = (2 * uniform[:3] - 1) * jnp.asarray(config.limits)
    return jnp.where(uniform[3:] < jnp.asarray(config.keep), speed, 0.0)


def renew_command(config: CommandConfig, command: Array, dt: float, key: Array) -> Array:
    """The command after `dt` s: the same, or with probability dt / interval a new one."""
    uniform = jax.random.uniform(key, (7,))
    return jnp.where(uniform[6] < dt / config.interval, draw_command(config, uniform[:6]), command)


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms per second (MuJoCo Playground's Go1 terms, weighted for short training)."""

    tracking_linvel: float = 2.0
    """Closeness of the planar velocity to the command, in [0, 1]."""
    tracking_yaw: float = 1.0
    """Closeness of the turning rate to the command, in [0, 1]."""
    alive: float = 0.5
    """Every step on its feet, so that falling early never pays."""
    linvel_z: float = -1.0
    """Squared vertical speed, m^2/s^2."""
    angvel_xy: float = -0.02
    """Squared rolling and pitching rate, rad^2/s^2."""
    orientation: float = -5.0
    """Squared horizontal part of the trunk's z axis."""
    pose: float = 0.3
    """Closeness of the joints to the home pose, in [0, 1]."""
    joint_limits: float = -1.0
    """rad beyond 95 % of the joints' ranges."""
    fall: float = -500.0
    """Once, when the robot falls: per second, so one control step of it."""
    stand_still: float = -0.5
    """Distance of the joints from home without a command, rad."""
    creep: float = -1.0
    """Speed of the trunk along the ground, m/s, and of turning, rad/s, without a command."""
    feet_up: float = -1.0
    """Fraction of the feet off the ground without a command."""
    torques: float = -2e-4
    """Norm plus sum of the torques, N m."""
    energy: float = -5e-4
    """Mechanical power of the motors, W."""
    action_rate: float = -0.01
    """Squared change of the action."""
    foot_clearance: float = -0.5
    """Distance of moving feet from 10 cm height, m times root of m/s."""
    foot_slip: float = -0.1
    """Squared speed of feet on the floor, m^2/s^2."""
    air_time: float = 0.5
    """Airtime above 0.1 s of feet that just landed, s per control step's second."""


@dataclasses.dataclass(frozen=True)
class JoystickConfig(LeggedConfig):
    """Options of the joystick tasks."""

    terrain: Terrain = Terrain.FLAT
    """flat or rough ground."""
    froude: bool = True
    """Whether a robot lower than Go1 (0.278 m), or on two feet than G1 (0.784 m), is told to go slower, by the root of
    its height: so it moves alike."""
    command: CommandConfig = dataclasses.field(default_factory=CommandConfig)
    """Velocity commands."""
    push: Pushes = dataclasses.field(default_factory=Pushes)
    """Pushes."""
    tracking_sigma: Annotated[float, POSITIVE] = 0.25
    """m^2/s^2 and rad^2/s^2, width of the tracking rewards."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


TRACKED = 0.2  # m/s, mean planar velocity error below which an episode without a fall counts as solved
FALLEN = 0.34  # cos 70 degrees: the trunk's z axis leans further than a quadruped recovers from while walking
VELOCITY = "forward m/s, left m/s and turn left rad/s, in the robot's frame"
STANDS = 2  # with which the start's random key is folded, beside its two halves: whether the episode is one of standing
SWING = 0.36  # of the height: how high a moving foot of another robot than Go1 should be
MASTERED = 0.3  # m/s, mean planar velocity error below which a robot moves on to harder ground ...
WALKED = 0.5  # ... if it is also below this share of the mean speed commanded, which is the error of standing still

SCAN = np.stack(np.meshgrid(np.linspace(-0.6, 0.6, 7), [-0.25, 0.0, 0.25], indexing="ij"), -1).reshape(-1, 2)
"""(21, 2) m, forward and sideways: points where the critic sees the height of rough ground."""
SCAN_REFLECTION = unchanged(7).rows(Reflection((2, 1, 0), (1, 1, 1)))  # seven rows from right to left


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one walking robot's episode. Feet and joints in the robot's own order."""

    command: Array
    """(3,) forward m/s, sideways m/s, turning rad/s, in the body frame."""
    push: Push
    """Push that disturbs it."""
    encoder_bias: Array
    """(n,) rad."""
    latency: Array
    """() s that targets take to reach the motors."""
    level: Array
    """() int32 how hard the ground was where the episode began; 0 is easy."""
    action: Array
    """(n,) the last action."""
    action_change: Array
    """(n,) the last action minus the one before."""
    air_time: Array
    """(k,) s each foot has been off the floor."""
    landing: Array
    """(k,) s of air time that just ended, zero where no foot landed in this step."""
    steps: Array
    """() control steps so far."""
    mean_error: Array
    """() m/s, mean planar velocity error so far."""
    standing: Standing
    """What the robot has crept without a command."""
    mean_command: Array
    """() m/s, mean planar speed commanded so far: the error of a robot that stands still."""


class Joystick(LeggedTask[TaskState]):
    """A quadruped follows forward, sideways and turning speed commands.

    Task: track the command, which changes every 5 s on average. Randomised at every reset: see `variations`. Success:
    an episode of 20 s without a fall, with the planar velocity on average within 0.2 m/s of the command. Failure: the
    trunk leans more than 70 degrees or drops to a third of its height above the ground.

    On rough ground a robot that lived through its episode, and tracked well where it was commanded to walk, begins the
    next one on harder ground, one that fell on easier; from the hardest level it goes on at any.

    Action: offset of the joints' targets from the home pose.

    Settings were chosen for Go1. With `scaled`, the height of the feet's swing and the weights of torque and power go
    with the robot's size; the limit of a fall always does, and commands of lower robots go with the root of the height.
    """

    config_type = JoystickConfig
    config: JoystickConfig
    language = Language.of(
        "Walk as the joystick commands.",
        "Follow the given forward, sideways and turning speeds.",
        "Track the velocity command without falling.",
    )
    other: ClassVar[Mapping[bool, str]] = {True: "locomotion/velocity-biped"}
    pose: ClassVar[Mapping[Role, float]] = QUADRUPED_POSE
    """Role of a joint -> weight of its squared distance from the home pose, 1/rad^2."""
    rough: ClassVar[Rough] = Rough()
    """The rough ground."""
    lowest: ClassVar[float] = 1 / 3
    """Height of the trunk, as a fraction of that at home, below which the robot has fallen."""
    swing: float = 0.1
    """m, how high a moving foot should be."""
    timing = Timing(physics_dt=0.004, substeps=5, episode_seconds=20.0)

    def __init__(self, config: JoystickConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.pose_weights = by_role(self.robot, self.pose)
        if self.config.scaled:
            self.swing = SWING * self.robot.height

    @functools.cached_property
    def ground(self) -> Flat | Rough:  # type: ignore[override]  # as the config says
        return self.rough if self.config.terrain is Terrain.ROUGH else Flat()

    @functools.cached_property
    def velocities(self) -> CommandConfig:
        """The velocity commands of this robot; with `froude`, of a low one they go with the root of its height.

        Robots of equal Froude number, speed over the root of gravity times height, move alike (Alexander and Jayes
        1983).
        """
        size, command = self.robot.height / self.chosen_for.height, self.config.command
        if not self.config.froude or size >= 1:
            return command
        forward, sideways, turning = command.limits
        return dataclasses.replace(command, limits=(forward * math.sqrt(size), sideways * math.sqrt(size), turning))

    @functools.cached_property
    def operator(self) -> Operator:
        """On two feet nothing stands by its servos alone: such a robot hangs from a gantry until the policy runs."""
        action = TermDescription("1", "the policy's action one step before, in [-1, 1]; zeros in the first step")
        command = TermDescription("m/s, m/s, rad/s", f"commanded velocity: {VELOCITY}")
        terms = {**SENSED, "last_action": action, "command": command}
        names = zip(("forward", "left", "turn left"), ("m/s", "m/s", "rad/s"), self.velocities.limits, strict=True)
        return Operator(
            commands={"command": VELOCITY},
            ranges=tuple(
                CommandRange(name, unit, -limit, limit, "command", (i,)) for i, (name, unit, limit) in enumerate(names)
            ),
            measured=lambda world, state: jnp.append(world["linvel"][:2], world["gyro"][2]),
            deployment=Deployment(terms, max_tilt=math.acos(FALLEN), stands=len(self.robot.feet) > 2),
        )

    def further_reflections(self, joints: Reflection, feet: Reflection) -> Mapping[str, Reflection]:
        return {
            "command": PLANAR_COMMAND,
            "accelerometer": VECTOR,
            "angvel_w": PSEUDOVECTOR,
            "foot_vel": feet.rows(VECTOR),
            "air_time": feet,
            "push": PLANAR,
            "push_wait": unchanged(2),
            "ground": SCAN_REFLECTION,
        }

    def reset(self, key: Array) -> ResetState[TaskState]:
        """Near the home pose, at a random heading, moving a little; on rough ground at any level."""
        draw, level = jax.random.split(key)
        return self._start(draw, jax.random.randint(level, (), 0, self.ground.levels))

    def restart(self, key: Array, state: TaskState) -> ResetState[TaskState]:
        """As `reset`, but on harder ground after a good episode and on easier ground after a fall."""
        draw, level = jax.random.split(key)
        lived = state.steps >= self.timing.max_steps
        mastered = state.mean_error < jnp.minimum(MASTERED, WALKED * state.mean_command)
        rise = jnp.where(lived, mastered.astype(jnp.int32), -1)
        anywhere = jax.random.randint(level, (), 0, self.ground.levels)
        following = jnp.maximum(state.level + rise, 0)
        return self._start(draw, jnp.where(following < self.ground.levels, following, anywhere))

    def _start(self, key: Array, level: Array) -> ResetState[TaskState]:
        draw, fields = jax.random.split(key)
        joints, feet = len(self.robot.joint_names), len(self.robot.feet)
        sizes = np.cumsum([joints, 6, joints, 1, 6, 4, 4])
        pose, speed, bias, heading, command, push, place, latency = jnp.split(
            jax.random.uniform(draw, (sizes[-1] + 1,)), sizes
        )
        xy = self.ground.place(place, level)
        height = self.ground.clear_height(xy) + self.robot.height + 0.02
        base = jnp.concatenate([xy, height[None], quat_from_yaw(2 * jnp.pi * heading[0])])
        qpos, qvel = self.state_at(base, jnp.asarray(self.layout.home) * (0.8 + 0.4 * pose), speed - 0.5)
        bias, late = self.episode_constants(bias, latency[0])
        stands = jax.random.bernoulli(jax.random.fold_in(key, STANDS), self.config.command.standing)
        state = TaskState(
            command=jnp.where(stands, 0.0, draw_command(self.velocities, command)),
            push=self.config.push.drawn(self.mass, push, self.varied),
            encoder_bias=bias,
            latency=late,
            level=level,
            action=jnp.zeros(joints),
            action_change=jnp.zeros(joints),
            air_time=jnp.zeros(feet),
            landing=jnp.zeros(feet),
            steps=jnp.zeros(()),
            mean_error=jnp.zeros(()),
            standing=standing.started(stands, standing.pose_of(base[:3], base[3:])),
            mean_command=jnp.zeros(()),
        )
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Joint targets (n,) in rad around those that hold the home pose against gravity.

        A target that arrives late leaves the motors the last one for part of the step; they get the mean of the two.
        """
        del world, key
        delayed = self.delayed(action, state.action, state.latency)
        state = dataclasses.replace(state, action=action, action_change=action - state.action)
        return jnp.asarray(self.layout.stance) + self.action_scale * delayed, state

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        wrench = state.push.wrench(self.model.nbody, self.layout.trunk)
        return Control(ctrl=self.targets(command), wrench=wrench), state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action
        dt = self.timing.control_dt
        commands, pushes = jax.random.split(key)
        touching = self.touch(world) > IN_CONTACT
        in_air = state.air_time + dt
        steps = state.steps + 1
        # The command of this step, not the one that may replace it below.
        error, speed = self._velocity_error(world, state), jnp.linalg.norm(state.command[:2])
        pose = standing.pose_of(world["position"], world["orientation"])
        return dataclasses.replace(
            state,
            command=jnp.where(state.standing.asked, 0.0, renew_command(self.velocities, state.command, dt, commands)),
            push=self.config.push.advanced(state.push, self.mass, dt, pushes, self.varied),
            air_time=jnp.where(touching, 0.0, in_air),
            landing=jnp.where(touching & (state.air_time > 0), in_air, 0.0),
            steps=steps,
            mean_error=state.mean_error + (error - state.mean_error) / steps,
            standing=standing.advanced(state.standing, pose, state.push.active, steps, dt),
            mean_command=state.mean_command + (speed - state.mean_command) / steps,
        )

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """The Playground's 48 numbers for the policy and 123 for the critic.

        `policy`, with noise and in the body frame: linvel (3) m/s, gyro (3) rad/s, gravity's direction (3), joint_pos
        (12) rad from home, joint_vel (12) rad/s, last_action (12), command (3). `critic`: those; the first five clean;
        accelerometer (3) m/s^2, angvel_w (3) rad/s, torque (12) N m, contact (4), foot_vel (12) m/s and air_time (4) s
        of the feet, push (2) m/s^2, push_wait (2): s until the next push, and whether one lasts; on rough ground also
        ground (21) m, how far it lies below the trunk on a grid around it.
        """
        clean, noisy = self.sense(world, state.encoder_bias, key, linvel=True)
        policy = {**noisy, "last_action": state.action, "command": state.command}
        hidden = {
            "clean_gyro": clean["gyro"],
            "accelerometer": world["accelerometer"],
            "clean_gravity": clean["gravity"],
            "clean_linvel": clean["linvel"],
            "angvel_w": world["angvel_w"],
            "clean_joint_pos": clean["joint_pos"],
            "clean_joint_vel": clean["joint_vel"],
            "torque": self.torques(world),
            "contact": (self.touch(world) > IN_CONTACT).astype(jnp.float32),
            "foot_vel": self.feet(world, "linvel_w").reshape(-1),
            "air_time": state.air_time,
            "push": jnp.where(state.push.active, state.push.force / self.mass, 0.0),
            "push_wait": jnp.stack([state.push.wait, state.push.active.astype(jnp.float32)]),
        }
        if self.ground.levels > 1:
            hidden["ground"] = self._scan(world)
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        sigma = self.config.tracking_sigma
        linvel, gyro, command = world["linvel"], world["gyro"], state.command
        offset = self.offset(world)
        foot_vel = self.feet(world, "linvel_w")
        foot_speed2 = jnp.sum(foot_vel[:, :2] ** 2, axis=1)
        feet = self.feet(world, "pos")
        clearance = feet[:, 2] - self.ground.height(feet[:, :2]) - self.robot.foot_radius - self.swing
        moving = jnp.linalg.norm(command) > 0.05
        touching = self.touch(world) > IN_CONTACT
        return {
            "tracking_linvel": gaussian_kernel(squared_norm(command[:2] - linvel[:2]), sigma),
            "tracking_yaw": gaussian_kernel((command[2] - gyro[2]) ** 2, sigma),
            "alive": 1.0 - self._fallen(world),
            "linvel_z": linvel[2] ** 2,
            "angvel_xy": squared_norm(gyro[:2]),
            "orientation": squared_norm(self.up_b(world)[:2]),
            "pose": jnp.exp(-jnp.sum(jnp.asarray(self.pose_weights) * offset**2)),
            "joint_limits": self.beyond_limits(world),
            "fall": self._fallen(world).astype(jnp.float32),
            "stand_still": jnp.sum(jnp.abs(offset)) * ~moving,
            "feet_up": jnp.mean(~touching) * ~moving,
            "creep": (jnp.sum(jnp.abs(linvel[:2])) + jnp.abs(gyro[2])) * ~moving,
            **self.effort(world, state.action_change),
            "foot_clearance": jnp.sum(jnp.abs(clearance) * foot_speed2**0.25) * moving,
            "foot_slip": jnp.sum(foot_speed2 * touching) * moving,
            "air_time": jnp.sum((state.landing - 0.1) * (state.landing > 0)) * moving / self.timing.control_dt,
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: on its feet and so far close to the commanded speed on average; failure: fallen."""
        fallen = self._fallen(world)
        return Outcome(success=~fallen & (state.mean_error < TRACKED), failure=fallen)

    metric_units: Mapping[str, str] = {"velocity_error": "m/s", "yaw_error": "rad/s", **standing.UNITS}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Mean planar velocity error m/s, mean turning error rad/s; on rough ground the level the episode began on.

        Of the episodes that ask for nothing but standing also how far the robot creeps.
        """
        errors = {
            "velocity_error": self._velocity_error(world, state),
            "yaw_error": jnp.abs(state.command[2] - world["gyro"][2]),
            **standing.metrics(state.standing),
        }
        return {**errors, "level": state.level.astype(jnp.float32)} if self.ground.levels > 1 else errors

    def _velocity_error(self, world: World, state: TaskState) -> Array:
        return jnp.linalg.norm(state.command[:2] - world["linvel"][:2])

    def _fallen(self, world: World) -> Array:
        return (world["upvector"][2] < FALLEN) | (self.height(world) < self.robot.height * self.lowest)

    def _scan(self, world: World) -> Array:
        """(21,) m, height of the trunk over the ground on a grid around it that turns with its heading."""
        x_axis = quat_rotate(world["orientation"], jnp.array([1.0, 0.0, 0.0]))[:2]
        forward = x_axis / jnp.maximum(jnp.linalg.norm(x_axis), 1e-6)
        sideways = jnp.stack([-forward[1], forward[0]])
        grid = jnp.asarray(SCAN)
        points = world["position"][:2] + grid[:, :1] * forward + grid[:, 1:] * sideways
        return world["position"][2] - self.ground.height(points)
