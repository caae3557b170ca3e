"""The curves of docs/learners.md: success by the clock of training, from the cells of `benchmarks.learners`.

python -m benchmarks.wall_time
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from benchmarks.learners import table
from benchmarks.learners.dense import CLOCK
from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.learning_curves import Across, Points, draw


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which, and where to."""

    method: str = "ppo"
    """As the table of the learners calls it."""
    out: Path = Path("docs/wall_time.png")
    """Picture, PNG or SVG."""


@guard
def main(settings: Settings) -> None:
    """Draw a panel of each task that is learned against the clock, with a line of each seed."""
    if not (found := curves(settings.method)):
        raise EmbodiedError(f"no result of {settings.method!r} has trials; python -m benchmarks.learners measures them")
    draw(settings.out, found, Across.MINUTES)
    cli.show(f"{settings.out}")


def curves(method: str) -> dict[str, dict[str, Points]]:
    """Task -> seed -> minutes of training, and success at the last step of trials meanwhile."""
    found: dict[str, dict[str, Points]] = {}
    for record in table.read():
        if record["task"] not in CLOCK or record["method"] != method:
            continue
        tried = [point for point in record["curve"] if "trial/success" in point]
        points = [(point["seconds"] / 60, point["trial/success"]) for point in tried]
        if points:
            found.setdefault(f"success/{record['task']}", {})[f"seed {record['seed']}"] = points
    return found


if __name__ == "__main__":
    main(tyro.cli(Settings))
