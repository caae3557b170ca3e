"""Robots by name: values of `sim2real.deploy --robot NAME`. Each is imported only when it is used."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from embodied.env.registry import load_target
from embodied.errors import UnknownNameError
from sim2real.contract.contract import Contract
from sim2real.robots.base import Robot


@dataclasses.dataclass(frozen=True)
class RobotEntry:
    """One kind of robot. Targets are `module:attribute` strings."""

    summary: str
    """One line."""
    options: str
    """The frozen dataclass of its options; each field becomes a flag."""
    target: str
    """`open(contract, options) -> Robot`, connected and damped."""


ROBOTS: Mapping[str, RobotEntry] = {
    "mujoco": RobotEntry(
        "simulated: the task's own model in C MuJoCo",
        "sim2real.robots.simulation.simulated:SimulatedOptions",
        "sim2real.robots.simulation.simulated:connect_mujoco",
    ),
    "pybullet": RobotEntry(
        "simulated: the same robot in PyBullet, an independent engine",
        "sim2real.robots.simulation.simulated:SimulatedOptions",
        "sim2real.robots.simulation.simulated:connect_pybullet",
    ),
    "udp": RobotEntry(
        "any robot behind a bridge that speaks docs/udp.md",
        "sim2real.robots.udp:UdpOptions",
        "sim2real.robots.udp:Udp",
    ),
    "crazyflie": RobotEntry(
        "a Crazyflie by radio, with the policy on board (cflib)",
        "sim2real.robots.crazyflie:CrazyflieOptions",
        "sim2real.robots.crazyflie:Crazyflie",
    ),
    "lerobot": RobotEntry(
        "an object with LeRobot's Robot interface",
        "sim2real.robots.lerobot:LeRobotOptions",
        "sim2real.robots.lerobot:connect",
    ),
}
"""Name -> entry."""


def entry(name: str) -> RobotEntry:
    if name not in ROBOTS:
        raise UnknownNameError("robot", name, ROBOTS)
    return ROBOTS[name]


def options_of(name: str) -> Any:
    return load_target(entry(name).options, f"robot {name!r}")()


def connect(name: str, contract: Contract, options: Any = None) -> Robot:
    """A robot, connected and damped; a `RobotError` where it cannot be reached, or is not the contract's."""
    found = entry(name)
    return load_target(found.target, f"robot {name!r}")(contract, options_of(name) if options is None else options)
