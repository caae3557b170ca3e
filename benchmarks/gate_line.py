"""Speed of a policy on random courses of gates, beside a plan of the drone's fastest flight.

python -m benchmarks.gate_line --policy shipped --json FILE

The optimal flight is that of the same drone, its mass, drag, thrust and rotor lag, commanded as policies command it, by
thrust and body rates, but with rates that follow at once. It passes within the openings of the gates, at any speed. A
plan of the times between gates and of commands that are constant in turn is optimised from hovering (direct single
shooting, sequential quadratic programming). Real rates lag behind their commands, so that hardly any drone is as fast;
it is no strict bound, since commands change only so often and the optimum is a local one.
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
from embodied.math.rotations import quat_from_yaw, quat_integrate, quat_rotate
from embodied.robot.rotors import GRAVITY
from policies.training.loading import load_policy
from tasks.swarm.control.levels import RATE, YAW_RATE, thrust_from_action
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, RADIUS, Preset
from tasks.swarm.dynamics.multirotor import body_drag, rotor_lag, speed_for_thrust
from tasks.swarm.team.gates import OPENING, in_gate

NODES = 10  # commands that are constant in turn, between two gates
PARTS = 4  # integration steps of each
FASTEST = 0.05  # s, least time between two gates
TASK = "swarm/gate-race"
DRONE = CRAZYFLIES[Preset.P250]
UP = np.array([0.0, 0.0, 1.0], np.float32)  # body axes
Motion = tuple[Array, Array, Array, Array]
"""Position (3,) m, velocity (3,) m/s, orientation (4,) wxyz, speed of the rotors () rpm."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

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
    """Flights of a policy on N courses."""

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


@jax.jit
def misses(plan: Array, start: Array, middle: Array, heading: Array) -> tuple[Array, Array]:
    """Values that must be zero, m, and values that must not be negative, m^2 and m/s; `plan` as of `fastest`."""
    pos, vel = at_gates(plan, start, heading[0])
    off = jax.vmap(in_gate)(middle, heading, pos)
    through = vel[:, 0] * jnp.cos(heading) + vel[:, 1] * jnp.sin(heading)
    room = (OPENING - RADIUS) ** 2 - off[:, 1:] ** 2
    return off[:, 0], jnp.concatenate([room.ravel(), through])


def at_gates(plan: Array, start: Array, heading: Array) -> tuple[Array, Array]:
    """Positions (G, 3) m and velocities (G, 3) m/s at the gates; `plan` as of `fastest`."""
    gates = len(plan) // (1 + 4 * NODES)
    times, commands = plan[:gates], plan[gates:].reshape(gates, NODES, 4)

    def leg(motion: Motion, inputs: tuple[Array, Array]) -> tuple[Motion, tuple[Array, Array]]:
        command, time = inputs
        motion, _ = jax.lax.scan(hold, motion, (command, jnp.full(NODES, time / NODES / PARTS)))
        return motion, motion[:2]

    hover = speed_for_thrust(DRONE, jnp.asarray(DRONE.hover_thrust))
    _, (pos, vel) = jax.lax.scan(leg, (start, jnp.zeros(3), quat_from_yaw(heading), hover), (commands, times))
    return pos, vel


def hold(motion: Motion, inputs: tuple[Array, Array]) -> tuple[Motion, None]:
    """Fly on with a command (4,) in [-1, 1], as of the level `rates`, for PARTS steps of so many s."""
    command, dt = inputs
    pos, vel, quat, speed = motion
    wanted = speed_for_thrust(DRONE, thrust_from_action(DRONE, command[0]))
    for _ in range(PARTS):
        speed = rotor_lag(DRONE, speed, wanted, dt)
        quat = quat_integrate(quat, command[1:] * np.array([RATE, RATE, YAW_RATE]), dt)
        lift = DRONE.count * (DRONE.thrust[0] * speed + DRONE.thrust[1] * speed**2) * UP
        force = quat_rotate(quat, lift + body_drag(DRONE, quat, vel))
        accelerated = force / DRONE.mass - GRAVITY * UP
        pos, vel = pos + dt * vel + dt**2 / 2 * accelerated, vel + dt * accelerated
    return (pos, vel, quat, speed), None


slopes = jax.jit(jax.jacrev(misses))


def fastest(start: np.ndarray, middle: np.ndarray, heading: np.ndarray) -> float:
    """s, of the fastest flight through the gates; nan where none was found.

    The plan is the times between gates (G,), then commands (G, NODES, 4).
    """
    gates = len(middle)
    course = tuple(jnp.asarray(values, jnp.float64) for values in (start, middle, heading))
    first = np.concatenate([np.full(gates, 1.0), np.zeros(4 * gates * NODES)])
    slope = np.concatenate([np.ones(gates), np.zeros(len(first) - gates)])
    found = minimize(
        lambda plan: plan[:gates].sum(), first, jac=lambda plan: slope, method="SLSQP",
        bounds=[(FASTEST, 5.0)] * gates + [(-1.0, 1.0)] * (len(first) - gates),
        constraints=[
            {
                "type": kind,
                "fun": lambda plan, part=part: np.asarray(misses(plan, *course)[part]),
                "jac": lambda plan, part=part: np.asarray(slopes(plan, *course)[part]),
            }
            for part, kind in enumerate(("eq", "ineq"))
        ],
        options={"maxiter": 300, "ftol": 1e-4},
    )  # fmt: skip
    zero, left = misses(found.x, *course)
    good = bool(jnp.all(jnp.abs(zero) < 1e-3)) and bool(jnp.all(left > -1e-3))
    return float(found.fun) if good else float("nan")


def measure(settings: Settings) -> dict[str, Any]:
    """Times of policy and optimal flight on every course, and how they compare."""
    env = embodied.make(TASK, settings.courses, seed=settings.seed, thrust_spread=0.0, mass_spread=0.0)
    flight = fly(env, settings.policy)
    line = []
    with jax.enable_x64(True):
        for course, rows in enumerate(zip(flight.start, flight.middle, flight.heading, strict=True)):
            line.append(fastest(*rows))
            cli.say(f"course {course}: policy {flight.time[course]:.2f} s, optimal {line[-1]:.2f} s")
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
        "optimal_seconds": float(np.nanmedian(line)),
        "ratio": {name: float(np.quantile(known, at)) for name, at in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))},
        "units": {"policy_seconds": "s", "optimal_seconds": "s"},
    }


def main(settings: Settings) -> None:
    """Measure and print."""
    result = measure(settings)
    cli.show(
        f"{settings.courses} courses: all gates passed in {result['passed']:.0%}, crashed in {result['crashed']:.0%}; "
        f"policy {result['policy_seconds']:.2f} s, optimal {result['optimal_seconds']:.2f} s, median ratio "
        f"{result['ratio']['median']:.2f}"
    )
    cli.write_result(settings.json, cli.command_line("benchmarks.gate_line"), result)


if __name__ == "__main__":
    main(tyro.cli(Settings))
