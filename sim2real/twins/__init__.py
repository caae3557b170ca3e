"""Digital twins of the robots that can be calibrated: a simulation with unknown parameters for each."""

from __future__ import annotations

import importlib
from pathlib import Path

from embodied.errors import UnknownNameError
from sim2real.contract.model_files import is_file
from sim2real.identification.parameters import CalibrationError
from sim2real.identification.simulate import Twin
from sim2real.logs.log import Log
from sim2real.twins import own_robot
from sim2real.twins.own_robot import BY_PLACE, Groups

ROBOTS = ("crazyflie", "go1", "panda")
"""Each a module of this package with `twin(log) -> Twin`."""


def make_twin(robot: str, log: Log, groups: Groups = BY_PLACE) -> Twin:
    """The twin of `robot`, with what `log` can drive and compare.

    Args:
        robot: A name of `ROBOTS`, or the model file of a user's robot.
        log: What was recorded.
        groups: For a user's robot: which joints share their parameters.

    Raises:
        UnknownNameError: there is no such robot.
        CalibrationError: the log does not fit, or groups were given for a robot that has its own.
        ModelError: the file cannot be read or is not understood.
    """
    if is_file(robot):
        return own_robot.twin(Path(robot), log, groups)
    if robot not in ROBOTS:
        raise UnknownNameError("robot to calibrate", robot, ROBOTS)
    if groups != BY_PLACE:
        raise CalibrationError(
            f"--together and --apart are for robots from a model file; {robot} has a twin of its own"
        )
    twin: Twin = importlib.import_module(f"sim2real.twins.{robot}").twin(log)
    return twin
