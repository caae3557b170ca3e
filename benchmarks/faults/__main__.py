"""Outcome of every kind of fault on three simulated robots: what latches, after what time, and what reached the motors.

A fault begins while the robot moves. For each: the step that latched, seconds from the fault to the latch, targets that
were not finite or outside the actuators' limits and reached the robot (there must be none), and runs in which the robot
fell or left its workspace and nothing latched. Faults that no chain can see in what it measures are in the list, too:
they show what happens then.

An object is seen by a camera, whose noise these runs have beside that of the training. `--clean` flies without a fault
instead and counts what latches: false alarms.

python -m benchmarks.faults --workers 2 --json FILE
python -m benchmarks.faults --workers 2 --clean 25 --json FILE
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import multiprocessing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import tyro

from benchmarks.faults.kinds import FAULTS, OUTPUTS, STOP
from benchmarks.faults.runs import CLEAN, SCENES, alarms, outcome

PARTS = 10  # of the minutes without a fault, each with seeds of its own


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = ()
    """Tasks whose shipped policy is deployed; by default those of the faults, or of the runs without."""
    only: tuple[str, ...] = ()
    """Faults, by what their names hold; by default all."""
    runs: int = 5
    """Of each fault, with seeds from 0."""
    clean: float = 0.0
    """minutes of each task without a fault, instead of faults."""
    workers: int = 1
    """Processes that measure at the same time."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print a line for each fault, or for each part of the runs without one."""
    command = cli.command_line("benchmarks.faults")
    every = (*FAULTS, *OUTPUTS, STOP)
    chosen = [name for name in every if not settings.only or any(word in name for word in settings.only)]
    jobs = [(task, name, settings.runs) for task in settings.tasks or SCENES for name in chosen]
    if settings.clean:
        jobs = [(task, part, settings.clean / PARTS) for task in settings.tasks or CLEAN for part in range(PARTS)]
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(settings.workers, context) as pool:
        found: dict[str, Any] = {}
        measured = pool.map(alarms if settings.clean else outcome, *zip(*jobs, strict=True))
        for (task, what, _), row in zip(jobs, measured, strict=True):
            if row is not None:
                found[f"{task}, {what}"] = row
                cli.show(f"{task}, {what}: {row}")
    if settings.clean:
        summary = {
            name: sum(row[name] for row in found.values()) for name in ("minutes", "alarms", "falls", "restarts")
        }
    else:
        sums = {name: sum(row[name] for row in found.values()) for name in ("unsafe_targets", "unlatched_falls")}
        kinds = len({name.partition(", ")[2] for name in found})
        summary = {"kinds": kinds, "runs": settings.runs, **sums, "longest_seconds": longest(found)}
    cli.write_result(settings.json, command, {**summary, "results": found})


def longest(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Step -> s from a fault to its latch, the longest of all runs."""
    found: dict[str, float] = {}
    for row in rows.values():
        for step, seconds in row["seconds"].items():
            found[step] = max(found.get(step, 0.0), seconds)
    return found


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
