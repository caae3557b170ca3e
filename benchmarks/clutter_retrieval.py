"""Success of retrieval of the target from clutter: reasoning by the obstruction graph, and two ways without it.

Scenes come from seeds that no other part of this project uses. Objects that are too wide to wrap are left out of
them (`TOO_WIDE`), random ones are in. All strategies meet the same scenes with the same planner, script and number of
grasps.

python -m benchmarks.clutter_retrieval --difficulty medium --scenes 50 --json FILE
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np

from embodied.errors import EmbodiedError, guard
from embodied.evaluation import tables
from embodied.evaluation.rates import wilson
from tasks.grasping.clutter.cell import Cell
from tasks.grasping.clutter.graph import Difficulty
from tasks.grasping.clutter.retrieval import MOST_ATTEMPTS, Result, Strategy, retrieve
from tasks.grasping.clutter.scenes import ClutterConfig, ClutterScene, clutter_scene
from tasks.grasping.hands.models import hand_named
from tasks.grasping.objects.household import HOUSEHOLD

TOO_WIDE = ("pitcher_base", "bowl", "master_chef_can")  # 108, 159 and 102 mm across; hands wrap 100 mm at most
FIRST = 600_000  # seed of the first scene


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    difficulty: Difficulty = Difficulty.MEDIUM
    """Of the targets."""
    scenes: int = 50
    """Number of scenes."""
    hand: str = "leap"
    """On the arm."""
    strategies: tuple[Strategy, ...] = tuple(Strategy)
    """Ways to choose the next object."""
    attempts: int = MOST_ATTEMPTS
    """Grasps tried at most in a scene."""
    first: int = FIRST
    """Seed of the first scene."""
    json: Path | None = None
    """File for the results."""


@guard
def main() -> None:
    """Measure and print."""
    settings = cli.parse(Settings, None, "benchmarks.clutter_retrieval")
    if settings.scenes < 1:
        raise EmbodiedError(f"--scenes {settings.scenes}; expected at least 1")
    hand = hand_named(settings.hand)
    pool = tuple(name for name in HOUSEHOLD if name not in TOO_WIDE)
    config = ClutterConfig(difficulty=settings.difficulty, pool=pool, freeable=True, tries=200)
    results: dict[str, list[Result]] = {strategy.value: [] for strategy in settings.strategies}
    scenes: list[ClutterScene] = []
    began = time.monotonic()
    with cli.Line("scenes", settings.scenes) as line:
        for number in range(settings.scenes):
            scene = clutter_scene(settings.first + number, config)
            scenes.append(scene)
            for strategy in settings.strategies:
                found = retrieve(Cell(hand, scene), strategy, settings.attempts, scene.seed)
                results[strategy.value].append(found)
            share = {name: sum(result.retrieved for result in rows) for name, rows in results.items()}
            line.update(number + 1, ", ".join(f"{name} {count}" for name, count in share.items()))
    summaries = {name: summary(rows) for name, rows in results.items()}
    for name, row in summaries.items():
        shown = {key: str(value) for key, value in row.items() if not key.startswith("success")}
        cli.show(cli.table(name, {"success": tables.percent(row, "success"), **shown}))
    values = {
        "difficulty": settings.difficulty.value,
        "hand": settings.hand,
        "scenes": settings.scenes,
        "first_seed": settings.first,
        "attempts_at_most": settings.attempts,
        "left_out": TOO_WIDE,
        "seconds": time.monotonic() - began,
        "strategies": summaries,
        "rows": [_row(scene, number, results) for number, scene in enumerate(scenes)],
    }
    cli.write_result(settings.json, cli.command_line("benchmarks.clutter_retrieval"), values)


def summary(rows: Sequence[Result]) -> dict[str, Any]:
    """Numbers of one strategy; removals, attempts and seconds are means over the scenes that succeeded."""
    won = [row for row in rows if row.retrieved]
    low, high = wilson(len(won), len(rows))
    return {
        "success": len(won) / len(rows),
        "success_low": low,
        "success_high": high,
        "removals": _mean([len(row.removed) for row in won]),
        "attempts": _mean([row.attempts for row in won]),
        "simulated_seconds": _mean([row.seconds for row in won]),
        "ends": dict(Counter(row.end.value for row in rows)),
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _row(scene: ClutterScene, number: int, results: dict[str, list[Result]]) -> dict[str, Any]:
    """Outcome of one scene by every strategy."""
    return {
        "seed": scene.seed,
        "target": scene.target,
        "objects": len(scene.names),
        **{name: str(rows[number]) for name, rows in results.items()},
    }


if __name__ == "__main__":
    main()
