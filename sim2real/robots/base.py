"""`Robot`: what deployment asks of a robot, simulated or real."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from embodied.errors import EmbodiedError


class RobotError(EmbodiedError):
    """A robot that cannot be reached, or is not the one the bundle was made for."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What a robot measured last. Arrays are float64; a part the robot lacks is None."""

    time: float
    """s, on the robot's clock (`Robot.now`), when it was measured."""
    joint_pos: np.ndarray | None = None
    """(n,) rad, in the contract's order."""
    joint_vel: np.ndarray | None = None
    """(n,) rad/s."""
    joint_torque: np.ndarray | None = None
    """(n,) N m."""
    gyro: np.ndarray | None = None
    """(3,) rad/s, body frame."""
    accelerometer: np.ndarray | None = None
    """(3,) m/s^2, body frame."""
    orientation: np.ndarray | None = None
    """(4,) wxyz, body to world."""
    position: np.ndarray | None = None
    """(3,) m, world frame."""
    linvel: np.ndarray | None = None
    """(3,) m/s, world frame."""


PARTS = tuple(field.name for field in dataclasses.fields(Measurement) if field.name != "time")
"""Names of what may be measured; also names of channels in a log."""


class Robot(Protocol):
    """A robot in the joint and actuator order of a contract.

    Times are seconds on the robot's own clock: the computer's monotonic clock for hardware, the simulated time for a
    robot that does not wait for anybody.
    """

    name: str

    def now(self) -> float:
        """s."""
        ...

    def sleep_until(self, time: float) -> None:
        """Wait, or simulate, until then; returns at once where that time has passed."""
        ...

    def read(self) -> Measurement:
        """The newest measurement; the same again, with the same time, where no newer one has come."""
        ...

    def write(self, target: np.ndarray) -> None:
        """Send targets (A,), in the contract's order and units. Held until the next."""
        ...

    def damp(self) -> None:
        """Go limp without harm: joints damped, rotors off. Works at any time, as often as one likes."""
        ...

    def close(self) -> None:
        """Damp, and let go of the hardware."""
        ...
