"""Automatic domain randomisation (ADR) beside fixed ranges and none: hover, its mass, thrust and latency drawn widely.

Three trainings with the same steps and seeds: nominal physics, the wide ranges from the start, and ADR, which widens
them as long as the given share of the episodes succeeds. Each policy is evaluated over fresh episodes on nominal
physics and on the wide ranges; success is at the last step.

python -m benchmarks.adr --json FILE
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from embodied import cli

TASK = "swarm/hover"
WIDE = ("--config.thrust-spread", ".15", "--config.mass-spread", ".15", "--config.latency", "0", ".02")
"""At their worst the rotors lift 1.14 times the weight; the task's own ranges are a third of these, latency a half."""
NOMINAL = ("--config.thrust-spread", "0", "--config.mass-spread", "0", "--config.latency", "0", "0")
RATE = 0.8  # share of episodes that succeed, which ADR keeps
ARMS: Mapping[str, tuple[str, ...]] = {"none": NOMINAL, "fixed": WIDE, "adr": (*WIDE, "--adr", str(RATE))}
PHYSICS: Mapping[str, tuple[str, ...]] = {"nominal": NOMINAL, "wide": WIDE}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the trainings."""
    steps: int = 3_600_000
    """Environment steps of each."""
    episodes: int = 512
    """Of each evaluation."""
    out: Path = Path("runs/adr")
    """Folder for the runs; those that are there are used again."""
    json: Path | None = None
    """File for the results, written after every training."""


def main(settings: Settings) -> None:
    """Measure and print."""
    rows: list[dict[str, Any]] = []
    for seed in settings.seeds:
        for arm in ARMS:
            rows.append({"arm": arm, "seed": seed} | measured(settings, arm, seed))
            cli.show(str(rows[-1]))
            cli.write_result(
                settings.json,
                cli.command_line("benchmarks.adr"),
                {"task": TASK, "steps": settings.steps, "episodes": settings.episodes, "wide": " ".join(WIDE)}
                | {"summary": summary(rows), "runs": rows},
            )


def measured(settings: Settings, arm: str, seed: int) -> dict[str, Any]:
    """Train one policy and evaluate it on both kinds of physics."""
    run = settings.out / f"{arm}_{seed}"
    if not (run / "trained.json").exists():
        common = ("--seed", str(seed), "--steps", str(settings.steps), "--out", str(run), "--evaluate-episodes", "0")
        command("embodied.train", TASK, *ARMS[arm], *common, "--json", str(run / "trained.json"))
    found: dict[str, Any] = {}
    for name, words in PHYSICS.items():
        path = run / f"evaluation_{name}.json"
        episodes = ("--episodes", str(settings.episodes), "--json", str(path))
        command("embodied.evaluate", TASK, "--policy", str(run), *words, *episodes)
        found[name] = json.loads(path.read_text())["success"]
    return found


def command(module: str, *words: str) -> None:
    """Run a command of ours, quietly."""
    subprocess.run([sys.executable, "-m", module, *words], check=True, stdout=subprocess.DEVNULL)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Arm -> mean success over the seeds, and the lowest, on each kind of physics."""
    return {
        arm: {
            key: value
            for name in PHYSICS
            for key, value in (
                (name, float(np.mean([row[name] for row in rows if row["arm"] == arm]))),
                (f"{name}_lowest", min(row[name] for row in rows if row["arm"] == arm)),
            )
        }
        for arm in dict.fromkeys(row["arm"] for row in rows)
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
