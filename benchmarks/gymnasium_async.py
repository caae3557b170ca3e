"""The classic bodies beside Gymnasium's own environments on the same cores: control steps per second of each.

Both get random actions drawn beforehand, and take turns in one process, so that a machine whose speed drifts slows
both; every figure is the median over the turns. Gymnasium's `AsyncVectorEnv` runs every environment in a process of its
own, with shared memory; the number of them that does best on this machine stands for it. The share of the time that
embodied spends inside C MuJoCo, which both sides need, shows how much faster it could still become.

python -m benchmarks.gymnasium_async --json FILE
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro

import embodied
from embodied import cli

BODIES = {
    "locomotion/ant": "Ant-v5",
    "locomotion/half-cheetah": "HalfCheetah-v5",
    "locomotion/hopper": "Hopper-v5",
    "locomotion/humanoid": "Humanoid-v5",
    "locomotion/walker2d": "Walker2d-v5",
}


@dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    num_envs: int = 2048
    """Environments of embodied's."""
    processes: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of Gymnasium's environments to try, each a process."""
    engine: str = "mujoco"
    """Engine of embodied's environments."""
    turns: int = 7
    """Number of turns of each."""
    seconds: float = 1.0
    """Shortest time of a turn."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {name: measure(name, settings) for name in BODIES}
    for name, row in results.items():
        shown = {key: cli.number(value) if isinstance(value, float) else str(value) for key, value in row.items()}
        cli.show(cli.table(name, shown))
    cli.write_result(settings.json, cli.command_line("benchmarks.gymnasium_async"), {"results": results})


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """The figures of one body."""
    env = embodied.make(name, settings.num_envs, settings.engine)
    env.reset()
    physics = _Stopwatch(env.engine.step)
    env.engine.step = physics
    drawn = 2 * torch.rand(64, settings.num_envs, env.action_size, device=env.device) - 1
    contestants: dict[str, Callable[[int], object]] = {"embodied": lambda step: env.step(drawn[step % 64])}
    vectors = {f"async_{count}": _vector(BODIES[name], count) for count in settings.processes}
    for key, vector in vectors.items():
        contestants[key] = _simulator(vector)
    sizes = {"embodied": settings.num_envs} | {key: vector.num_envs for key, vector in vectors.items()}
    try:
        shares: list[float] = []
        rates: dict[str, list[float]] = {key: [] for key in contestants}
        for turn in range(settings.turns + 1):
            for key, step in contestants.items():
                physics.seconds, begin = 0.0, time.perf_counter()
                rate = sizes[key] * _rate(step, settings.seconds)
                if turn:  # the first turn compiles and warms up
                    rates[key].append(rate)
                if turn and key == "embodied":
                    shares.append(physics.seconds / (time.perf_counter() - begin))
    finally:
        for vector in vectors.values():
            vector.close()
    medians = {key: statistics.median(values) for key, values in rates.items()}
    best = max(vectors, key=medians.__getitem__)
    return {
        "engine": settings.engine,
        "num_envs": settings.num_envs,
        "substeps": env.task.timing.substeps,
        "env_steps_per_second": medians["embodied"],
        "share_of_time_in_physics": statistics.median(shares),
        "gymnasium_env_steps_per_second": medians[best],
        "gymnasium_processes": int(sizes[best]),
        "times_gymnasium": statistics.median(a / b for a, b in zip(rates["embodied"], rates[best], strict=True)),
        **{f"gymnasium_{key}": medians[key] for key in vectors},
        "turns": settings.turns,
    }


class _Stopwatch:
    """Calls a function and adds up how long it takes."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> None:
        begin = time.perf_counter()
        self.function(*arguments)
        self.seconds += time.perf_counter() - begin


def _vector(gymnasium_id: str, count: int) -> Any:
    vector = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make(gymnasium_id)] * count)
    vector.reset(seed=0)
    return vector


def _simulator(vector: Any) -> Callable[[int], object]:
    low, high = vector.single_action_space.low, vector.single_action_space.high
    shape = (64, vector.num_envs, *low.shape)
    drawn = np.random.default_rng(0).uniform(low, high, shape).astype(np.float32)
    return lambda step: vector.step(drawn[step % 64])


def _rate(step: Callable[[int], object], seconds: float) -> float:
    """Calls of `step` per second."""
    calls, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        for _ in range(8):
            step(calls)
            calls += 1
    return calls / passed if calls else 0.0


if __name__ == "__main__":
    main(tyro.cli(Settings))
