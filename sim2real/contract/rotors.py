"""The rotors of a drone as a contract has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from embodied.core.task import Task
from sim2real.contract.contract import Rotor
from tasks.swarm.dynamics.multirotor import Multirotor
from tasks.swarm.single.hover import Hover


def rotors_of(task: Task[Any]) -> tuple[Rotor, ...]:
    """The rotors of a task whose action is one command for each, in the order of actions; none for other tasks."""
    if not isinstance(task.unwrapped, Hover):
        return ()
    drone = task.unwrapped.drone
    if isinstance(drone, Multirotor):
        places, axes, spins = drone.position, drone.axis, drone.spin
    else:  # the signs of `quadrotor.rotor_wrench`
        places = drone.lever * np.array([[1, -1, 0], [-1, -1, 0], [-1, 1, 0], [1, 1, 0]])
        axes, spins = np.tile([0.0, 0.0, 1.0], (4, 1)), np.array([1, -1, 1, -1])
    thrust, torque = (
        np.array([np.broadcast_to(part, drone.count) for part in both]).T for both in (drone.thrust, drone.torque)
    )
    lags = tuple(map(float, drone.speed_up or ())), tuple(map(float, drone.speed_down or ()))
    return tuple(
        Rotor(_floats(places[i]), _floats(axes[i]), int(spins[i]), _floats(thrust[i]), _floats(torque[i]), *lags)
        for i in range(drone.count)
    )


def _floats(values: np.ndarray) -> Any:
    return tuple(float(value) for value in values)
