"""The fifty manipulation tasks beside metaworld and envpool on the same cores: control steps per second of each.

All take the same number of control steps of 12.5 ms under random actions, resets included, and take turns task by task,
so that a machine whose speed drifts slows all. Metaworld steps one environment in each of as many processes as there
are cores; envpool has that many threads; embodied steps `num_envs` worlds at once. Neither of the others can be
installed beside embodied, so each needs an environment of its own:

    python3 -m venv .venv-metaworld && .venv-metaworld/bin/pip install metaworld==3.1.1 packaging
    python3 -m venv .venv-envpool && .venv-envpool/bin/pip install envpool==1.2.5
    python -m benchmarks.manipulation_speed --json FILE
"""

from __future__ import annotations

import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch
import tyro

import embodied
from embodied import cli
from tasks.manipulation.benchmarks import MT50

WORKERS = Path(__file__).parent / "reference" / "others"


@dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = MT50
    """Which tasks."""
    metaworld: Path = Path(".venv-metaworld/bin/python")
    """Python that has metaworld."""
    envpool: Path = Path(".venv-envpool/bin/python")
    """Python that has envpool."""
    cores: int = 2
    """Processes of metaworld's; envpool's threads are two."""
    num_envs: int = 2048
    """Worlds of embodied's."""
    turns: int = 3
    """Number of turns of the three at each task; the medians count."""
    seconds: float = 2.0
    """Time of a turn."""
    json: Path | None = None
    """File for the results."""


class Workers:
    """Processes that measure on request, all at the same time, and wait otherwise."""

    def __init__(self, python: Path, script: str, count: int) -> None:
        command = [str(python), str(WORKERS / script)]
        pipe = subprocess.PIPE
        self.processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]

    def rate(self, task: str, seconds: float) -> float:
        """Steps per second of all together."""
        for process in self.processes:
            stdin = cast("IO[str]", process.stdin)
            stdin.write(f"{task} {seconds}\n")
            stdin.flush()
        return sum(float(cast("IO[str]", process.stdout).readline()) for process in self.processes)

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            cast("IO[str]", process.stdin).close()
            process.wait()


def main(settings: Settings) -> None:
    """Measure and print."""
    others = {
        "metaworld": Workers(settings.metaworld.absolute(), "metaworld_rate.py", settings.cores),
        "envpool": Workers(settings.envpool.absolute(), "envpool_rate.py", 1),
    }
    rows = []
    with cli.Line("manipulation", len(settings.tasks)) as line:
        for number, task in enumerate(settings.tasks):
            rows.append(measure(task, settings, others))
            line.update(number + 1, shown(rows[-1]))
    for workers in others.values():
        workers.close()
    means = {name: statistics.mean(row[name] for row in rows) for name in ("embodied", *others)}
    means |= {f"times_{name}": means["embodied"] / means[name] for name in others}
    cli.show(cli.table("mean over the tasks", {key: cli.number(value) for key, value in means.items()}))
    result = {"num_envs": settings.num_envs, "turns": settings.turns, "mean": means, "results": rows}
    cli.write_result(settings.json, cli.command_line("benchmarks.manipulation_speed"), result)


def measure(task: str, settings: Settings, others: dict[str, Workers]) -> dict[str, Any]:
    """Median steps per second of each."""
    env = embodied.make(f"manipulation/{task}", settings.num_envs, "mujoco")
    env.reset()
    env.episode_length = torch.arange(settings.num_envs) % env.max_episode_steps
    drawn = 2 * torch.rand(64, settings.num_envs, 4, generator=torch.Generator().manual_seed(0)) - 1
    for step in range(8):
        env.step(drawn[step])
    rates: dict[str, list[float]] = {name: [] for name in ("embodied", *others)}
    for _ in range(settings.turns):
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < settings.seconds:
            env.step(drawn[steps % 64])
            steps += 1
        rates["embodied"].append(settings.num_envs * steps / (time.perf_counter() - begin))
        for name, workers in others.items():
            rates[name].append(workers.rate(task, settings.seconds))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {"task": task, **medians, **{f"times_{name}": medians["embodied"] / medians[name] for name in others}}


def shown(row: dict[str, Any]) -> str:
    """A row for the progress line."""
    times = ", ".join(f"{row[f'times_{name}']:.1f} x {name}" for name in ("metaworld", "envpool"))
    return f"{row['task']}: {cli.number(row['embodied'])} steps/s, {times}"


if __name__ == "__main__":
    main(tyro.cli(Settings))
