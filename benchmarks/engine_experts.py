"""Whether the scripted experts solve the table tasks on an engine that is not the one they were written for.

The expert acts on each engine by itself and sees what happens there, from the same starts. Beside it: how far the first
object is from where it is on the first engine at the end (median), and how fast each engine steps, restarts included.

python -m benchmarks.engine_experts --json FILE
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import torch
import tyro
from torch import Tensor

import embodied
from embodied.errors import EmbodiedError
from embodied.evaluation.rates import wilson
from policies.training.loading import load_policy
from tasks.manipulation.benchmarks import MT50

OBJECT = slice(4, 7)  # of Meta-World's observation: the first object's position, m


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the comparison."""

    tasks: tuple[str, ...] = tuple(f"manipulation/{task}" for task in MT50)
    """Tasks with an expert."""
    engines: tuple[str, ...] = ("mujoco", "pybullet")
    """Which; the first is the reference."""
    episodes: int = 16
    """Of each task on each engine."""
    seed: int = 1000
    """Of the starts."""
    json: Path | None = None
    """File for the results, written after every task; tasks that are in it already are not run again."""


def main(settings: Settings) -> None:
    """Compare and print, task by task."""
    rows: list[dict[str, Any]] = []
    if settings.json is not None and settings.json.exists():
        rows = json.loads(settings.json.read_text())["results"]
    done = {row["task"] for row in rows}
    with cli.Line("experts", len(settings.tasks)) as line:
        for number, task in enumerate(settings.tasks):
            if task not in done:
                rows.append({"task": task, **compare(task, settings)})
                result = {"episodes": settings.episodes, "seed": settings.seed, "mean": means(rows, settings),
                          "results": rows}  # fmt: skip
                cli.write_result(settings.json, cli.command_line("benchmarks.engine_experts"), result)
            line.update(number + 1, task)
    shown = {engine: f"{100 * found['success']:.1f} % in {found['tasks']} tasks, {found['rate']:.0f} steps/s"
             for engine, found in means(rows, settings).items()}  # fmt: skip
    cli.show(cli.table("experts, success at the last step", shown))


def compare(task: str, settings: Settings) -> dict[str, Any]:
    """Success, intervals and rate on every engine, or why there is none."""
    row: dict[str, Any] = {}
    expected: Tensor | None = None
    for engine in settings.engines:
        try:
            row[engine], object_pos = outcome(task, engine, settings)
        except EmbodiedError as error:
            row[engine] = {"refused": str(error)}
            continue
        expected = object_pos if expected is None else expected
        row[engine]["object_apart_m"] = float((object_pos - expected).norm(dim=1).median())
        jax.clear_caches()  # fifty tasks on two engines are more programs than a process has room for
    return row


def outcome(task: str, engine: str, settings: Settings) -> tuple[dict[str, float], Tensor]:
    """Outcome of the episodes on one engine, and where the first object is before the last step, (N, 3) m."""
    env = embodied.make(task, settings.episodes, engine, settings.seed)
    expert, observation = load_policy("expert", env), env.reset()
    solved = torch.zeros(settings.episodes, dtype=torch.bool)
    step, started, seen = None, 0.0, observation["policy"]
    for number in range(env.max_episode_steps):
        seen = observation["policy"]
        step = env.step(expert(observation))
        observation = step.obs
        solved |= step.success.cpu()
        if number == 0:
            started = time.perf_counter()  # compiled
    assert step is not None
    seconds = time.perf_counter() - started
    last = step.success.cpu()
    low, high = wilson(int(last.sum()), settings.episodes)
    rate = settings.episodes * (env.max_episode_steps - 1) / seconds
    env.close()
    found = {"success": float(last.float().mean()), "success_low": low, "success_high": high,
             "success_any": float(solved.float().mean()), "env_steps_per_second": rate}  # fmt: skip
    return found, seen[:, OBJECT].cpu()


def means(rows: list[dict[str, Any]], settings: Settings) -> dict[str, dict[str, float]]:
    """Engine -> mean success over the tasks that it ran, how many these are, and the median rate."""
    result = {}
    for engine in settings.engines:
        ran = [row[engine] for row in rows if "success" in row[engine]]
        if ran:
            rates = [found["env_steps_per_second"] for found in ran]
            result[engine] = {"tasks": len(ran), "rate": statistics.median(rates)}
            result[engine] |= {key: statistics.mean(found[key] for found in ran) for key in ("success", "success_any")}
    return result


if __name__ == "__main__":
    main(tyro.cli(Settings))
