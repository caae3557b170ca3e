"""`mujoco`: the stand-in in C MuJoCo, the engine that policies are trained and tested on."""

from __future__ import annotations

from sim2real.contract.contract import Contract
from sim2real.robots.simulated import Simulated, StandIn


def connect(contract: Contract, options: StandIn) -> Simulated:
    """The robot of the contract's task."""
    return Simulated(contract, "mujoco", options)
