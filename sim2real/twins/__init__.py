"""Digital twins of the robots that can be calibrated: a simulation with unknown parameters for each."""

from __future__ import annotations

import importlib

from embodied.errors import UnknownNameError
from sim2real.identification.simulate import Twin
from sim2real.logs.log import Log

ROBOTS = ("crazyflie", "go1", "panda")
"""Each a module of this package with `twin(log) -> Twin`."""


def make_twin(robot: str, log: Log) -> Twin:
    """The twin of `robot`, with what `log` can drive and compare; a `CalibrationError` where the log does not fit."""
    if robot not in ROBOTS:
        raise UnknownNameError("robot to calibrate", robot, ROBOTS)
    twin: Twin = importlib.import_module(f"sim2real.twins.{robot}").twin(log)
    return twin
