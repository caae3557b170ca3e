"""`python -m benchmarks.start_up`: seconds until a command prints what needs neither engine nor network.

With --before, another checkout's commands are measured in turns with these, on the same machine.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.errors import EmbodiedError, guard

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    "embodied --help",
    "embodied.list",
    "embodied.list --help",
    "embodied.play --help",
    "embodied.train --help",
)
"""Modules with their words; those that a checkout does not have are left out of its figures."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the starts."""

    turns: int = 5
    """Starts of each command, after one that does not count."""
    before: Path | None = None
    """Another checkout."""
    json: Path | None = None
    """File for the result."""

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise EmbodiedError(f"--turns {self.turns}: expected at least 1")


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.start_up")
    checkouts = {"now": ROOT} | ({"before": settings.before} if settings.before else {})
    result: dict[str, Any] = {name: {} for name in checkouts}
    with cli.Line("starting", len(COMMANDS)) as line:
        for number, command in enumerate(COMMANDS, 1):
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in checkouts}
            for _ in range(settings.turns + 1):
                for name, root in checkouts.items():
                    if (seconds := started(root, command.split())) is not None:
                        taken[name].append(seconds)
            for name, turns in taken.items():
                if turns:
                    wall, processor = (statistics.median(values) for values in zip(*turns[1:], strict=True))
                    result[name][command] = {"seconds": wall, "processor_seconds": processor}
            line.update(number, command)
    for name, rows in result.items():
        shown = {
            command: f"{row['seconds']:.2f} s, {row['processor_seconds']:.2f} s busy" for command, row in rows.items()
        }
        cli.show(cli.table(name, shown))
    commits = {name: commit(root) for name, root in checkouts.items()}
    words = f"python -m benchmarks.start_up --turns {settings.turns}{' --before CHECKOUT' if settings.before else ''}"
    cli.write_result(settings.json, words, {"commits": commits, "load": os.getloadavg()[0], "results": result})
    return 0


def started(root: Path, words: Sequence[str]) -> tuple[float, float] | None:
    """Seconds from start to end of a command of a checkout, and those that it kept processors busy; None: it failed."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *words], cwd=root, env=environment, capture_output=True, check=False)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (seconds, busy) if done.returncode == 0 else None


def commit(root: Path) -> str:
    """The commit of a checkout."""
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
