"""Digital twins of the robots that can be calibrated, by their names: a simulation with unknown parameters for each."""

from __future__ import annotations

import importlib

from embodied.errors import UnknownNameError
from sim2real.contract.model_files import is_file
from sim2real.identification.parameters import CalibrationError
from sim2real.identification.simulate import Twin
from sim2real.logs.log import Log
from sim2real.twins import robot as jointed
from sim2real.twins.robot import Groups

MODULES = {"crazyflie": "sim2real.twins.crazyflie", "panda": "sim2real.twins.panda"}
"""Robots with a module of their own, `twin(log) -> Twin`."""
ROBOTS = ("crazyflie", "g1", "go1", "go2", "panda")
"""Names of the robots that can be calibrated."""


def make_twin(robot: str, log: Log, groups: Groups | None = None) -> Twin:
    """The twin of `robot`, with what `log` can drive and compare.

    Args:
        robot: A name of `ROBOTS`, or the model file of a user's robot.
        log: What was recorded.
        groups: Which joints share their parameters; by default as `sim2real.twins.robot.twin` says.

    Raises:
        UnknownNameError: there is no such robot.
        CalibrationError: the log does not fit, or groups were given for a robot whose parameters are fixed.
        ModelError: the file cannot be read or is not understood.
    """
    if not is_file(robot) and robot not in ROBOTS:
        raise UnknownNameError("robot to calibrate", robot, ROBOTS)
    if robot not in MODULES:
        return jointed.twin(robot, log, groups)
    if groups is not None:
        raise CalibrationError(f"--together and --apart are for robots of joints; the parameters of {robot} are fixed")
    twin: Twin = importlib.import_module(MODULES[robot]).twin(log)
    return twin
