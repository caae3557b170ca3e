"""`python -m embodied.check TASK`: whether a task meets the contract of all tasks, and in words what is wrong."""

from __future__ import annotations

import dataclasses
import json as jsonlib
import sys
from typing import Any

import tyro
from rich.text import Text

from embodied import cli
from embodied.check.contract import NUM_ENVS, Result, examine
from embodied.env.factory import default_engine, make
from embodied.env.registry import Suite, join_content
from embodied.errors import EmbodiedError, guard
from embodied.storage import task_names

STYLES = {"passed": "green", "FAILED": "bold red", "advice": "yellow", "not run": "dim"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Check that a task meets the contract of all tasks. The exit code is 1 where it does not.

    Examples:
        python -m embodied.check my_task.py:Reach
        python -m embodied.check swarm/hover --all-engines
    """

    task: tyro.conf.Positional[str]
    """Task, or FILE.py:CLASS."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    all_engines: bool = False
    """Step the task's other engines, too: MJX compiles for minutes on a CPU."""
    strict: bool = False
    """Fail where there is only advice: docstrings, a camera."""
    json: bool = False
    """Print JSON to standard output instead of a table."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "check")
    entry = join_content().find(settings.task)
    if isinstance(entry, Suite):
        raise EmbodiedError(f"{entry.name} is a suite; check one of its tasks, such as {entry.tasks[0]}")
    engine = settings.engine or default_engine(entry)
    task = entry.load()()
    with cli.Line(f"checking {task_names.label(entry.name)}", 1) as line:
        results = examine(
            task,
            lambda: make(entry.name, NUM_ENVS, engine, device="cpu"),
            slow=settings.all_engines,
            done=lambda result: line.update(0, result.check.name),
        )
    wrong = any(result.failed or (settings.strict and result.findings) for result in results)
    if settings.json:
        print(jsonlib.dumps(document(task_names.label(entry.name), engine, results, wrong), indent=2))
    else:
        report(task_names.label(entry.name), engine, results)
    return int(wrong)


def document(name: str, engine: str, results: list[Result], wrong: bool) -> dict[str, Any]:
    rows = [
        {
            "check": result.check.name,
            "verdict": result.verdict.lower(),
            "seconds": round(result.seconds, 3),
            "findings": [dataclasses.asdict(finding) for finding in result.findings],
        }
        for result in results
    ]
    return {"task": name, "engine": engine, "passed": not wrong, "checks": rows}


def report(name: str, engine: str, results: list[Result]) -> None:
    """The results for a person: a table, then a paragraph for everything that is wrong."""
    rows = tuple(
        (result.check.name, Text(result.verdict, STYLES[result.verdict]), f"{result.seconds:.1f}" if result.ran else "")
        for result in results
    )
    cli.show(cli.Table(f"{name} on {engine}", rows, ("check", "verdict", "s"), right=(2,), prose=(0,)))
    said: set[str] = set()
    for result in results:
        for finding in result.findings:
            if str(finding) not in said:  # what a hook raises, several checks meet
                cli.show(Text(f"{result.verdict}  {finding}", style=STYLES[result.verdict]))
            said.add(str(finding))
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in STYLES}
    cli.show(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))


if __name__ == "__main__":
    sys.exit(main())
