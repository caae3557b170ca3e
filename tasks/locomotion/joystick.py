"""`locomotion/*-joystick-*`: a quadruped follows a velocity command, as from a joystick, on flat or rough ground."""

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
from embodied.errors import UnknownNameError
from embodied.rewards import gaussian_kernel, limit_violation, squared_norm
from embodied.rotations import quat_from_yaw, quat_rotate, quat_rotate_inverse
from embodied.sampling import between
from embodied.task import Observation, Task, Timing
from embodied.world import Control, Outcome, Start, World
from tasks.locomotion.commands import Push, advance_push, draw_command, draw_push, renew_command
from tasks.locomotion.ground import Flat, Rough
from tasks.locomotion.joystick_config import JoystickConfig
from tasks.locomotion.robots import GO1, Quadruped

TRACKED = 0.2  # m/s, mean planar velocity error below which an episode without a fall counts as solved
FALLEN = 0.34  # cos 70 degrees: the trunk's z axis leans further than a quadruped recovers from while walking
MASTERED = 0.3  # m/s, mean planar velocity error below which a robot moves on to harder ground
IN_CONTACT = 1.0  # N, smallest force that counts as a foot on the floor

SCAN = np.stack(np.meshgrid(np.linspace(-0.6, 0.6, 7), [-0.25, 0.0, 0.25], indexing="ij"), -1).reshape(-1, 2)
"""(21, 2) m, forward and sideways: where the critic is told the height of rough ground."""
OTHER_VARIATIONS = ("latency", "encoder_bias", "push", "observation_noise")
"""What differs between episodes besides the model's own fields."""


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
    latency: Array
    """() s that targets take to reach the motors."""
    level: Array
    """() int32 how hard the ground was where the episode began; 0 is easy."""
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
    """A quadruped follows forward, sideways and turning speed commands.

    Task: track the command, which changes every 5 s on average. Randomised at every reset: see `variations`. Success:
    an episode of 20 s without a fall, with the planar velocity on average within 0.2 m/s of the command. Failure: the
    trunk leans more than 70 degrees or drops to a third of its height above the ground.

    On rough ground a robot that lived through its episode and tracked well begins the next one on harder ground, one
    that fell on easier; from the hardest level it goes on at any.

    Action: offset of the twelve joints' targets from the home pose.
    """

    robot: ClassVar[Quadruped] = GO1
    ground: ClassVar[Flat | Rough] = Flat()
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
        terms = self._field_terms()
        known = (*(term.name for term in terms), *OTHER_VARIATIONS)
        left_out = set(known if "all" in self.config.without else self.config.without)
        for name in sorted(left_out - set(known)):
            raise UnknownNameError("variation", name, (*known, "all"))
        self.field_terms = tuple(term for term in terms if term.name not in left_out)
        self._varied = frozenset(known) - left_out

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; see `Weights`."""
        return {name: self.timing.control_dt * w for name, w in dataclasses.asdict(self.config.weights).items()}

    def build_spec(self) -> mujoco.MjSpec:
        """The robot on its ground.

        Solver: with 4 iterations a shaken Go1's trunk stays within 4 mm of the converged solution after half a
        second (2 iterations: 14 mm) at the same speed; implicitfast with so few iterations can fall through the floor.
        """
        spec = self.ground.compose(self.robot.asset)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        spec.option.iterations = 4
        spec.option.ls_iterations = 6
        return spec

    def reset(self, key: Array) -> Start[Memory]:
        """Near the home pose, at a random heading, moving a little; on rough ground at any level."""
        draw, level = jax.random.split(key)
        return self._start(draw, jax.random.randint(level, (), 0, self.ground.levels))

    def restart(self, key: Array, memory: Memory) -> Start[Memory]:
        """As `reset`, but on harder ground after a good episode and on easier ground after a fall."""
        draw, level = jax.random.split(key)
        lived = memory.steps >= self.timing.max_steps
        rise = jnp.where(lived, (memory.mean_error < MASTERED).astype(jnp.int32), -1)
        anywhere = jax.random.randint(level, (), 0, self.ground.levels)
        following = jnp.maximum(memory.level + rise, 0)
        return self._start(draw, jnp.where(following < self.ground.levels, following, anywhere))

    def _start(self, key: Array, level: Array) -> Start[Memory]:
        layout, vary = self.layout, self.config.vary
        draw, fields = jax.random.split(key)
        sizes = np.cumsum([12, 6, 12, 1, 6, 4, 4])
        pose, speed, bias, heading, command, push, place, latency = jnp.split(
            jax.random.uniform(draw, (sizes[-1] + 1,)), sizes
        )
        xy = self.ground.place(place, level)
        height = self.ground.clear_height(xy) + self.robot.height + 0.02
        base = jnp.concatenate([xy, height[None], quat_from_yaw(2 * jnp.pi * heading[0])])
        joints = layout.home * (0.8 + 0.4 * pose)
        qpos = (
            jnp.zeros(self.model.nq).at[layout.root_qpos : layout.root_qpos + 7].set(base).at[layout.qpos].set(joints)
        )
        qvel = jnp.zeros(self.model.nv).at[layout.root_qvel : layout.root_qvel + 6].set(speed - 0.5)
        memory = Memory(
            command=draw_command(self.config.command, command),
            push=draw_push(self.config.push, self.mass * ("push" in self._varied), push),
            encoder_bias=between(vary.encoder_bias, bias) * ("encoder_bias" in self._varied),
            latency=between(vary.latency, latency[0]) * ("latency" in self._varied),
            level=level,
            action=jnp.zeros(12),
            action_change=jnp.zeros(12),
            air_time=jnp.zeros(4),
            landing=jnp.zeros(4),
            steps=jnp.zeros(()),
            mean_error=jnp.zeros(()),
        )
        return Start(qpos, qvel, memory, randomize.draw(self.model, self.field_terms, fields))

    @property
    def variations(self) -> Mapping[str, str]:
        """Name -> what differs between episodes; `config.without` leaves them out by these names."""
        vary, push = self.config.vary, self.config.push
        drawn = {term.name: term.description for term in self._field_terms()} | {
            "latency": f"targets reach the motors U{vary.latency} s late",
            "encoder_bias": f"every joint angle is read with an error of U{vary.encoder_bias} rad",
            "push": f"pushed by up to {push.speed} m/s every {push.interval[0]:g} to {push.interval[1]:g} s",
            "observation_noise": "uniform noise on every reading, see config.noise",
        }
        return {name: what for name, what in drawn.items() if name in self._varied}

    def _field_terms(self) -> tuple[randomize.Term, ...]:
        """What an episode draws of the model itself."""
        model, layout, vary = self.model, self.layout, self.config.vary
        ground = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] == 0]
        standard = float(model.geom("floor").friction[0])
        moving, trunk, joints = list(range(1, model.nbody)), [layout.trunk], list(layout.qvel)
        friction = (vary.floor_friction[0] / standard, vary.floor_friction[1] / standard)
        return (
            randomize.scale("floor_friction", "geom_friction", *friction, ground, shared=True),
            randomize.scale_bodies("link_mass", *vary.link_mass, moving),
            randomize.offset("payload", "body_mass", *vary.payload, trunk),
            randomize.offset("centre_of_mass", "body_ipos", *vary.centre_of_mass, trunk),
            randomize.scale("joint_friction", "dof_frictionloss", *vary.joint_friction, joints),
            randomize.scale("armature", "dof_armature", *vary.armature, joints),
            randomize.scale_servos("motor_strength", *vary.motor_strength, list(layout.actuators)),
        )

    def act(self, world: World, memory: Memory, action: Array, key: Array) -> tuple[Array, Memory]:
        """Joint targets (12,) in rad around those that hold the home pose against gravity.

        A target that arrives late leaves the motors the last one for part of the step; they get the mean of the two.
        """
        del world, key
        late = memory.latency / self.timing.control_dt
        delayed = action + late * (memory.action - action)
        memory = dataclasses.replace(memory, action=action, action_change=action - memory.action)
        return jnp.asarray(self.layout.stance) + self.config.action_scale * delayed, memory

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
            push=advance_push(self.config.push, memory.push, self.mass * ("push" in self._varied), dt, pushes),
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
            name: value + getattr(noise, name) * z * ("observation_noise" in self._varied)
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
        if self.ground.levels > 1:
            hidden["ground"] = self._scan(world)
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
        feet = self._feet(world, "pos")
        clearance = feet[:, 2] - self.ground.height(feet[:, :2]) - self.robot.foot_radius - 0.1
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
        above = world["position"][2] - self.ground.height(world["position"][:2])
        return (world["upvector"][2] < FALLEN) | (above < self.robot.height / 3)

    def _scan(self, world: World) -> Array:
        """(21,) m, height of the trunk over the ground on a grid around it that turns with its heading."""
        x_axis = quat_rotate(world["orientation"], jnp.array([1.0, 0.0, 0.0]))[:2]
        forward = x_axis / jnp.maximum(jnp.linalg.norm(x_axis), 1e-6)
        sideways = jnp.stack([-forward[1], forward[0]])
        grid = jnp.asarray(SCAN)
        points = world["position"][:2] + grid[:, :1] * forward + grid[:, 1:] * sideways
        return world["position"][2] - self.ground.height(points)

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


class RoughJoystick(Joystick):
    """The joystick task on slopes, bumps, stairs and blocks."""

    ground = Rough()

    def metrics(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """Also the level of the ground the episode began on."""
        return {**super().metrics(world, memory), "level": memory.level.astype(jnp.float32)}
