"""Simulation speed of drones on `rigid`: many worlds of one drone, and one world of up to ten thousand.

Each row is measured twice: inside one compiled loop over the control steps, which is what the physics costs, and
through `Env.step` with actions held, which is what a policy would see: observations, rewards and restarts included.
Medians over the turns. Physics runs at 240 Hz, actions at 48 Hz; a drone-step is one physics step of one drone.

python -m benchmarks.swarm_speed --json FILE
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch
import tyro

import embodied
from embodied import cli
from embodied.core.episode import apply_action, before
from embodied.engines.rigid import RigidEngine
from embodied.env.factory import make
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.aerodynamics import Effect
from tasks.swarm.multi.formation import FormationConfig, Shape
from tasks.swarm.single.trajectory import TrajectoryConfig


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    worlds: int = 16_384
    """Worlds of one drone."""
    swarms: tuple[int, ...] = (10, 80, 100, 1_000, 10_000)
    """Drones in one world."""
    turns: int = 5
    """Number of measurements of each."""
    seconds: float = 1.0
    """Shortest time of a turn."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {}
    alone = {
        "one drone per world, rotor commands, drag": (Level.ROTORS, (Effect.DRAG,)),
        "one drone per world, position PID, all effects": (Level.POSITION, tuple(Effect)),
    }
    for title, (level, effects) in alone.items():
        config = TrajectoryConfig(level=level, effects=effects, collisions_end=False)
        results[title] = measure("swarm/trajectory", settings.worlds, config, settings)
    together = {"position PID": (), "position PID, drag, neighbours, downwash": (Effect.DRAG, Effect.DOWNWASH)}
    for title, effects in together.items():
        for count in settings.swarms:
            config = FormationConfig(
                agents=count, level=Level.POSITION, effects=effects, shape=Shape.GRID, collisions_end=False
            )
            results[f"{count} drones in one world, {title}"] = measure("swarm/formation", 1, config, settings)
    for title, row in results.items():
        cli.show(cli.table(title, {key: cli.number(value) for key, value in row.items()}))
    cli.write_result(settings.json, cli.command_line("benchmarks.swarm_speed"), {"results": results})


def measure(name: str, worlds: int, config: Any, settings: Settings) -> dict[str, float]:
    """The figures of one setting."""
    env = make(name, worlds, "rigid", config=config)
    env.reset()
    held = torch.zeros(env.action_shape)
    substeps, dt = env.task.timing.substeps, env.task.timing.physics_dt
    drones = worlds * (env.agents or 1)
    for _ in range(env.max_episode_steps + 1):  # compiles what only an episode's end needs
        env.step(held)
    loop, length = compiled_loop(env)
    rows = {
        "physics": length * rate(loop, settings),
        "environment": rate(lambda: env.step(held), settings),
    }
    figures = {"drones": float(drones), "substeps": float(substeps)}
    for what, steps in rows.items():
        figures[f"{what}_drone_steps_per_second"] = steps * substeps * drones
        figures[f"{what}_times_real_time"] = steps * substeps * dt
    return figures


def compiled_loop(env: embodied.Env) -> tuple[Callable[[], object], int]:
    """A function that runs control steps of all worlds in one program, and how many."""
    task, engine, length = env.task, env.engine, 24
    assert isinstance(engine, RigidEngine)
    action = jnp.zeros(env.action_shape)

    def control(carry: Any, _: None) -> tuple[Any, None]:
        physics, episode = carry
        command, episode = jax.vmap(lambda p, e, a: before(task, engine.world(p), e, a))(physics, episode, action)

        def one(physics: Any, episode: Any, command: Any) -> tuple[Any, Any]:
            control, episode = apply_action(task, engine.world(physics), episode, command)
            return engine.step(physics, jax.lax.optimization_barrier(control), 1), episode

        carry = jax.lax.fori_loop(
            0, task.timing.substeps, lambda _, carry: jax.vmap(one)(carry[0], carry[1], command), (physics, episode)
        )
        return carry, None

    run = jax.jit(lambda carry: jax.lax.scan(control, carry, None, length)[0])
    carry = (env.physics_state, env.episode)
    return lambda: jax.block_until_ready(run(carry)), length


def rate(step: Callable[[], object], settings: Settings) -> float:
    """Calls per second, the median over the turns; the first turn compiles."""
    rates = []
    for turn in range(settings.turns + 1):
        calls, begin = 0, time.perf_counter()
        while not calls or time.perf_counter() - begin < settings.seconds:
            step()
            calls += 1
        if turn:
            rates.append(calls / (time.perf_counter() - begin))
    return statistics.median(rates)


if __name__ == "__main__":
    main(tyro.cli(Settings))
