"""Whether engines agree on whole episodes: a task's expert acts on one, and its actions are played back on the others.

Nothing looks at the other engines' worlds while the actions are played, so whatever they do differently adds up over an
episode, contacts and friction included. Same seed, same starts. Episodes agree where the task is solved at some step on
both engines or on neither.

python -m benchmarks.engine_agreement --json FILE
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import torch
import tyro
from torch import Tensor

import embodied
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from tasks.manipulation.benchmarks import MT50

REFERENCE = "mujoco"
OBJECT = slice(4, 7)  # of Meta-World's observation: the first object's position, m


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the comparison."""

    tasks: tuple[str, ...] = tuple(f"manipulation/{task}" for task in MT50)
    """Tasks with an expert."""
    engines: tuple[str, ...] = ("mjx-jax", "mjx-warp")
    """Engines beside mujoco; `mjx-jax` and `mjx-warp` name an implementation."""
    episodes: int = 20
    """Episodes of each task."""
    steps: int = 500
    """Control steps of each, or as many as an episode of the task has where those are fewer."""
    seed: int = 0
    """Of the starts."""
    json: Path | None = None
    """File for the results, written after every task."""


@dataclasses.dataclass(frozen=True)
class Played:
    """Outcome of the episodes."""

    actions: list[Tensor]
    """Of each step, (N, A)."""
    solved: Tensor
    """(N,) bool, at any step."""
    object: Tensor | None
    """(N, 3) m, where the first object is before the last action; known of Meta-World's tasks."""


def main(settings: Settings) -> None:
    """Compare and print, task by task."""
    rows: list[dict[str, Any]] = []
    with cli.Line("agreement", len(settings.tasks)) as line:
        for number, task in enumerate(settings.tasks):
            rows.append({"task": task, **compare(task, settings)})
            line.update(number + 1, f"{task}: {shown(rows[-1], settings.engines)}")
            result = {"episodes": settings.episodes, "steps": settings.steps, "seed": settings.seed,
                      "mean": means(rows, settings.engines), "results": rows}  # fmt: skip
            cli.write_result(settings.json, cli.command_line("benchmarks.engine_agreement"), result)
    agreed = {engine: f"{100 * share:.1f} %" for engine, share in means(rows, settings.engines).items()}
    cli.show(cli.table(f"episodes that end as on {REFERENCE}", agreed))


def compare(task: str, settings: Settings) -> dict[str, Any]:
    """Success on the reference, and on each engine the share of episodes that agree with it, or why there is none."""
    expected = play(task, REFERENCE, settings, None)
    row: dict[str, Any] = {REFERENCE: float(expected.solved.float().mean())}
    for engine in settings.engines:
        try:
            played = play(task, engine, settings, expected.actions)
        except EmbodiedError as error:
            row[engine] = {"refused": str(error)}
            continue
        row[engine] = {
            "success": float(played.solved.float().mean()),
            "agree": float((played.solved == expected.solved).float().mean()),
        }
        if played.object is not None and expected.object is not None:
            row[engine]["object_apart_m"] = float((played.object - expected.object).norm(dim=1).median())
    jax.clear_caches()  # fifty tasks on three engines are more programs than a process has room for
    return row


def play(task: str, engine: str, settings: Settings, actions: list[Tensor] | None) -> Played:
    """Run the episodes with these `actions`, or else with the expert's."""
    name, _, implementation = engine.partition("-")
    options = {"impl": implementation} if implementation else {}
    env = embodied.make(task, settings.episodes, name, settings.seed, engine_options=options)
    expert = load_policy("expert", env) if actions is None else None
    observation = env.reset()
    solved = torch.zeros(settings.episodes, dtype=torch.bool)
    taken: list[Tensor] = []
    seen: Tensor | None = None
    for step in range(min(settings.steps, env.max_episode_steps)):
        action = expert(observation) if expert else actions[step].to(env.device)  # type: ignore[index]
        taken.append(action.cpu())
        seen = observation["policy"][:, OBJECT].cpu() if task.startswith("manipulation/") else None
        result = env.step(action)
        observation = result.obs
        solved |= result.success.cpu()
    return Played(taken, solved, seen)


def means(rows: list[dict[str, Any]], engines: tuple[str, ...]) -> dict[str, float]:
    """Engine -> mean agreement over the tasks it ran."""
    found = {engine: [row[engine]["agree"] for row in rows if "agree" in row[engine]] for engine in engines}
    return {engine: statistics.mean(values) for engine, values in found.items() if values}


def shown(row: dict[str, Any], engines: tuple[str, ...]) -> str:
    """A row for the progress line."""
    agreed = {engine: row[engine].get("agree") for engine in engines}
    return ", ".join(
        f"{name} " + ("refused" if share is None else f"{100 * share:.0f} %") for name, share in agreed.items()
    )


if __name__ == "__main__":
    main(tyro.cli(Settings))
