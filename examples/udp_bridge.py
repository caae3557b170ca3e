"""A robot behind UDP: the bridge of docs/udp.md around a simulated robot, and a pattern for one around a vendor's SDK.

    python examples/udp_bridge.py locomotion/go1-joystick-flat
    python -m sim2real.deploy locomotion/go1-joystick-flat --robot udp --command .5 0 0     (in another terminal)

Kill the second process while the robot walks: the bridge's watchdog damps the robot 0.1 s later.
"""

from __future__ import annotations

import dataclasses
import sys

import tyro

from embodied.errors import guard
from sim2real.bundles.policies import load
from sim2real.deployment.operator_stop import OperatorStop
from sim2real.robots import registry
from sim2real.robots.simulation.simulated import SimulatedOptions
from sim2real.robots.udp_bridge import Bridge, BridgeOptions


@dataclasses.dataclass(frozen=True)
class Settings:
    """Serve a simulated robot to `python -m sim2real.deploy ... --robot udp`."""

    bundle: tyro.conf.Positional[str] = "locomotion/go1-joystick-flat"
    """A bundle's folder, or a task with a shipped policy: only its contract is read."""
    engine: str = "mujoco"
    """mujoco or pybullet."""
    bridge: tyro.conf.OmitArgPrefixes[BridgeOptions] = dataclasses.field(default_factory=BridgeOptions)
    """The bridge's own options."""
    robot: SimulatedOptions = dataclasses.field(default_factory=SimulatedOptions)
    """Latency, noise and the like of the simulated robot."""


@guard
def main(arguments: list[str] | None = None) -> int:
    """Serve until stopped."""
    settings = tyro.cli(Settings, args=arguments, prog="python examples/udp_bridge.py")
    contract = load(settings.bundle).contract
    robot = registry.connect(settings.engine, contract, settings.robot)
    bridge = Bridge(robot, contract, settings.bridge)
    print(f"serving {contract.robot} at {bridge.address}; Enter or Ctrl-C stops", flush=True)
    with OperatorStop() as stop:
        bridge.serve(lambda: bool(stop()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
