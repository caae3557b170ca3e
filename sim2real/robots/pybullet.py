"""`pybullet`: the stand-in in PyBullet, which shares nothing with the training but the description of the robot."""

from __future__ import annotations

from sim2real.contract.contract import Contract
from sim2real.robots.simulated import Simulated, StandIn


def connect(contract: Contract, options: StandIn) -> Simulated:
    """The robot of the contract's task."""
    return Simulated(contract, "pybullet", options)
