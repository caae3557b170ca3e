"""Control allocation: the thrusts of any multirotor that accelerate and turn it as a reference quadrotor would be.

The firmware's controllers output thrusts of a Crazyflie's four rotors. Their force and torque, over its mass and
inertia, are a linear and an angular acceleration; times mass and inertia of another drone, they are the force and
torque that its rotors must give, distributed by the pseudo-inverse of its allocation matrix.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.robot.rotors import GRAVITY
from tasks.swarm.dynamics.multirotor import Each, Multirotor, speed_for_thrust

FULL_RANK = 6  # rotors that push where they like also hold sideways forces at zero
LEAST = 0.05  # of the largest part at hover: rotors that carry less do not give way for others
SMALL = 1e-3  # singular values below this part of the largest count as none: that way the drone cannot be moved


@dataclasses.dataclass(frozen=True, eq=False)
class Allocation:
    """Control allocation from a reference quadrotor's rotors to a multirotor's."""

    reference: Multirotor
    """The drone that the controllers are for."""
    inverse: np.ndarray
    """(n, 4) N for each N along z and each N m about x, y and z of the body."""
    scale: np.ndarray
    """(4,) force and torques of the reference -> those that move the multirotor alike."""
    hover: Each
    """N at hover."""
    full: Each
    """N at most."""

    @classmethod
    def of(cls, drone: Multirotor, reference: Multirotor) -> Allocation:
        """The allocation of a multirotor: sideways forces are zero if its rotors can control them, else free."""
        weight = drone.mass * GRAVITY
        units = np.repeat([weight, weight * drone.arm], 3)
        effect = drone.allocation / units[:, None]
        rows = np.arange(6) if np.linalg.matrix_rank(effect, tol=SMALL) == FULL_RANK else np.arange(2, 6)
        inverse = np.linalg.pinv(effect[rows], rcond=SMALL)[:, -4:] / units[2:]
        scale = np.array([drone.mass / reference.mass, *np.divide(drone.inertia, reference.inertia)])
        return cls(
            reference, inverse.astype(np.float32), scale.astype(np.float32), drone.hover_thrust, drone.max_thrust
        )

    def thrusts(self, wanted: Array) -> Array:
        """Thrusts (..., n) N that do to the multirotor what `wanted` (..., 4) N do to the reference.

        The largest excess is subtracted from all rotors, in proportion to their share of the weight, so that the drone
        still turns (as the firmware's `powerDistributionCap`).
        """
        force, torque = self.reference.wrench(speed_for_thrust(self.reference, wanted))
        command = jnp.concatenate([force[..., 2:], torque], axis=-1) * self.scale
        thrusts = jnp.sum(command[..., None, :] * self.inverse, axis=-1)
        part = self.hover / np.max(self.hover)
        lacking = np.where(part > LEAST, 1 / np.maximum(part, LEAST), 0.0).astype(np.float32)
        excess = jnp.max(jnp.maximum(thrusts - self.full, 0.0) * lacking, axis=-1, keepdims=True)
        return jnp.clip(thrusts - excess * part, 0.0, self.full)
