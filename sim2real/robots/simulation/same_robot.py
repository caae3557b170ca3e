"""Whether a bundle was made for the robot that is simulated: joints, actuators, units, limits and rate."""

from __future__ import annotations

import numpy as np

from embodied.errors import listing
from sim2real.contract.contract import Contract
from sim2real.robots.base import RobotError

ROUNDING = 1e-6  # of a limit, rad or whatever its unit: what is further out is another limit


def check_same(bundle: Contract, robot: Contract) -> None:
    """Compare the contract of a bundle with that of the robot in the simulation.

    A bundle may keep to narrower limits than the robot has.

    Raises:
        RobotError: names or order of joints or actuators, units or rate differ, or the bundle goes beyond a limit.
    """
    for what in ("joints", "actuators"):
        theirs, ours = ([item.name for item in getattr(side, what)] for side in (bundle, robot))
        if ours != theirs:
            raise RobotError(f"the bundle's {what} are {listing(theirs)}; the simulated robot's are {listing(ours)}")
    for theirs, ours in zip(bundle.actuators, robot.actuators, strict=True):
        if theirs.unit != ours.unit:
            raise RobotError(f"the bundle commands {ours.name} in {theirs.unit}; the simulated robot takes {ours.unit}")
    if not np.isclose(bundle.control_hz, robot.control_hz):
        raise RobotError(
            f"the bundle commands {bundle.control_hz:g} times a second; the simulated robot is controlled "
            f"{robot.control_hz:g} times"
        )
    for what in ("joints", "actuators"):
        for theirs, ours in zip(getattr(bundle, what), getattr(robot, what), strict=True):
            if not (ours.lower - ROUNDING <= theirs.lower and theirs.upper <= ours.upper + ROUNDING):
                raise RobotError(
                    f"the bundle's limits of {what[:-1]} {ours.name} are {theirs.lower:g} to {theirs.upper:g}; the "
                    f"simulated robot's are {ours.lower:g} to {ours.upper:g}"
                )
