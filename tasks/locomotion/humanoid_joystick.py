"""`locomotion/g1-joystick-*`, `velocity-biped`: a humanoid follows a velocity command, in step with a clock."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Operator, TermDescription
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.world import World
from embodied.math.rewards import squared_norm
from embodied.math.symmetry import Reflection, unchanged
from embodied.parts.pushes import Pushes
from embodied.robot.option import RobotPath
from embodied.robot.prepared.roles import Role
from tasks.locomotion.ground import Rough, Terrain
from tasks.locomotion.joystick import CommandConfig, Joystick, JoystickConfig, TaskState, Weights
from tasks.locomotion.legged import IN_CONTACT
from tasks.locomotion.robots import BIPED_POSE, G1

STEP_RATE = 1.4  # steps/s of each foot; MuJoCo Playground's G1 draws U(1.25, 1.5)
SWING = 0.09  # m, height of a foot in the middle of its swing (Playground's G1)
ROUGH_SWING = 0.15  # m (Playground's G1): 9 cm, as on the flat, does not clear a stair of 10
FEET_APART = 0.16  # m from foot to foot, below which the G1 steps on its own feet
GAIT_WIDTH = 0.005  # m^2, width of the reward for the feet's heights
STEP = 0.115  # of the height: how high a biped lifts its feet (G1: 0.09 m)
APART = 0.675  # of the feet's distance at home, below which they are too close (G1: 0.16 m)
ANKLES = (Role.ANKLE, Role.ANKLE_PITCH)
SOFT_ANKLES = (40.0, 2.0)
"""kp N m/rad and kv N m s/rad of the ankles of a robot that balances by stepping (unitree_rl_gym's G1)."""
SOFTER = 1.1  # times kp: ankles that are stiffer become soft; those of files that were rewritten are soft already


@dataclasses.dataclass(frozen=True)
class HumanoidWeights(Weights):
    """Weights of the reward terms per second (MuJoCo Playground's G1 terms, weighted for short training)."""

    tracking_linvel: float = 3.0
    tracking_yaw: float = 1.5
    alive: float = 1.0
    linvel_z: float = -0.5
    angvel_xy: float = -0.15
    orientation: float = -4.0
    pose: float = 0.5
    fall: float = -250.0
    stand_still: float = -0.2
    feet_up: float = 0.0
    torques: float = -5e-5
    energy: float = -2e-4
    action_rate: float = -0.01
    foot_clearance: float = 0.0
    foot_slip: float = -0.2
    air_time: float = 0.0
    gait: float = 1.5
    """Closeness of the feet's heights to the clock's, in [0, 1]."""
    contact: float = 0.5
    """Fraction of the feet that are on the ground when the clock says so, and off it when not."""
    feet_level: float = -0.5
    """Squared horizontal part of the soles' normals."""
    feet_apart: float = -2.0
    """m by which the feet are closer together than they may be (G1: 16 cm)."""


@dataclasses.dataclass(frozen=True)
class HumanoidConfig(JoystickConfig):
    """Options of the humanoid's joystick tasks."""

    robot: RobotPath = "g1"
    command: CommandConfig = dataclasses.field(default_factory=lambda: CommandConfig(limits=(1.0, 0.4, 0.8)))
    push: Pushes = dataclasses.field(default_factory=lambda: Pushes(speed=0.3))
    weights: HumanoidWeights = dataclasses.field(default_factory=HumanoidWeights)


class HumanoidJoystick(Joystick):
    """A humanoid follows forward, sideways and turning speed commands, in step with a clock.

    Task: track the command, which changes every 5 s on average; without one, stand. Randomised at every reset: see
    `variations`. Success: an episode of 20 s without a fall, with the planar velocity on average within 0.2 m/s of the
    command. Failure: the pelvis leans more than 70 degrees or drops below 60 % of its height above the ground.

    Action: offset of the joints' targets from the home pose.

    Settings were chosen for G1. With `scaled`, the height of the steps goes with the robot's height, their rate with
    its root, the least distance of the feet with that at home, and weights of torque and power with weight and height.
    """

    config_type = HumanoidConfig
    chosen_for = G1
    other: ClassVar[Mapping[bool, str]] = {False: "locomotion/velocity"}
    pose = BIPED_POSE
    rough = Rough(max_slope=0.3, max_noise=0.05, max_step=0.1, max_block=0.1)
    lowest: ClassVar[float] = 0.6
    step_rate: float = STEP_RATE
    """Steps/s of each foot."""
    step_height: float = SWING
    """m of a foot over the ground in the middle of its swing."""
    feet_apart: float = FEET_APART
    """m between the feet, at least."""
    gait_width: float = GAIT_WIDTH
    """m^2, width of the reward for the feet's heights."""
    timing = Timing(physics_dt=0.004, substeps=5, episode_seconds=20.0)

    def __init__(self, config: HumanoidConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        if self.config.terrain is Terrain.ROUGH:
            self.step_height = ROUGH_SWING
        if self.config.scaled:
            self.step_rate = STEP_RATE / math.sqrt(self.size)
            self.step_height = STEP * self.robot.height
            self.gait_width = GAIT_WIDTH * self.size**2
            self.feet_apart = APART * self.robot.feet_apart

    def build_spec(self) -> mujoco.MjSpec:
        """The robot on its ground, with softer ankles than its keyframe needs to stand unattended."""
        spec = super().build_spec()
        home = spec.key("home")
        kp, kv = (number / self.effort_scale for number in SOFT_ANKLES)
        ankles = {
            joint.name: joint
            for joint, role in zip(self.robot.source.joints, self.robot.roles, strict=True)
            if role in ANKLES
        }
        for index, servo in enumerate(spec.actuators):
            joint, stiffness = ankles.get(servo.name), servo.gainprm[0]
            if joint is not None and stiffness > SOFTER * kp:
                # The target lies ahead of the pose by static torque / kp.
                home.ctrl[index] = joint.home + (home.ctrl[index] - joint.home) * stiffness / kp
                servo.gainprm[0], servo.biasprm[1], servo.biasprm[2] = kp, -kp, -kv
        return spec

    @functools.cached_property
    def operator(self) -> Operator:
        phase = TermDescription(
            "1",
            "cosines of the phases of the left and the right foot, then their sines; the right foot is half a turn "
            f"ahead, {self.step_rate:g} turns a second; all phases are 0 while the command is shorter than 0.05",
        )
        walking = super().operator
        deployment = dataclasses.replace(walking.deployment, terms={**walking.deployment.terms, "phase": phase})
        return dataclasses.replace(walking, deployment=deployment)

    def further_reflections(self, joints: Reflection, feet: Reflection) -> Mapping[str, Reflection]:
        return {**super().further_reflections(joints, feet), "phase": unchanged(2).rows(feet)}

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """The Playground's 103 numbers for the policy, and more for the critic.

        `policy`, with noise and in the pelvis's frame: linvel (3) m/s, gyro (3) rad/s, gravity's direction (3),
        joint_pos (29) rad from home, joint_vel (29) rad/s, last_action (29), command (3), phase (4): cosines and sines
        of both feet's clocks. `critic`: those; the first five clean; accelerometer (3) m/s^2, angvel_w (3) rad/s,
        torque (29) N m, contact (2), foot_vel (6) m/s and air_time (2) s of the feet, push (2) m/s^2, push_wait (2): s
        until the next push, and whether one lasts; on rough ground also ground (21) m, how far it lies below the pelvis
        on a grid around it.
        """
        observation = super().observe(world, state, key)
        phase = self._phase(state)
        clock = jnp.concatenate([jnp.cos(phase), jnp.sin(phase)])
        return {group: {**terms, "phase": clock} for group, terms in observation.items()}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        moving = self._moving(state)
        swing = jnp.where(moving, jnp.maximum(jnp.sin(self._phase(state)), 0.0), 0.0)
        feet = self.feet(world, "pos")
        height = feet[:, 2] - self.ground.height(feet[:, :2]) - self.robot.foot_radius
        touching = self.touch(world) > IN_CONTACT
        level = self.feet(world, "upvector")[:, :2]
        distance = jnp.linalg.norm(feet[0, :2] - feet[1, :2])
        return {
            **super().rewards(world, state, action),
            "gait": jnp.exp(-squared_norm(height - self.step_height * swing**2) / self.gait_width),
            "contact": jnp.mean((touching == (swing < 0.1)).astype(jnp.float32)),
            "feet_level": jnp.sum(level**2),
            "feet_apart": jnp.maximum(self.feet_apart - distance, 0.0),
        }

    def _moving(self, state: TaskState) -> Array:
        """() bool, whether the command is to go anywhere."""
        return jnp.linalg.norm(state.command) > 0.05

    def _phase(self, state: TaskState) -> Array:
        """(2,) rad, of the left and the right foot, which swings while it is between 0 and pi; zero while standing."""
        phase = 2 * jnp.pi * self.step_rate * self.timing.control_dt * state.steps
        return jnp.where(self._moving(state), phase + np.array([0.0, np.pi], np.float32), 0.0)
