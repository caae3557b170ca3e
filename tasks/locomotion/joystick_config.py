"""Options of the joystick tasks."""

from __future__ import annotations

import dataclasses

from tasks.locomotion.commands import CommandConfig, PushConfig
from tasks.locomotion.legged import Noise, Variation


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
class JoystickConfig:
    """Options of the joystick tasks."""

    action_scale: float = 0.5
    """rad that an action of 1 moves a joint's target from its home pose; of joints with a `reach`, times that."""
    command: CommandConfig = dataclasses.field(default_factory=CommandConfig)
    """Velocity commands."""
    push: PushConfig = dataclasses.field(default_factory=PushConfig)
    """Pushes."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """What every episode draws anew."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""
    tracking_sigma: float = 0.25
    """m^2/s^2 and rad^2/s^2, width of the tracking rewards."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.action_scale <= 0 or self.tracking_sigma <= 0:
            raise ValueError(
                f"action_scale={self.action_scale} and tracking_sigma={self.tracking_sigma} must be positive"
            )
