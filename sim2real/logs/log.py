"""`Log`: commands and measurements of a robot over time. Calibration reads it, deployment writes it.

A log holds channels. A channel is a matrix whose rows have times and whose columns have names. These channels mean the
same wherever they occur, in SI units:

    command           targets written to the actuators, in each actuator's unit (joint angles: rad; rotors: rpm)
    joint_pos         rad, measured joint angles
    joint_vel         rad/s
    joint_torque      N m
    gyro              rad/s, body frame: x, y, z
    accelerometer     m/s^2, body frame, +9.81 along z at rest: x, y, z
    orientation       body to world: w, x, y, z
    position          m, world frame: x, y, z
    linvel            m/s, world frame: x, y, z
    action            what a policy gave, in [-1, 1]
    observation       what it saw

Others are kept and not interpreted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from embodied.errors import EmbodiedError, UnknownNameError

XYZ = ("x", "y", "z")
WXYZ = ("w", "x", "y", "z")
UNITS = {
    "joint_pos": "rad",
    "joint_vel": "rad/s",
    "joint_torque": "N m",
    "gyro": "rad/s",
    "accelerometer": "m/s^2",
    "orientation": "1",
    "position": "m",
    "linvel": "m/s",
    "action": "1",
}
"""Unit of each channel that has one and the same for all columns."""


class LogError(EmbodiedError):
    """A log that cannot be read, or lacks what it is read for."""


@dataclasses.dataclass(frozen=True)
class Channel:
    """One quantity over time."""

    time: np.ndarray
    """(n,) s since the log's epoch, float64, not decreasing."""
    values: np.ndarray
    """(n, k) float64."""
    names: tuple[str, ...]
    """(k) names of the columns: joints or actuators in the robot's order, or x, y, z."""
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", np.asarray(self.time, float))
        object.__setattr__(self, "values", np.asarray(self.values, float))
        if self.values.shape != (len(self.time), len(self.names)):
            raise LogError(
                f"a channel has values of shape {self.values.shape}; expected ({len(self.time)}, {len(self.names)}) "
                f"from its times and its names {', '.join(self.names)}"
            )
        with np.errstate(all="ignore"):
            rising = np.diff(self.time, prepend=-np.inf) >= 0
        if not (rising.all() and np.isfinite(self.time).all()):
            first = int(np.argmin(rising & np.isfinite(self.time)))
            raise LogError(
                f"a channel's time is not finite or runs backwards at row {first}: {float(self.time[first])} s"
            )

    def __len__(self) -> int:
        return len(self.time)

    @property
    def rate(self) -> float:
        """Rows per second, from the median interval; 0 with fewer than two rows."""
        if len(self.time) < 2:
            return 0.0
        interval = float(np.median(np.diff(self.time)))
        return 1.0 / interval if interval > 0 else float("inf")

    def columns(self, names: tuple[str, ...]) -> np.ndarray:
        """(n, len(names)) the columns of these names, in this order."""
        for name in names:
            if name not in self.names:
                raise UnknownNameError("column", name, self.names)
        return self.values[:, [self.names.index(name) for name in names]]

    def between(self, start: float, end: float) -> Channel:
        """The rows with start <= time < end."""
        rows = slice(*np.searchsorted(self.time, [start, end]))
        return dataclasses.replace(self, time=self.time[rows], values=self.values[rows])


@dataclasses.dataclass(frozen=True)
class Log:
    """Channels by name, and what is known of the recording."""

    channels: Mapping[str, Channel]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Robot, date, control rate ... : whatever the writer stated."""

    def __getitem__(self, name: str) -> Channel:
        try:
            return self.channels[name]
        except KeyError:
            raise UnknownNameError("channel", name, self.channels) from None

    def __contains__(self, name: str) -> bool:
        return name in self.channels

    @property
    def span(self) -> tuple[float, float]:
        """s, first and last time of any channel; (0, 0) of an empty log."""
        times = [channel.time for channel in self.channels.values() if len(channel)]
        return (float(min(t[0] for t in times)), float(max(t[-1] for t in times))) if times else (0.0, 0.0)

    def between(self, start: float, end: float) -> Log:
        parts = {name: channel.between(start, end) for name, channel in self.channels.items()}
        return dataclasses.replace(self, channels=parts)
