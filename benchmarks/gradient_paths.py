"""Whole PPO trainings with written-out backward passes and with autograd: wall and CPU seconds, interleaved.

The machine may be shared, so both paths take turns, CPU seconds (user and system, all threads) stand beside wall seconds,
and medians are reported. Every training is a process of its own.

python -m benchmarks.gradient_paths --json FILE
"""

from __future__ import annotations

import dataclasses
import json as json_module
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import torch
import tyro

from embodied.env.vec_env import VecEnv
from embodied.factory import make
from embodied.registry import join_content
from policies.optim.autograd import AutogradGradients
from policies.optim.gradients import Gradients
from policies.ppo import ppo
from policies.training.loop import train
from policies.training.settings import default_settings

PATHS: dict[str, Any] = {"written-out": Gradients, "autograd": AutogradGradients}
TRAININGS = {"swarm/hover": ("rigid", 2_000_000), "locomotion/go1-joystick-flat": ("mujoco", 600_000)}
"""Task -> engine and environment steps."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    repeats: int = 3
    """Trainings of each task by each path."""
    threads: int = 2
    """Of torch."""
    chunk: int = 0
    """Rows that autograd differentiates at once; 0: its default."""
    tasks: tuple[str, ...] = tuple(TRAININGS)
    """Tasks to train on."""
    json: Path | None = None
    """File for the results."""
    task: str = ""
    """Train on this task alone, by --path, and print the result: what each process is told."""
    path: str = "autograd"
    """written-out or autograd."""


def main(settings: Settings) -> None:
    """Measure, print, write."""
    if settings.task:
        print(json_module.dumps(measure(settings)))
        return
    rows: list[dict[str, Any]] = []
    for repeat in range(settings.repeats):
        for task in settings.tasks:
            for path in PATHS:
                rows.append({"repeat": repeat} | in_process(settings, task, path))
                print(rows[-1], flush=True)
    results = {task: compared([row for row in rows if row["task"] == task]) for task in settings.tasks}
    for task, result in results.items():
        print(task, json_module.dumps(result, indent=1))
    cli.write_result(
        settings.json, cli.command_line("benchmarks.gradient_paths"), {"results": results, "trainings": rows}
    )


def in_process(settings: Settings, task: str, path: str) -> dict[str, Any]:
    """One training in a process of its own."""
    words = ["--task", task, "--path", path, "--threads", str(settings.threads), "--chunk", str(settings.chunk)]
    command = [sys.executable, "-m", "benchmarks.gradient_paths", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json_module.loads(done.stdout.splitlines()[-1])


def measure(settings: Settings) -> dict[str, Any]:
    """Train by the task's own settings; seconds begin before the environments are made, those of the loop after its
    first iteration, which compiles."""
    torch.set_num_threads(settings.threads)
    kind = PATHS[settings.path]
    made: list[Any] = []

    def make_gradients(*arguments: Any) -> Gradients:
        made.append(kind(*arguments))
        if settings.chunk and settings.path == "autograd":
            made[0].workers.chunk = settings.chunk
        return made[0]

    ppo.make_gradients = make_gradients
    engine, steps = TRAININGS[settings.task]
    defaults = default_settings(join_content().find(settings.task))
    begun = clocks()
    first: list[tuple[float, float]] = []
    update: list[float] = []

    def note(_: Any, metrics: dict[str, float]) -> None:
        update.append(metrics["update_seconds"])
        if not first:
            first.append(clocks())

    env = make(settings.task, defaults.num_envs, engine, 0, config=defaults.config)
    train(cast("VecEnv", env), defaults.algorithm_config, total_steps=steps, on_iteration=note)
    end = clocks()
    return {
        "task": settings.task,
        "engine": engine,
        "path": settings.path,
        "env_steps": steps,
        "seconds": end[0] - begun[0],
        "cpu_seconds": end[1] - begun[1],
        "loop_seconds": end[0] - first[0][0],
        "loop_cpu_seconds": end[1] - first[0][1],
        "update_seconds": sum(update[1:]),
    }


def clocks() -> tuple[float, float]:
    """Wall and CPU seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of both paths, and how many times the written-out one's time autograd takes."""
    measures = ("seconds", "cpu_seconds", "loop_seconds", "loop_cpu_seconds", "update_seconds")
    found: dict[str, Any] = {
        path: {name: statistics.median(row[name] for row in rows if row["path"] == path) for name in measures}
        for path in PATHS
    }
    return found | {"ratio": {name: found["autograd"][name] / found["written-out"][name] for name in measures}}


if __name__ == "__main__":
    main(tyro.cli(Settings))
