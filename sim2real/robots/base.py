"""`Robot`: the interface of a robot in deployment, simulated or real."""

from __future__ import annotations

import abc
import dataclasses
import enum
import time
from collections.abc import Mapping

import numpy as np

from embodied.errors import EmbodiedError
from sim2real.contract.contract import DeployablePolicy


class RobotError(EmbodiedError):
    """A robot that cannot be reached, or is not the one the bundle was made for."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Newest sensor readings of a robot. Arrays are float64; a part the robot lacks is None."""

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
    readings: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Whatever else a policy needs, by the name of its input: places of objects, touch, `command.NAME`, and of policies
    that see `image.CAMERA`, (height, width, 3) uint8. Looked up only when it is needed, so it may cost something."""


PARTS = tuple(field.name for field in dataclasses.fields(Measurement) if field.name not in ("time", "readings"))
"""Names of what may be measured; also names of channels in a log."""


class Phase(enum.IntEnum):
    """Phase of a deployment; logs hold its number."""

    CHECK = 0
    """Read, try the policy, send nothing."""
    SOFT_START = 1
    """From the measured pose to the stance."""
    RUN = 2
    """The policy acts."""
    REST = 3
    """From the last target to a pose of rest, where the robot has one."""
    DAMP = 4
    """Limp, after a whole run."""
    LATCHED = 5
    """Limp, after a trip."""


@dataclasses.dataclass(frozen=True)
class TaskResult:
    """Outcome of a deployment by the task's own measures."""

    success: bool
    """Solved at the end, and never failed."""
    failed: bool
    """Fell, crashed or left."""
    seconds: float
    """s that were evaluated."""
    metrics: Mapping[str, float]
    """Means over the control steps, in the task's units."""


class Robot(abc.ABC):
    """A robot in the joint and actuator order of a contract.

    Times are seconds on the robot's own clock: the computer's monotonic clock for hardware, the simulated time for a
    simulation that does not run in real time.
    """

    name: str
    setpoint_policy: DeployablePolicy | None = None
    """Runs in the loop in place of the bundle's policy, where that one runs on board and the robot takes setpoints."""
    in_place: bool = False
    """Whether it stands as an episode begins, so that nothing need bring it there first."""
    rest_pose: np.ndarray | None = None
    """(A,) targets to move to after a whole run, before the robot is damped; NaN: stay. None: damped where it is."""

    @property
    def team(self) -> tuple[Robot, ...]:
        """All robots of its team, itself among them, which each run a loop of their own; empty for a robot alone."""
        return ()

    def now(self) -> float:
        """s; by default of the computer's monotonic clock."""
        return time.monotonic()

    def sleep_until(self, when: float) -> None:
        """Wait, or simulate, until then; returns at once where that time has passed."""
        if (left := when - self.now()) > 0:
            time.sleep(left)

    @abc.abstractmethod
    def read(self) -> Measurement:
        """The newest measurement; the same again, with the same time, where no newer one has come."""

    @abc.abstractmethod
    def write(self, target: np.ndarray) -> None:
        """Send targets (A,), in the contract's order and units. Held until the next."""

    @abc.abstractmethod
    def damp(self) -> None:
        """Go limp without harm: joints damped, rotors off. Works at any time, as often as one likes."""

    @abc.abstractmethod
    def close(self) -> None:
        """Damp, and let go of the hardware."""

    def prepare(self, command: np.ndarray) -> None:  # noqa: B027  (most robots have nothing to prepare)
        """Called once before the loop, with the operator's command (k,): time to compile."""

    def enter(self, phase: Phase) -> None:  # noqa: B027
        """Called in the first cycle of each phase, after its target was sent."""

    def task_result(self) -> TaskResult | None:
        """Outcome of the task in the phase `RUN`; None where it is unknown, as on hardware."""
        return None
