"""`locomotion/velocity`: any legged robot, from its model file, follows a velocity command."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import mujoco

from embodied.robot import Robot
from embodied.robot.prepared import Prepared, prepare_legged
from embodied.storage.paths import asset
from tasks.locomotion.ground import Flat, Rough
from tasks.locomotion.joystick import Joystick, JoystickConfig
from tasks.locomotion.robots import LeggedRobot

GO1 = "robots/go1/go1.xml"  # the robot without a file of one's own
GO1_EFFORT = 12.74 * 9.81 * 0.278  # N m: weight times height of the robot that the reward's weights were chosen for
SWING = 0.36  # of the height: how high a moving foot should be (Go1: 0.1 m)
EFFORTS = ("torques", "energy")
"""Terms of the reward that grow with the robot's weight and height."""


class Terrain(StrEnum):
    """What the robot walks on."""

    FLAT = "flat"
    ROUGH = "rough"


@dataclasses.dataclass(frozen=True)
class VelocityConfig(JoystickConfig):
    """Options of `locomotion/velocity`."""

    robot: str = ""
    """MJCF or URDF file of a legged robot (see docs/own_robot.md); by default Go1's."""
    terrain: Terrain = Terrain.FLAT
    """flat or rough ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.robot:  # a run finds the file wherever it is gone on with
            object.__setattr__(self, "robot", str(Path(self.robot).resolve()))


class Velocity(Joystick):
    """A legged robot of one's own follows forward, sideways and turning speed commands.

    Task, actions, observations, success and failure are those of Go1's joystick task, with as many joints and feet as
    the robot has. What was chosen for Go1 is scaled: height of the feet's swing and limit of a fall by the robot's
    height, weights of torque and power by weight times height. Actions move the joints' targets around those that hold
    the robot in its home pose.
    """

    config_type = VelocityConfig

    def __init__(self, config: VelocityConfig | None = None) -> None:
        """Read the robot's file.

        Raises:
            ModelError: the file cannot be read or is not understood, or its servos do not hold the robot up.
        """
        config = config or VelocityConfig()
        file = Path(config.robot) if config.robot else asset(GO1)
        description = file.parent / "robot.toml"
        changed = description.stat().st_mtime_ns if description.exists() else 0
        robot, self.prepared = understood(file, file.stat().st_mtime_ns if file.exists() else 0, changed)
        self.effort_scale = GO1_EFFORT / (robot.mass * 9.81 * self.prepared.height)
        self.swing = SWING * self.prepared.height
        self.ground = Rough() if config.terrain is Terrain.ROUGH else Flat()
        self.robot = LeggedRobot(
            name=file.stem,
            asset=str(file),
            trunk=robot.trunk,
            joint_names=tuple(joint.name for joint in robot.joints),
            feet=self.prepared.feet,
            foot_radius=self.prepared.foot_radius,
            height=self.prepared.height,
            pose_weights=self.prepared.pose_weights,
        )
        super().__init__(config)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        weights = super().reward_weights
        return {name: value * (self.effort_scale if name in EFFORTS else 1.0) for name, value in weights.items()}

    def compose(self) -> mujoco.MjSpec:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "robot.xml"
            file.write_text(self.prepared.xml)
            return self.ground.compose(str(file))


@functools.lru_cache(maxsize=8)
def understood(file: Path, changed: int, described: int) -> tuple[Robot, Prepared]:
    """A robot and its MJCF for tasks; read again when the file or its description changed (times in ns)."""
    del changed, described
    robot = Robot.load(file)
    return robot, prepare_legged(robot)
