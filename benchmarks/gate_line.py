"""How fast a policy flies random courses of gates, beside the fastest way of a point that accelerates as the drone can.

python -m benchmarks.gate_line --policy shipped --json FILE

The point has the drone's mass and drag and its largest thrust, in any direction at once: no drone that has to turn and
to spin its rotors up first can be faster. It passes within the openings of the gates, at any speed.
"""

import dataclasses
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import numpy as np
import torch
import tyro
from jax import Array
from scipy.optimize import minimize

import embodied
from embodied.env.env import Env
from policies.training.loading import load_policy
from tasks.swarm.dynamics.drones import RADIUS
from tasks.swarm.dynamics.quadrotor import GRAVITY, QUADROTORS, Preset
from tasks.swarm.team.gates import OPENING, in_gate

NODES = 8  # accelerations that are constant in turn, between two gates
PARTS = 4  # integration steps of each
FASTEST = 0.05  # s, least time between two gates
TASK = "swarm/gate-race"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    policy: str = "shipped"
    """As of embodied.evaluate."""
    courses: int = 64
    """Random courses, each flown once."""
    seed: int = 1000
    """Of the courses."""
    json: Path | None = None
    """File for the results."""


@dataclasses.dataclass(frozen=True)
class Flight:
    """What a policy did on N courses."""

    middle: np.ndarray
    """(N, G, 3) m."""
    heading: np.ndarray
    """(N, G) rad."""
    start: np.ndarray
    """(N, 3) m."""
    time: np.ndarray
    """(N,) s until the last gate was passed; nan where it was not."""
    crashed: np.ndarray
    """(N,) bool, at any time of the episode."""


def fly(env: Env, policy: str) -> Flight:
    """One episode on each course."""
    obs, rule = env.reset(), load_policy(policy, env)
    goal = env.task_state.goal
    middle, heading, start = (np.asarray(values) for values in (goal.middle, goal.heading, goal.pos[:, 0]))
    time, over = torch.full((env.num_envs,), torch.nan), torch.zeros(env.num_envs, dtype=torch.bool)
    crashed = over.clone()
    for number in range(1, env.max_episode_steps + 1):
        step = env.step(rule(obs))
        obs = step.obs
        first = step.success & ~over & time.isnan()
        time[first] = number * env.task.timing.control_dt
        crashed |= step.terminated & ~over
        over |= step.terminated | step.truncated
    return Flight(middle, heading, start, time.numpy(), crashed.numpy())


def ways(plan: Array, start: Array) -> tuple[Array, Array, Array]:
    """Times (G,) s from gate to gate, and positions and velocities (G, 3) there; `plan` as of `fastest`."""
    drone = QUADROTORS[Preset.P250]
    drag = drone.drag[0] / drone.mass
    gates = len(plan) // (1 + 3 * NODES)
    times, force = plan[:gates], plan[gates:].reshape(gates, NODES, 3)

    def node(motion: tuple[Array, Array], inputs: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        accelerated, dt = inputs
        pos, vel = motion
        for _ in range(PARTS):
            middle = vel + dt / 2 * (accelerated - drag * vel)
            pos, vel = pos + dt * middle, vel + dt * (accelerated - drag * middle)
        return (pos, vel), None

    def gate(motion: tuple[Array, Array], inputs: tuple[Array, Array]) -> tuple[tuple[Array, Array], Any]:
        forces, time = inputs
        dt = jnp.full(NODES, time / NODES / PARTS)
        motion, _ = jax.lax.scan(node, motion, (forces + jnp.array([0.0, 0.0, -GRAVITY]), dt))
        return motion, motion

    _, (pos, vel) = jax.lax.scan(gate, (start, jnp.zeros(3)), (force, times))
    return times, pos, vel


@jax.jit
def misses(plan: Array, start: Array, middle: Array, heading: Array) -> tuple[Array, Array]:
    """What has to be zero, and what must not be negative."""
    times, pos, vel = ways(plan, start)
    off = jax.vmap(in_gate)(middle, heading, pos)
    through = vel[:, 0] * jnp.cos(heading) + vel[:, 1] * jnp.sin(heading)
    force = plan[len(times) :].reshape(-1, 3)
    drone = QUADROTORS[Preset.P250]
    most = drone.count * drone.max_thrust / drone.mass
    room = (OPENING - RADIUS) - jnp.abs(off[:, 1:]).ravel()
    return off[:, 0], jnp.concatenate([room, through, (most**2 - jnp.sum(force**2, 1)) / most])


slopes = jax.jit(jax.jacrev(misses))


def fastest(start: np.ndarray, middle: np.ndarray, heading: np.ndarray) -> float:
    """s, of the fastest way through the gates; nan where none was found.

    The plan is the times between gates (G,), then thrusts per mass (G, NODES, 3) m/s^2.
    """
    gates = len(middle)
    course = tuple(jnp.asarray(values, jnp.float64) for values in (start, middle, heading))
    first = np.concatenate([np.full(gates, 1.2), np.tile([0.0, 0.0, GRAVITY], gates * NODES)])
    slope = np.concatenate([np.ones(gates), np.zeros(len(first) - gates)])
    found = minimize(
        lambda plan: plan[:gates].sum(), first, jac=lambda plan: slope, method="SLSQP",
        bounds=[(FASTEST, 5.0)] * gates + [(None, None)] * (len(first) - gates),
        constraints=[
            {
                "type": kind,
                "fun": lambda plan, part=part: np.asarray(misses(plan, *course)[part]),
                "jac": lambda plan, part=part: np.asarray(slopes(plan, *course)[part]),
            }
            for part, kind in enumerate(("eq", "ineq"))
        ],
        options={"maxiter": 300, "ftol": 1e-5},
    )  # fmt: skip
    zero, left = misses(found.x, *course)
    good = bool(jnp.all(jnp.abs(zero) < 1e-3)) and bool(jnp.all(left > -1e-2))
    return float(found.fun) if good else float("nan")


def measure(settings: Settings) -> dict[str, Any]:
    """Times of policy and point on every course, and how they compare."""
    env = embodied.make(TASK, settings.courses, seed=settings.seed, thrust_spread=0.0, mass_spread=0.0)
    flight = fly(env, settings.policy)
    line = []
    with jax.enable_x64(True):
        for course, rows in enumerate(zip(flight.start, flight.middle, flight.heading, strict=True)):
            line.append(fastest(*rows))
            cli.say(f"course {course}: policy {flight.time[course]:.2f} s, point {line[-1]:.2f} s")
    line = np.array(line)
    ratio = flight.time / line
    known = ratio[np.isfinite(ratio)]
    return {
        "policy": settings.policy,
        "courses": settings.courses,
        "crashed": float(flight.crashed.mean()),
        "passed": float(np.isfinite(flight.time).mean()),
        "compared": len(known),
        "policy_seconds": float(np.nanmedian(flight.time)),
        "point_seconds": float(np.nanmedian(line)),
        "ratio": {name: float(np.quantile(known, at)) for name, at in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))},
        "units": {"policy_seconds": "s", "point_seconds": "s"},
    }


def main(settings: Settings) -> None:
    """Measure and print."""
    result = measure(settings)
    cli.show(
        f"{settings.courses} courses: all gates passed in {result['passed']:.0%}, crashed in {result['crashed']:.0%}; "
        f"policy {result['policy_seconds']:.2f} s, point {result['point_seconds']:.2f} s, median ratio "
        f"{result['ratio']['median']:.2f}"
    )
    cli.write_result(settings.json, cli.command_line("benchmarks.gate_line"), result)


if __name__ == "__main__":
    main(tyro.cli(Settings))
