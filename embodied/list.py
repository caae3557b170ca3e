"""`python -m embodied.list`: the tasks that exist, what they sense and do, and where they run."""

from __future__ import annotations

import dataclasses
import inspect
import json as jsonlib
import sys
from pathlib import Path
from typing import Any

import tyro
from rich.text import Text

from embodied import cli
from embodied.core.randomization import Term
from embodied.errors import EmbodiedError, guard
from embodied.registry import REGISTRY, Suite, join_content
from embodied.storage import task_names
from embodied.storage.paths import shipped


@dataclasses.dataclass(frozen=True)
class Settings:
    """List the registered tasks; with a name, everything about that one."""

    task: tyro.conf.Positional[str | None] = None
    """Task to describe in full (observations, rewards, what is randomised), or suite whose tasks to list. A task of
    your own is FILE.py:CLASS."""
    robot: Path | None = None
    """With a task for robots of one's own: MJCF or URDF file of the robot that it is described for."""
    json: bool = False
    """Print JSON to standard output instead of a table."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "list")
    registry = join_content()
    if settings.task and settings.task in registry.suites:
        print_suite(registry.suites[settings.task], as_json=settings.json)
        return 0
    if settings.robot is not None and not settings.task:
        raise EmbodiedError(f"--robot {settings.robot}: of which task? python -m embodied.list TASK --robot FILE")
    names = [settings.task] if settings.task else list(registry)
    rows = [describe(name, settings.robot) if settings.task else outline(name) for name in names]
    if settings.json:
        print(jsonlib.dumps(rows[0] if settings.task else rows, indent=2))
    elif settings.task:
        print_description(rows[0])
    else:
        print_table(rows)
    return 0


def print_suite(suite: Suite, *, as_json: bool) -> None:
    """A suite's tasks, and those that are held out of training."""
    if as_json:
        row = {"suite": suite.name, "summary": suite.summary}
        print(jsonlib.dumps(row | {"tasks": list(suite.tasks), "held_out": list(suite.held_out)}, indent=2))
        return
    output = cli.console()
    output.print(f"[bold]{suite.name}[/bold]  {suite.summary}")
    for title, names in (("tasks", suite.tasks), ("held out of training", suite.held_out)):
        if names:
            output.print(f"[bold]{len(names)} {title}[/bold]")
            output.print(Text("\n".join(f"  {name}" for name in names)))


def outline(name: str) -> dict[str, Any]:
    """What the registry knows of a task without importing it."""
    entry = REGISTRY[name]
    return {
        "task": task_names.label(entry.name),
        "summary": entry.summary,
        "engines": list(entry.engines),
        "trained": entry.training is not None,
        "shipped": has_shipped_policy(name),
    }


def describe(name: str, robot: Path | None = None) -> dict[str, Any]:
    """Everything about a task, with its usual robot or one of one's own: it is built, but not simulated."""
    from embodied.factory import make

    own: dict[str, Any] = {} if robot is None else {"robot": str(robot)}
    env = make(name, **own)
    task = env.task
    return outline(name) | {
        "description": " ".join((inspect.getdoc(task.unwrapped) or "").split()),
        "instruction": list(task.instruction),
        "action_size": task.action_size,
        "observations": {
            group: {term: list(shape) for term, shape in terms.items()}
            for group, terms in env.observation_terms.items()
        },
        "reward_weights": dict(task.reward_weights),
        "variations": {term.name: variation(term) for term in task.terms},
        "commands": {**task.commands, **task.first_commands},
        "physics_dt": task.timing.physics_dt,
        "control_dt": task.timing.control_dt,
        "episode_seconds": task.timing.episode_seconds,
        "bodies": int(task.model.nbody),
        "joints": int(task.model.njnt),
    }


def variation(term: Term) -> dict[str, Any]:
    """What a variation draws, of JSON's types."""
    ranges = [dataclasses.asdict(drawn) | {"distribution": drawn.distribution.value} for drawn in term.ranges]
    return {"summary": term.summary, "ranges": ranges, "no_range": "" if ranges else term.no_range}


def has_shipped_policy(name: str) -> bool:
    """Whether a trained policy comes with the package."""
    return name in shipped()


def print_table(rows: list[dict[str, Any]]) -> None:
    """All tasks, a line each; a summary that is too long for a terminal ends in an ellipsis."""
    output = cli.console()
    width = max(len(row["task"]) for row in rows)
    output.print(f"[bold]{len(rows)} tasks[/bold] (* with a trained policy)")
    for row in rows:
        mark = "*" if row["shipped"] else " "
        line = f"{mark} {row['task']:<{width}}  {row['summary']}  [{', '.join(row['engines'])}]"
        if output.is_terminal and len(line) > output.width:
            line = line[: output.width - 1] + "…"
        output.print(Text(line), soft_wrap=True)
    suites = join_content().suites
    # Of the suites of one task, of which there are as many as tasks, the first of each kind stands for all.
    shown = {name.partition(":")[0]: suite for name, suite in reversed([*suites.items()])}
    output.print(f"[bold]{len(suites)} suites[/bold]")
    for name, suite in reversed(shown.items()):
        label = name if name == suite.name else f"{name}:TASK"
        output.print(Text(f"  {label:<{width}}  {suite.summary}"), soft_wrap=True)
    output.print("python -m embodied.list TASK               describes one in full")
    output.print("python -m embodied.train TASK_OR_SUITE     trains on it")
    output.print("python -m embodied.evaluate TASK_OR_SUITE  says how well a policy does")


def print_description(row: dict[str, Any]) -> None:
    """One task in full."""
    output = cli.console()
    output.print(f"[bold]{row['task']}[/bold]  {row['summary']}\n\n{row['description']}\n")
    facts = {
        "engines": ", ".join(row["engines"]),
        "action": f"{row['action_size']} numbers in [-1, 1], every {1e3 * row['control_dt']:g} ms",
        "physics": f"every {1e3 * row['physics_dt']:g} ms, {row['bodies']} bodies, {row['joints']} joints",
        "episode": f"{row['episode_seconds']:g} s",
        "instruction": row["instruction"][0] if row["instruction"] else "-",
    }
    output.print(cli.table("", facts))
    for group, terms in row["observations"].items():
        sizes = {name: " x ".join(map(str, shape)) or "1" for name, shape in terms.items()}
        output.print(cli.table(f"observation group {group!r}", sizes))
    output.print(cli.table("reward weights per step", {k: f"{v:g}" for k, v in row["reward_weights"].items()}))
    if row["commands"]:
        output.print(cli.table("told to a robot, not measured", row["commands"]))
    drawn = {name: one["summary"] for name, one in row["variations"].items()}
    output.print(cli.table("drawn anew for every episode", drawn or {"-": "no variation is declared"}))


if __name__ == "__main__":
    sys.exit(main())
