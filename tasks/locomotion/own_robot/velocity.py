"""`locomotion/velocity` and `-biped`: any legged robot, from its model file, follows a velocity command."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import ClassVar

from embodied.core.hooks import UNCHANGED, Changes
from embodied.robot.option import RobotFile
from embodied.robot.prepared.legged import GRAVITY
from tasks.locomotion.commands import CommandConfig
from tasks.locomotion.ground import Flat, Rough
from tasks.locomotion.humanoid_joystick import HumanoidConfig, HumanoidJoystick, RoughHumanoidJoystick
from tasks.locomotion.joystick import Joystick, JoystickConfig, TaskState
from tasks.locomotion.own_robot.base import OwnLegged, Terrain

GO1_HEIGHT, G1_HEIGHT = 0.278, 0.7842  # m of the trunk at home, of the robots for which commands and steps were chosen
GO1_EFFORT, G1_EFFORT = 12.74 * GRAVITY * GO1_HEIGHT, 33.34 * GRAVITY * G1_HEIGHT  # N m, their weight times height
SWING = 0.36  # of the height: how high a moving foot should be (Go1: 0.1 m)
BIPED_STEP = 0.115  # of the height: how high a biped lifts its feet (G1: 0.09 m)
BIPED_APART = 0.675  # of the feet's distance at home, below which they are too close (G1: 0.16 m)


@dataclasses.dataclass(frozen=True)
class VelocityConfig(JoystickConfig, RobotFile):
    """Options of `locomotion/velocity`."""

    terrain: Terrain = Terrain.FLAT
    """flat or rough ground."""
    froude: bool = True
    """Whether a robot lower than Go1 (0.278 m) is told to go slower, by the root of its height: so it moves alike."""

    def __post_init__(self) -> None:
        JoystickConfig.__post_init__(self)
        RobotFile.__post_init__(self)


@dataclasses.dataclass(frozen=True)
class BipedVelocityConfig(HumanoidConfig, RobotFile):
    """Options of `locomotion/velocity-biped`."""

    terrain: Terrain = Terrain.FLAT
    """flat or rough ground."""
    froude: bool = True
    """Whether a robot lower than G1 (0.784 m) is told to go slower, by the root of its height: so it moves alike."""

    def __post_init__(self) -> None:
        HumanoidConfig.__post_init__(self)
        RobotFile.__post_init__(self)


class Velocity(OwnLegged[TaskState], Joystick):
    """A user's legged robot follows forward, sideways and turning speed commands.

    Task, actions, observations, success and failure are those of Go1's joystick task, with as many joints and feet as
    the robot has. Go1's settings are scaled: height of the feet's swing and limit of a fall by the robot's height,
    weights of torque and power by weight times height, commands of lower robots by the root of the height.
    """

    config_type = VelocityConfig
    usual = "robots/go1/go1.xml"
    usual_effort = GO1_EFFORT
    other: ClassVar = {True: "locomotion/velocity-biped"}

    def __init__(self, config: VelocityConfig | None = None, changes: Changes = UNCHANGED) -> None:
        config = config or self.config_type()
        assert config is not None
        self.ground = Rough() if config.terrain is Terrain.ROUGH else Flat()
        super().__init__(config, changes)
        self.swing = SWING * self.robot.height

    @functools.cached_property
    def velocities(self) -> CommandConfig:  # type: ignore[override]  # a declaration that depends on the robot
        return slower(self.config, self.robot.height / GO1_HEIGHT)


class BipedVelocity(OwnLegged[TaskState], HumanoidJoystick):
    """A user's robot on two feet follows forward, sideways and turning speed commands, in step with a clock.

    Task, actions, observations, success and failure are those of G1's joystick task, with as many joints as the robot
    has. G1's settings are scaled: height of the steps and limit of a fall by the robot's height, their rate by its
    root, weights of torque and power by weight times height, the least distance of the feet by that at home.
    """

    config_type = BipedVelocityConfig
    usual = "robots/g1/g1.xml"
    usual_effort = G1_EFFORT
    other: ClassVar = {False: "locomotion/velocity"}
    soft_ankles: ClassVar = {}  # soft already: see `embodied.robot.prepared.legged`

    def __init__(self, config: BipedVelocityConfig | None = None, changes: Changes = UNCHANGED) -> None:
        config = config or self.config_type()
        assert config is not None
        self.ground = RoughHumanoidJoystick.ground if config.terrain is Terrain.ROUGH else Flat()
        super().__init__(config, changes)
        size = self.robot.height / G1_HEIGHT
        self.step_rate = HumanoidJoystick.step_rate / math.sqrt(size)
        self.step_height = BIPED_STEP * self.robot.height
        self.gait_width = HumanoidJoystick.gait_width * size**2
        self.feet_apart = BIPED_APART * self.prepared.feet_apart

    @functools.cached_property
    def velocities(self) -> CommandConfig:  # type: ignore[override]  # a declaration that depends on the robot
        return slower(self.config, self.robot.height / G1_HEIGHT)


def slower(config: VelocityConfig | BipedVelocityConfig, size: float) -> CommandConfig:
    """A config's commands, which go with the root of the robot's height, a fraction `size` of the default robot's.

    Robots of equal Froude number, speed over the root of gravity times height, move alike (Alexander and Jayes 1983).
    """
    if not config.froude or size >= 1:
        return config.command
    forward, sideways, turning = config.command.limits
    limits = forward * math.sqrt(size), sideways * math.sqrt(size), turning
    return dataclasses.replace(config.command, limits=limits)
