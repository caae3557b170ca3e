"""Base of the tasks of users' legged robots: the robot of a file, and settings from its size and weight."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import mujoco

from embodied.core.hooks import UNCHANGED, Changes
from embodied.errors import ModelError
from embodied.robot.prepared.legged import GRAVITY, legged_of
from embodied.robot.prepared.roles import Role
from embodied.storage.paths import asset
from tasks.locomotion.legged import LeggedTask
from tasks.locomotion.robots import LeggedRobot

M = TypeVar("M")

EFFORTS = ("torques", "energy")
"""Terms of the reward that grow with the robot's weight and height."""
STIFF = 2.0  # times its largest torque that an action of 1 may command of a joint's servo at most

QUADRUPED_POSE = {role: 0.1 if role in (Role.KNEE, Role.ANKLE_PITCH) else 1.0 for role in Role}
"""Weight of a joint's distance from the home pose: knees must bend (Go1's)."""
BIPED_POSE = {
    Role.HIP: 0.01,
    Role.KNEE: 0.01,
    Role.ANKLE_PITCH: 0.1,
    Role.ANKLE: 0.5,
    Role.LEG: 1.0,
    Role.TRUNK: 1.0,
    Role.TRUNK_YAW: 1.0,
    Role.ARM_PITCH: 0.2,
    Role.ARM: 0.5,
}
"""The same on two feet: legs swing freely, but neither spread nor turn; waist and arms keep still (G1's)."""
BIPED_REACH = {
    Role.HIP: 1.0,
    Role.KNEE: 1.0,
    Role.ANKLE_PITCH: 1.0,
    Role.ANKLE: 0.6,
    Role.LEG: 0.6,
    Role.TRUNK: 0.1,
    Role.TRUNK_YAW: 0.2,
    Role.ARM_PITCH: 0.4,
    Role.ARM: 0.2,
}
"""Reach of an action on a joint's target: exploring with torso and arms would shake a biped off its feet (G1's)."""


class Terrain(StrEnum):
    """Ground that the robot walks on."""

    FLAT = "flat"
    ROUGH = "rough"


class OwnLegged(LeggedTask[M]):
    """A legged task on the robot of a file.

    Weights of torque and power go with the robot's weight times height, the reach of actions with its servos. Actions
    move the joints' targets around those that hold the robot in its home pose.
    """

    config: Any  # one with the fields of an `embodied.robot.option.RobotFile`
    usual: ClassVar[str]
    """Default asset, without a user's file."""
    usual_effort: ClassVar[float]
    """N m, weight times height of the robot for which the rewards' weights were chosen."""
    other: ClassVar[Mapping[bool, str]] = {}
    """Whether a robot has two feet -> the task for it, if it is not this one."""

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        """Read the robot's file.

        Raises:
            ModelError: the file cannot be read or is not understood, its servos do not hold the robot up, or another
                task is for its number of feet.
        """
        config = config or self.config_type()
        file = Path(config.robot) if config.robot else asset(self.usual)
        robot, self.prepared = legged_of(file)
        if (fitting := self.other.get(self.prepared.is_biped)) is not None:
            feet = len(robot.feet)
            raise ModelError(f"{file} stands on {feet} feet ({', '.join(robot.feet)}): {fitting} is for it (key feet)")
        self.effort_scale = self.usual_effort / (robot.mass * GRAVITY * self.prepared.height)
        roles = self.prepared.roles
        reach = [BIPED_REACH[role] if self.prepared.is_biped else 1.0 for role in roles]
        scale = config.action_scale
        pairs = zip(robot.joints, self.prepared.stiffness, strict=True)
        furthest = [STIFF * joint.servo.effort / (scale * stiffness) for joint, stiffness in pairs]
        self.robot = LeggedRobot(
            name=file.stem,
            asset=str(file),
            trunk=robot.trunk,
            joint_names=tuple(joint.name for joint in robot.joints),
            feet=self.prepared.feet,
            foot_radius=self.prepared.foot_radius,
            height=self.prepared.height,
            pose_weights=tuple((BIPED_POSE if self.prepared.is_biped else QUADRUPED_POSE)[role] for role in roles),
            reach=tuple(min(pair) for pair in zip(reach, furthest, strict=True)),
        )
        super().__init__(config, changes)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        weights = super().reward_weights
        return {name: value * (self.effort_scale if name in EFFORTS else 1.0) for name, value in weights.items()}

    def compose(self) -> mujoco.MjSpec:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "robot.xml"
            file.write_text(self.prepared.xml)
            return self.ground.compose(str(file))
