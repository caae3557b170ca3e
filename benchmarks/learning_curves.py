"""Success against steps and wall time of runs, thinned to a few dozen points each.

python -m benchmarks.learning_curves runs/mt10 runs/reach --json FILE
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.evaluation.report import learning_curves
from embodied.storage.runs import Run


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the collection."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Collect and print where each run ended."""
    rows = [curves(path) for path in settings.runs]
    for row in rows:
        ends = ", ".join(f"{name} {100 * points[-1]['success']:.0f} %" for name, points in row["success"].items())
        cli.show(f"{row['task']}: {ends}")
    cli.write_result(settings.json, cli.command_line("benchmarks.learning_curves"), {"results": rows})


def curves(path: Path) -> dict[str, Any]:
    """A run's success in training: what was measured -> points of steps, seconds since the first update, success."""
    run = Run.open(path)
    records = run.metrics()
    clock = {record["step"]: record["time"] - records[0]["time"] for record in records}
    return {
        "task": run.task,
        "seed": run.config["seed"],
        "num_envs": run.config["num_envs"],
        "success": {
            name: [{"steps": x, "seconds": round(clock[x], 1), "success": round(y, 4)} for x, y in points]
            for name, points in learning_curves(str(path)).items()
        },
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
