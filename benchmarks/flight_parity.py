"""How far apart the engines fly: drones on the same start under the same rotor commands, open loop.

Nothing brings the drones back, so whatever an engine does differently adds up: a wrong torque three times over, from
angular speed to tilt to place. `rigid`, whose equations are a page long, is what the others are compared with.

python -m benchmarks.flight_parity --json FILE
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import torch
import tyro
from jax import Array

from embodied import cli
from embodied.engines import make_engine
from embodied.env import Env
from tasks.swarm.aerodynamics import Effect
from tasks.swarm.control.levels import Level
from tasks.swarm.drones import Drones, still
from tasks.swarm.landing import Landing, LandingConfig
from tasks.swarm.points import Goal

REFERENCE = "rigid"
EFFECTS: Mapping[str, tuple[Effect, ...]] = {
    "none": (),
    "drag": (Effect.DRAG,),
    "drag+ground": (Effect.DRAG, Effect.GROUND),
}
SECONDS = 2.0  # s in the air
LOW = 0.1  # m, height at the start: as near to the floor as the drones' spheres of 7 cm may come without touching it
APART = 3.0  # m between drones, so that they never meet: `rigid` knows no contact
HEADING = 0.7  # rad from one drone's heading to the next one's

# How each rotor's thrust turns the body about its x, y and z axis, see `tasks.swarm.quadrotor.rotor_wrench`.
MIX = np.array([[-1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0]])
CLIMB = 0.1  # action at which all rotors stay above hover while they sway, where thrust is linear in it
SWAY = (0.008, -0.006, 0.03)  # action about x, y and z: tilts of 11 degrees, a way of 1 m, a third of a turn
PERIOD = (1.0, 1.3, np.inf)  # s of the sway about each axis


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    engines: tuple[str, ...] = ("mujoco", "mjx-jax", "pybullet")
    """Engines to compare with `rigid`; `mjx-jax` and `mjx-warp` name an implementation."""
    agents: tuple[int, ...] = (1, 3)
    """Numbers of drones in one world."""
    json: Path | None = None
    """File for the results."""


@dataclasses.dataclass(frozen=True)
class Track:
    """Where A drones were at the start and after each of T control steps."""

    pos: np.ndarray
    """(1 + T, A, 3) m, world frame."""
    quat: np.ndarray
    """(1 + T, A, 4) wxyz, body -> world."""

    @property
    def way(self) -> np.ndarray:
        """(A,) m between the start and the end."""
        return np.linalg.norm(self.pos[-1] - self.pos[0], axis=-1)

    @property
    def tilt(self) -> np.ndarray:
        """(A,) rad, largest tilt on the way."""
        return np.arccos(1 - 2 * (self.quat[..., 1] ** 2 + self.quat[..., 2] ** 2)).max(0)

    def apart(self, other: "Track") -> tuple[float, float]:
        """Worst distance in m and worst angle in rad between two flights, of any drone at any time."""
        # The chord of an angle on the sphere of quaternions, which rounding spoils less than the arc cosine; q is -q.
        chord = np.minimum(*(np.linalg.norm(self.quat - sign * other.quat, axis=-1) for sign in (1, -1)))
        distance = np.linalg.norm(self.pos - other.pos, axis=-1)
        return float(distance.max()), float(4 * np.arcsin(chord / 2).max())


class TakeOff(Landing):
    """Drones in a row, at rest low over the floor, each turned another way. All episodes begin alike."""

    def draw(self, key: Array) -> tuple[Drones, Goal]:
        """The row; where the pads lie does not matter."""
        _, goal = super().draw(key)
        number = jnp.arange(self.config.agents)
        zero = jnp.zeros(self.config.agents)
        return still(jnp.stack([zero, APART * number, zero + LOW], -1), HEADING * number), goal


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {}
    for agents in settings.agents:
        for name, effects in EFFECTS.items():
            flight = f"{agents} {'drone' if agents == 1 else 'drones'}, effects: {name}"
            results[flight] = measure(settings.engines, agents, effects)
            shown = {
                engine: f"{cli.number(1e3 * row['position_m'])} mm, {cli.number(row['angle_deg'])} degrees"
                for engine, row in results[flight].items()
            }
            cli.console().print(cli.table(flight, shown))
    command = cli.command_line("benchmarks.flight_parity")
    cli.write_result(settings.json, command, {"reference": REFERENCE, "seconds": SECONDS, "results": results})


def measure(engines: tuple[str, ...], agents: int, effects: tuple[Effect, ...]) -> dict[str, dict[str, float]]:
    """Engine -> worst difference to `rigid`, position in m and angle in degrees."""
    expected = fly(world(REFERENCE, agents, effects))
    rows = {}
    for engine in engines:
        distance, angle = fly(world(engine, agents, effects)).apart(expected)
        rows[engine] = {"position_m": distance, "angle_deg": float(np.degrees(angle))}
    return rows


def world(engine: str, agents: int, effects: tuple[Effect, ...]) -> Env:
    """One world of drones on an engine, about to take off under rotor commands."""
    task = TakeOff(LandingConfig(agents=agents, level=Level.ROTORS, effects=effects, collisions_end=False))
    name, _, implementation = engine.partition("-")
    options = {"impl": implementation} if implementation else {}
    return Env(task, make_engine(name, task, 1, **options), 1, device="cpu")


def fly(env: Env) -> Track:
    """Take off on one environment, open loop.

    Raises:
        RuntimeError: the episode ended on the way, so that the flight is in two pieces.
    """
    env.reset()
    drones = [Drones.of(env.world())]
    for action in commands(len(drones[0].pos), round(SECONDS / env.control_dt), env.control_dt):
        if env.step(torch.from_numpy(action).reshape(env.action_shape)).done.any():
            raise RuntimeError(f"the episode on {env.engine_name} ended after {len(drones)} control steps")
        drones.append(Drones.of(env.world()))
    return Track(*(np.stack([getattr(one, name) for one in drones]).astype(float) for name in ("pos", "quat")))


def commands(agents: int, steps: int, dt: float) -> np.ndarray:
    """Actions (steps, agents, 4) of the level `rotors`: up, with a sway that differs from drone to drone."""
    time = dt * (np.arange(steps) + 0.5)
    sway = np.asarray(SWAY) * np.cos(2 * np.pi * time[:, None] / np.asarray(PERIOD))
    number = np.arange(agents)
    strength = np.where(number % 2, -1.0, 1.0) / (1 + number / 2)
    return (CLIMB + strength[:, None] * (sway @ MIX)[:, None]).astype(np.float32)


if __name__ == "__main__":
    main(tyro.cli(Settings))
