"""`locomotion/*-joystick-flat`: a quadruped follows a velocity command, as from a joystick."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied import randomize
from embodied.rewards import gaussian_kernel, limit_violation, squared_norm
from embodied.rotations import quat_from_yaw, quat_rotate_inverse
from embodied.scenes import compose
from embodied.task import Observation, Task, Timing
from embodied.world import Control, Outcome, Start, World
from tasks.locomotion.commands import (
    CommandConfig,
    Push,
    PushConfig,
    advance_push,
    draw_command,
    draw_push,
    renew_command,
)
from tasks.locomotion.robots import GO1, Quadruped

TRACKED = 0.2  # m/s, mean planar velocity error below which an episode without a fall counts as solved
FALLEN = 0.34  # cos 70 degrees: the trunk's z axis leans further than a quadruped recovers from while walking
IN_CONTACT = 1.0  # N, smallest force that counts as a foot on the floor


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
    fall: float = -250.0
    """Once, when the robot falls: per second, so one control step of it."""
    stand_still: float = -0.5
    """Distance of the joints from home without a command, rad."""
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
class Noise:
    """Half-widths of the uniform observation noise (MuJoCo Playground's Go1)."""

    joint_pos: float = 0.03
    """rad."""
    joint_vel: float = 1.5
    """rad/s."""
    gyro: float = 0.2
    """rad/s."""
    gravity: float = 0.05
    """of a unit vector."""
    linvel: float = 0.1
    """m/s."""


@dataclasses.dataclass(frozen=True)
class JoystickConfig:
    """Options of the joystick tasks."""

    action_scale: float = 0.5
    """rad that an action of 1 moves a joint's target from its home pose."""
    command: CommandConfig = dataclasses.field(default_factory=CommandConfig)
    """Velocity commands."""
    push: PushConfig = dataclasses.field(default_factory=PushConfig)
    """Pushes."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    noise_level: float = 1.0
    """Factor on all observation noise; 0 switches it off."""
    encoder_bias: float = 0.02
    """rad, half-width of each joint encoder's constant error in an episode."""
    randomize: bool = True
    """Whether every episode draws its own masses, friction and motors."""
    tracking_sigma: float = 0.25
    """m^2/s^2 and rad^2/s^2, width of the tracking rewards."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.noise_level < 0 or self.action_scale <= 0 or self.tracking_sigma <= 0:
            raise ValueError(
                f"noise_level={self.noise_level} must not be negative; action_scale={self.action_scale} and "
                f"tracking_sigma={self.tracking_sigma} must be positive"
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """What one walking robot's episode carries along. Feet and joints in the robot's own order."""

    command: Array
    """(3,) forward m/s, sideways m/s, turning rad/s, in the body frame."""
    push: Push
    """What disturbs it."""
    encoder_bias: Array
    """(12,) rad."""
    action: Array
    """(12,) the last action."""
    action_change: Array
    """(12,) the last action minus the one before."""
    air_time: Array
    """(4,) s each foot has been off the floor."""
    landing: Array
    """(4,) s of air time that just ended, zero where no foot landed in this step."""
    steps: Array
    """() control steps so far."""
    mean_error: Array
    """() m/s, mean planar velocity error so far."""


class Joystick(Task[Memory]):
    """A quadruped on a flat floor follows forward, sideways and turning speed commands.

    Task: track the command, which changes every 5 s on average. Randomised at every reset: floor friction, masses,
    trunk payload and centre of mass, joint friction and armature, motor strength, encoder bias; pushed every 5 to 10
    seconds. Success: an episode of 20 s without a fall, with the planar velocity on average within 0.2 m/s of the
    command. Failure: the trunk leans more than 70 degrees or drops to a third of its height.

    Action: offset of the twelve joints' targets from the home pose.
    """

    robot: ClassVar[Quadruped] = GO1
    config_type = JoystickConfig
    config: JoystickConfig
    instruction = (
        "Walk as the joystick commands.",
        "Follow the given forward, sideways and turning speeds.",
        "Track the velocity command without falling.",
    )
    timing = Timing(physics_dt=0.004, substeps=5, episode_seconds=20.0)
    action_size = 12

    def __init__(self, config: JoystickConfig | None = None) -> None:
        """Look up the robot's parts in the model."""
        super().__init__(config)
        self.layout = self.robot.layout(self.model)
        self.mass = float(self.model.body_subtreemass[self.layout.trunk])
        middle, half = self.layout.limits.mean(axis=1), np.diff(self.layout.limits)[:, 0] / 2
        self.soft_limits = middle - 0.95 * half, middle + 0.95 * half
        self.terms = self._randomisation() if self.config.randomize else ()

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; see `Weights`."""
        return {name: self.timing.control_dt * w for name, w in dataclasses.asdict(self.config.weights).items()}

    def build_spec(self) -> mujoco.MjSpec:
        """The robot on a floor.

        Solver: with 4 iterations a shaken Go1's trunk stays within 4 mm of the converged solution after half a
        second (2 iterations: 14 mm) at the same speed; implicitfast with so few iterations can fall through the floor.
        """
        spec = compose("scenes/floor.xml", self.robot.asset)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        spec.option.iterations = 4
        spec.option.ls_iterations = 6
        return spec

    def reset(self, key: Array) -> Start[Memory]:
        """Near the home pose, at a random heading, moving a little."""
        layout = self.layout
        draw, fields = jax.random.split(key)
        pose, speed, bias, heading, command, push = jnp.split(jax.random.uniform(draw, (41,)), [12, 18, 30, 31, 37])
        quat = quat_from_yaw(2 * jnp.pi * heading[0])
        joints = layout.home * (0.8 + 0.4 * pose)
        base = jnp.concatenate([jnp.array([0.0, 0.0, self.robot.height + 0.02]), quat])
        qpos = (
            jnp.zeros(self.model.nq).at[layout.root_qpos : layout.root_qpos + 7].set(base).at[layout.qpos].set(joints)
        )
        qvel = jnp.zeros(self.model.nv).at[layout.root_qvel : layout.root_qvel + 6].set(speed - 0.5)
        memory = Memory(
            command=draw_command(self.config.command, command),
            push=draw_push(self.config.push, self.mass, push),
            encoder_bias=self.config.encoder_bias * (2 * bias - 1),
            action=jnp.zeros(12),
            action_change=jnp.zeros(12),
            air_time=jnp.zeros(4),
            landing=jnp.zeros(4),
            steps=jnp.zeros(()),
            mean_error=jnp.zeros(()),
        )
        return Start(qpos, qvel, memory, randomize.draw(self.model, self.terms, fields))

    def _randomisation(self) -> tuple[randomize.Term, ...]:
        """What differs between episodes (ranges of MuJoCo Playground's Go1)."""
        model, layout = self.model, self.layout
        floor, moving = [model.geom("floor").id], list(range(1, model.nbody))
        return (
            randomize.scale("floor_friction", "geom_friction", 0.4 / 0.6, 1.0 / 0.6, floor),
            randomize.scale_bodies("link_mass", 0.9, 1.1, moving),
            randomize.offset("payload", "body_mass", -1.0, 1.0, [layout.trunk]),
            randomize.offset("centre_of_mass", "body_ipos", -0.05, 0.05, [layout.trunk]),
            randomize.scale("joint_friction", "dof_frictionloss", 0.9, 1.1, list(layout.qvel)),
            randomize.scale("armature", "dof_armature", 1.0, 1.05, list(layout.qvel)),
            randomize.scale_servos("motor_strength", 0.9, 1.1, list(layout.actuators)),
        )

    def act(self, world: World, memory: Memory, action: Array, key: Array) -> tuple[Array, Memory]:
        """Joint targets (12,) in rad around those that hold the home pose against gravity."""
        del world, key
        memory = dataclasses.replace(memory, action=action, action_change=action - memory.action)
        return jnp.asarray(self.layout.stance) + self.config.action_scale * action, memory

    def actuate(self, world: World, memory: Memory, command: Array) -> tuple[Control, Memory]:
        """Servo targets, and the push while one lasts."""
        del world
        force = jnp.where(memory.push.active, memory.push.force, 0.0)
        wrench = jnp.zeros((self.model.nbody, 6)).at[self.layout.trunk, :2].set(force)
        return Control(ctrl=jnp.zeros(self.model.nu).at[self.layout.actuators].set(command), wrench=wrench), memory

    def update(self, world: World, memory: Memory, action: Array, key: Array) -> Memory:
        """Count air time; go on with command and push."""
        del action
        dt = self.timing.control_dt
        commands, pushes = jax.random.split(key)
        touching = self._touch(world) > IN_CONTACT
        in_air = memory.air_time + dt
        steps = memory.steps + 1
        # The command of this step, not the one that may replace it below.
        error = self._velocity_error(world, memory)
        return dataclasses.replace(
            memory,
            command=renew_command(self.config.command, memory.command, dt, commands),
            push=advance_push(self.config.push, memory.push, self.mass, dt, pushes),
            air_time=jnp.where(touching, 0.0, in_air),
            landing=jnp.where(touching & (memory.air_time > 0), in_air, 0.0),
            steps=steps,
            mean_error=memory.mean_error + (error - memory.mean_error) / steps,
        )

    def observe(self, world: World, memory: Memory, key: Array) -> Observation:
        """The Playground's 48 numbers for the policy and 123 for the critic.

        `policy`, with noise and in the body frame: linvel (3) m/s, gyro (3) rad/s, gravity's direction (3), joint_pos
        (12) rad from home, joint_vel (12) rad/s, last_action (12), command (3). `critic`: those; the first five clean;
        accelerometer (3) m/s^2, angvel_w (3) rad/s, torque (12) N m, contact (4), foot_vel (12) m/s and air_time (4) s
        of the feet, push (2) m/s^2, push_wait (2): s until the next push, and whether one lasts.
        """
        layout, noise = self.layout, self.config.noise
        clean = {
            "linvel": world["linvel"],
            "gyro": world["gyro"],
            "gravity": -self._up_b(world),
            "joint_pos": world.qpos[layout.qpos] - layout.home,
            "joint_vel": world.qvel[layout.qvel],
        }
        drawn = jnp.split(2 * jax.random.uniform(key, (33,)) - 1, [3, 6, 9, 21])
        noisy = {
            name: value + self.config.noise_level * getattr(noise, name) * z
            for (name, value), z in zip(clean.items(), drawn, strict=True)
        }
        noisy["joint_pos"] = noisy["joint_pos"] + memory.encoder_bias
        policy = {**noisy, "last_action": memory.action, "command": memory.command}
        hidden = {
            "clean_gyro": clean["gyro"],
            "accelerometer": world["accelerometer"],
            "clean_gravity": clean["gravity"],
            "clean_linvel": clean["linvel"],
            "angvel_w": world["angvel_w"],
            "clean_joint_pos": clean["joint_pos"],
            "clean_joint_vel": clean["joint_vel"],
            "torque": self._torques(world),
            "contact": (self._touch(world) > IN_CONTACT).astype(jnp.float32),
            "foot_vel": self._feet(world, "linvel_w").reshape(-1),
            "air_time": memory.air_time,
            "push": jnp.where(memory.push.active, memory.push.force / self.mass, 0.0),
            "push_wait": jnp.stack([memory.push.wait, memory.push.active.astype(jnp.float32)]),
        }
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, memory: Memory, action: Array) -> Mapping[str, Array]:
        """See `Weights`."""
        del action
        layout, sigma = self.layout, self.config.tracking_sigma
        linvel, gyro, command = world["linvel"], world["gyro"], memory.command
        offset = world.qpos[layout.qpos] - layout.home
        torque = self._torques(world)
        foot_vel = self._feet(world, "linvel_w")
        foot_speed2 = jnp.sum(foot_vel[:, :2] ** 2, axis=1)
        clearance = self._feet(world, "pos")[:, 2] - self.robot.foot_radius - 0.1
        moving = jnp.linalg.norm(command) > 0.05
        touching = self._touch(world) > IN_CONTACT
        return {
            "tracking_linvel": gaussian_kernel(squared_norm(command[:2] - linvel[:2]), sigma),
            "tracking_yaw": gaussian_kernel((command[2] - gyro[2]) ** 2, sigma),
            "alive": 1.0 - self._fallen(world),
            "linvel_z": linvel[2] ** 2,
            "angvel_xy": squared_norm(gyro[:2]),
            "orientation": squared_norm(self._up_b(world)[:2]),
            "pose": jnp.exp(-jnp.sum(jnp.tile(jnp.array([1.0, 1.0, 0.1]), 4) * offset**2)),
            "joint_limits": jnp.sum(limit_violation(world.qpos[layout.qpos], *self.soft_limits)),
            "fall": self._fallen(world).astype(jnp.float32),
            "stand_still": jnp.sum(jnp.abs(offset)) * ~moving,
            "torques": jnp.sqrt(jnp.sum(torque**2)) + jnp.sum(jnp.abs(torque)),
            "energy": jnp.sum(jnp.abs(torque * world.qvel[layout.qvel])),
            "action_rate": squared_norm(memory.action_change),
            "foot_clearance": jnp.sum(jnp.abs(clearance) * foot_speed2**0.25) * moving,
            "foot_slip": jnp.sum(foot_speed2 * touching) * moving,
            "air_time": jnp.sum((memory.landing - 0.1) * (memory.landing > 0)) * moving / self.timing.control_dt,
        }

    def outcome(self, world: World, memory: Memory) -> Outcome:
        """Success: on its feet and so far close to the commanded speed on average; failure: fallen."""
        fallen = self._fallen(world)
        return Outcome(success=~fallen & (memory.mean_error < TRACKED), failure=fallen)

    def metrics(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """Mean planar velocity error in m/s and mean turning error in rad/s."""
        return {
            "velocity_error": self._velocity_error(world, memory),
            "yaw_error": jnp.abs(memory.command[2] - world["gyro"][2]),
        }

    def _velocity_error(self, world: World, memory: Memory) -> Array:
        return jnp.linalg.norm(memory.command[:2] - world["linvel"][:2])

    def _fallen(self, world: World) -> Array:
        return (world["upvector"][2] < FALLEN) | (world["position"][2] < self.robot.height / 3)

    def _up_b(self, world: World) -> Array:
        """(3,) the world's z axis in the body frame."""
        return quat_rotate_inverse(world["orientation"], jnp.array([0.0, 0.0, 1.0]))

    def _touch(self, world: World) -> Array:
        """(4,) N on each foot."""
        return jnp.concatenate([world[f"{leg}_foot_touch"] for leg in self.robot.legs])

    def _feet(self, world: World, what: str) -> Array:
        """(4, 3) a sensor of every foot."""
        return jnp.stack([world[f"{leg}_foot_{what}"] for leg in self.robot.legs])

    def _torques(self, world: World) -> Array:
        """(12,) N m."""
        return jnp.concatenate([world[f"{joint}_torque"] for joint in self.robot.joint_names])
