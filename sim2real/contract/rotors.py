"""The rotors of a drone as a contract has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from embodied.core.task import Task
from sim2real.contract.contract import Rotor
from tasks.swarm.single.hover import Hover


def rotors_of(task: Task[Any]) -> tuple[Rotor, ...]:
    """The rotors of a task whose action is one command for each, in the order of actions; none for other tasks."""
    if not isinstance(task.unwrapped, Hover):
        return ()
    drone = task.unwrapped.drone
    thrust, torque = (
        np.array([np.broadcast_to(part, drone.count) for part in both]).T for both in (drone.thrust, drone.torque)
    )
    lags = tuple(map(float, drone.speed_up or ())), tuple(map(float, drone.speed_down or ()))
    rows = zip(drone.position, drone.axis, drone.spin, thrust, torque, strict=True)
    return tuple(
        Rotor(_floats(place), _floats(axis), int(spin), _floats(curve), _floats(reaction), *lags)
        for place, axis, spin, curve, reaction in rows
    )


def _floats(values: np.ndarray) -> Any:
    return tuple(float(value) for value in values)
