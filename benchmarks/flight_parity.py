"""Difference of the engines in flight: drones on the same start under the same rotor commands, open loop.

Nothing brings the drones back, so whatever an engine does differently adds up: a wrong torque three times over, from
angular speed to tilt to place. `rigid`, whose equations are a page long, is what the others are compared with.

python -m benchmarks.flight_parity --json FILE
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array

from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.engines.base import FusedEngine, HostEngine
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.aerodynamics import Effect
from tasks.swarm.dynamics.drones import Drones, still
from tasks.swarm.single.landing import Landing, LandingConfig
from tasks.swarm.team.waypoints import Goal

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

# How each rotor's thrust turns the body about its x, y and z axis, see `tasks.swarm.dynamics.crazyflie`.
MIX = np.array([[-1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0]])
CLIMB = 0.1  # action at which all rotors stay above hover while they sway, where thrust is linear in it
SWAY = (0.008, -0.006, 0.03)  # action about x, y and z: tilts of 11 degrees, a way of 1 m, a third of a turn
PERIOD = (1.0, 1.3, np.inf)  # s of the sway about each axis


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    engines: tuple[str, ...] = ("mujoco", "mjx-jax", "pybullet")
    """Engines to compare with `rigid`; `mjx-jax` and `mjx-warp` name an implementation."""
    agents: tuple[int, ...] = (1, 3)
    """Numbers of drones in one world."""
    json: Path | None = None
    """File for the results."""


@dataclasses.dataclass(frozen=True)
class Track:
    """Poses of A drones at the start and after each of T control steps."""

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
            cli.show(cli.table(flight, shown))
    command = cli.command_line("benchmarks.flight_parity")
    cli.write_result(settings.json, command, {"reference": REFERENCE, "seconds": SECONDS, "results": results})


def measure(engines: tuple[str, ...], agents: int, effects: tuple[Effect, ...]) -> dict[str, dict[str, float]]:
    """Engine -> worst difference to `rigid`, position in m and angle in degrees."""
    expected = fly(REFERENCE, agents, effects)
    rows = {}
    for engine in engines:
        distance, angle = fly(engine, agents, effects).apart(expected)
        rows[engine] = {"position_m": distance, "angle_deg": float(np.degrees(angle))}
    return rows


def fly(engine: str, agents: int, effects: tuple[Effect, ...]) -> Track:
    """Drones take off on an engine under `commands`, whatever comes of it."""
    task, (reset, process_action, apply_action) = crew(agents, effects)
    world = world_of(engine, agents)
    key = jax.random.PRNGKey(0)
    start = reset(key)
    world.begin(start)
    state, seen = start.task_state, [Drones.of(world.read())]
    for action in commands(agents, round(SECONDS / task.timing.control_dt), task.timing.control_dt):
        setpoint, state = process_action(world.read(), state, action, key)
        for _ in range(task.timing.substeps):
            control, state = apply_action(world.read(), state, setpoint)
            world.step(control)
        seen.append(Drones.of(world.read()))
    return Track(*(np.stack([getattr(drones, name) for drones in seen]).astype(float) for name in ("pos", "quat")))


@functools.cache
def crew(agents: int, effects: tuple[Effect, ...]) -> tuple[TakeOff, tuple[Callable[..., Any], ...]]:
    """The task, and its functions as the simulators call them; compiled once for all engines."""
    exact = LandingConfig(agents=agents, level=Level.ROTORS, effects=effects, thrust_spread=0.0, mass_spread=0.0)
    task = TakeOff(exact)
    return task, (jax.jit(task.reset), jax.jit(task.process_action), jax.jit(task.apply_action))


@functools.cache
def world_of(engine: str, agents: int) -> "FusedWorld | HostWorld":
    """A world of drones on an engine; compiled once for all effects, of which engines know nothing."""
    name, _, implementation = engine.partition("-")
    built: Any = make_engine(name, crew(agents, ())[0], 1, **({"impl": implementation} if implementation else {}))
    return FusedWorld(built) if built.fused else HostWorld(built)


class FusedWorld:
    """One environment on a fused engine."""

    def __init__(self, engine: FusedEngine[Any]) -> None:
        """Empty until it begins."""
        self._start, self._read = jax.jit(engine.start), jax.jit(engine.world)
        self._step = jax.jit(lambda physics, control: engine.step(physics, control, 1))
        self._physics: Any = None

    def begin(self, start: ResetState[Any]) -> None:
        """Begin an episode."""
        self._physics = self._start(start)

    def read(self) -> World:
        """World as the task may know it now."""
        return self._read(self._physics)

    def step(self, control: Control) -> None:
        """One physics step."""
        self._physics = self._step(self._physics, control)


class HostWorld:
    """The one environment of a host engine."""

    def __init__(self, engine: HostEngine) -> None:
        """Empty until it begins."""
        self._engine = engine

    def begin(self, start: ResetState[Any]) -> None:
        """Begin an episode."""
        self._engine.reset(np.arange(1), batch_of_one(start))

    def read(self) -> World:
        """World as the task may know it now."""
        return jax.tree.map(lambda leaf: leaf[0], self._engine.world())

    def step(self, control: Control) -> None:
        """One physics step."""
        self._engine.step(batch_of_one(control), 1)


def batch_of_one(tree: Any) -> Any:
    """The arrays of a pytree in numpy, with a leading axis (1,)."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], tree)


def commands(agents: int, steps: int, dt: float) -> np.ndarray:
    """Actions (steps, agents, 4) of the level `rotors`: up, with a sway that differs from drone to drone."""
    time = dt * (np.arange(steps) + 0.5)
    sway = np.asarray(SWAY) * np.cos(2 * np.pi * time[:, None] / np.asarray(PERIOD))
    number = np.arange(agents)
    strength = np.where(number % 2, -1.0, 1.0) / (1 + number / 2)
    return (CLIMB + strength[:, None] * (sway @ MIX)[:, None]).astype(np.float32)


if __name__ == "__main__":
    main(tyro.cli(Settings))
