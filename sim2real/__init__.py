"""From a trained policy to a robot, and from a robot's log back to a better simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # deploying a bundle needs neither JAX nor MuJoCo, which the registry's tasks do
    from embodied.env.registry import Registry


def register(registry: Registry) -> None:
    registry.register_wrapper("calibration", "sim2real.twins.flags:Calibration")
