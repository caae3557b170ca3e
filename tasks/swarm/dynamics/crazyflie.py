"""The Crazyflie's constants: published parameter sets with their sources, in SI units and rpm.

Rotors are numbered as on the Crazyflie, 1 front right, 2 back right, 3 back left, 4 front left; x points forward,
y left, z up. Seen from above, rotors 1 and 3 turn counter-clockwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np

from tasks.swarm.dynamics.multirotor import Multirotor

RADIUS = 0.07  # m, of the sphere around a Crazyflie: arm .046 m and propeller .0231 m


class Preset(StrEnum):
    """Published parameter sets."""

    P250 = "p250"
    L250 = "l250"
    T350 = "t350"
    B500 = "b500"
    GPD = "gpd"


def _crazyflie(lever: float, **constants: Any) -> Multirotor:
    """Four rotors, each `lever` m from the centre of mass along x and along y."""
    return Multirotor(
        position=lever * np.array([[1.0, -1.0, 0.0], [-1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]),
        axis=np.tile([0.0, 0.0, 1.0], (4, 1)), spin=np.array([1.0, -1.0, 1.0, -1.0]), hover_share=1 / 4, crazyflie=True,
        **constants,
    )  # fmt: skip


# Tabulated in crazyflow 0.4.0 (its `first_principles` parameters) and gym-pybullet-drones 2.1 (cf2x). The two disagree;
# the identified sets were measured on the drones named.
CRAZYFLIES: dict[Preset, Multirotor] = {
    # Crazyflie 2.1+, stock propellers, 250 mAh battery (crazyflow cf21B/2.1+ "P250").
    Preset.P250: _crazyflie(
        lever=0.03253, mass=0.0318, inertia=(16.8e-6, 16.8e-6, 29.8e-6),
        thrust=(-3.620e-7, 1.6061e-10), torque=(-2.2665e-9, 1.11495e-12), max_thrust=0.12,
        speed_up=(5.173, 8.148e-5), speed_down=(0.0, 2.095e-4), drag=(0.01351, 0.01351, 0.01677),
    ),
    # Crazyflie 2.1 with the legacy propellers, 250 mAh battery.
    Preset.L250: _crazyflie(
        lever=0.03253, mass=0.0328, inertia=(16.8e-6, 16.8e-6, 29.8e-6),
        thrust=(-5.382e-7, 2.4583e-10), torque=(1.4105e-9, 1.4593e-12), max_thrust=0.12,
        speed_up=(7.356, 0.0), speed_down=(0.0, 2.444e-4), drag=(0.01495, 0.01495, 0.01390),
    ),
    # Crazyflie 2.1 with the thrust upgrade kit, 350 mAh battery.
    Preset.T350: _crazyflie(
        lever=0.03253, mass=0.0379, inertia=(15.7e-6, 17.1e-6, 30.0e-6),
        thrust=(-7.167e-7, 2.9401e-10), torque=(5.816e-10, 1.3318e-12), max_thrust=0.18,
        speed_up=(11.375, 0.0), speed_down=(0.0, 3.787e-4), drag=(0.01520, 0.01520, 0.02205),
    ),
    # Crazyflie 2.1 Brushless.
    Preset.B500: _crazyflie(
        lever=0.035355, mass=0.0434, inertia=(25e-6, 28e-6, 49e-6),
        thrust=(-3.133e-7, 4.4074e-10), torque=(1.6589e-9, 2.4693e-12), max_thrust=0.20,
        speed_up=(13.996, 1.109e-4), speed_down=(5.933, 3.195e-4), drag=(0.02164, 0.02164, 0.02477),
    ),
    # gym-pybullet-drones cf2x, for comparison with its results: its thrust-to-weight ratio (2.25) is half as much
    # again as the identified one (1.54), its yaw authority 3.6 times. Arm .0397 m, so lever .0397/sqrt(2); maximum
    # thrust from its 2.25 ratio; it has neither rotor lag nor, in its default mode, drag.
    Preset.GPD: _crazyflie(
        lever=0.02807, mass=0.027, inertia=(14e-6, 14e-6, 21.7e-6),
        thrust=(0.0, 3.16e-10), torque=(0.0, 7.94e-12), max_thrust=0.149,
        speed_up=None, speed_down=None, drag=(0.0, 0.0, 0.0),
    ),
}  # fmt: skip
