"""How far apart the engines fly: drones on the same start under the same rotor commands, open loop.

Nothing brings the drones back, so whatever an engine does differently adds up: a wrong torque three times over, from
angular speed to tilt to place. `rigid`, whose equations are a page long, is what the others are compared with.

python -m benchmarks.flight_parity --json FILE
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
import tyro
from jax import Array

import embodied
from embodied import cli
from embodied.engines import make_engine
from embodied.env import Env
from tasks.swarm.aerodynamics import Effect
from tasks.swarm.control.levels import Level
from tasks.swarm.drones import Drones, still
from tasks.swarm.fleet import Memory
from tasks.swarm.landing import Landing, LandingConfig
from tasks.swarm.points import Goal

REFERENCE = "rigid"
ENGINES = ("mujoco", "mjx", "pybullet")
EFFECTS: Mapping[str, tuple[Effect, ...]] = {
    "none": (),
    "drag": (Effect.DRAG,),
    "drag+ground": (Effect.DRAG, Effect.GROUND),
}
SECONDS = 2.0  # s in the air
LOW = 0.1  # m, height at the start: the ground adds a twelfth of the thrust there, and nobody touches it
APART = 2.0  # m between drones, so that they never meet: `rigid` knows no contact

# What one rotor's thrust does to the body about its x, y and z axis, see `tasks.swarm.quadrotor.rotor_wrench`.
MIX = np.array([[-1, -1, 1, 1], [-1, 1, 1, -1], [-1, 1, -1, 1]])
CLIMB = 0.08  # relative thrust above hover
SWAY = (0.012, 0.010, 0.03)  # relative thrust about x, y and z; with the climb, no rotor goes below hover
PERIOD = (1.3, 1.7)  # s of the sway about x and y


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    engines: tuple[str, ...] = ENGINES
    """Engines to compare with `rigid`; mjx flies on its JAX implementation."""
    agents: tuple[int, ...] = (1, 3)
    """Numbers of drones in one world."""
    seconds: float = SECONDS
    """How long they fly."""
    json: Path | None = None
    """File for the results."""


@dataclasses.dataclass(frozen=True)
class Path3:
    """Where A drones were after each of T control steps."""

    pos: np.ndarray
    """(T, A, 3) m, world frame."""
    quat: np.ndarray
    """(T, A, 4) wxyz, body -> world."""


class TakeOff(Landing):
    """Drones beside each other, low over the floor, at rest."""

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        """The same start for every key, but for the heading."""
        del key
        number = jnp.arange(self.config.agents)
        zero = jnp.zeros(self.config.agents)
        drones = still(jnp.stack([zero, APART * number, zero + LOW], -1), 0.7 * number)
        course = self.course(drones, jnp.zeros(2, jnp.uint32))
        point, velocity = self.points(course, jnp.zeros(()), drones)
        return drones, Goal(point, velocity, course, jnp.zeros(()), jnp.zeros((), jnp.int32))


def main(settings: Settings) -> None:
    """Measure and print."""
    raise NotImplementedError


if __name__ == "__main__":
    main(tyro.cli(Settings))
