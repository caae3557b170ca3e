"""Gain by PPO's options: trainings that differ in one option, at equal environment steps.

Each arm is a command line of `embodied.train`, repeated over seeds. Reported are the final evaluation over fresh
episodes, curves over the training, and processor seconds, which mean more than wall time on a busy machine.

python -m benchmarks.ppo_ablation symmetry --steps 3000000 --json benchmarks/results/learners/ppo-symmetry.json

`critic` goes on from a run that is there by then:

python -m embodied.train swarm/gate-race --steps 12000000 --seed 1 --out runs/race
python -m benchmarks.ppo_ablation critic --steps 2500000 --json benchmarks/results/learners/ppo-critic.json
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from embodied import cli
from embodied.errors import UnknownNameError


@dataclasses.dataclass(frozen=True)
class Ablation:
    """Command lines that are compared."""

    arms: Mapping[str, tuple[str, ...]]
    """Name -> words of `embodied.train`: the task, then flags that set the arm apart."""
    measures: tuple[str, ...]
    """Metrics of a training whose curves are kept."""


GO1, HOVER, PARTIAL = "locomotion/go1-joystick-flat", "swarm/hover", "benchmarks/partial_hover.py"
SPARSE = "benchmarks/sparse_drawer.py"
ON = ("swarm/gate-race", "--start-from", "runs/race")
UNTAUGHT = ("--ppo.critic.hidden", "64", "65")  # a critic of other layers than the run's, which does not fit
ABLATIONS: Mapping[str, Ablation] = {
    "symmetry": Ablation(
        arms={
            "none": (GO1, "--ppo.symmetry.no-network"),
            "network": (GO1,),
        },
        measures=("return", "velocity_error", "failure", "length"),
    ),
    "symmetry-hover": Ablation(
        arms={
            "none": (HOVER,),
            "network": (HOVER, "--ppo.symmetry.network"),
        },
        measures=("return", "success", "position_error"),
    ),
    "memory": Ablation(
        arms={
            "none": (PARTIAL,),
            "gru": (PARTIAL, "--ppo.actor.architecture", "gru", "--ppo.actor.memory", "64"),
            "velocity": (HOVER, "--ppo.epochs", "3", "--ppo.schedule", "adaptive", "--ppo.learning-rate", "1e-3"),
        },
        measures=("return", "success", "position_error"),
    ),
    "curiosity": Ablation(
        arms={"none": (SPARSE,), "curiosity": (SPARSE, "--ppo.curiosity.weight", "0.3")},
        measures=("return", "success"),
    ),
    "schedules": Ablation(
        arms={
            "linear": (HOVER,),
            **{name: (HOVER, "--ppo.schedule", name, "--ppo.learning-rate", "1e-3") for name in ("adaptive", "fixed")},
        },
        measures=("return", "success", "position_error"),
    ),
    "critic": Ablation(
        arms={
            "its critic": ON,
            "untaught": (*ON, *UNTAUGHT),
            "untaught, warmed up": (*ON, *UNTAUGHT, "--ppo.critic-warm-up", "30"),
            "untaught, scattered": (*ON, *UNTAUGHT, "--ppo.critic-warm-up", "30", "--ppo.min-std", "0.25"),
        },
        measures=("return", "success", "explained_variance"),
    ),
    "advantages": Ablation(
        arms={"normalized": (HOVER,), "as they are": (HOVER, "--ppo.no-normalize-advantage")},
        measures=("return", "success", "position_error"),
    ),
}
POINTS = 12  # of a curve: means over so many equal parts of a training


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    ablation: tyro.conf.Positional[str]
    """Which: symmetry, symmetry-hover, memory, curiosity, schedules, critic or advantages."""
    arms: tuple[str, ...] = ()
    """Some of its arms; by default all."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the trainings."""
    steps: int = 3_000_000
    """Environment steps of each."""
    episodes: int = 256
    """Of each evaluation."""
    out: Path = Path("runs/ppo_ablation")
    """Folder for the runs; those that have come to their end are used again."""
    json: Path | None = None
    """File for the results, written after every training."""


def main(settings: Settings) -> None:
    """Measure and print."""
    if settings.ablation not in ABLATIONS:
        raise UnknownNameError("ablation", settings.ablation, ABLATIONS)
    ablation = ABLATIONS[settings.ablation]
    rows: list[dict[str, Any]] = []
    for seed in settings.seeds:
        for arm in settings.arms or ablation.arms:
            rows.append({"arm": arm, "seed": seed} | measured(settings, ablation, arm, seed))
            cli.show(str({key: value for key, value in rows[-1].items() if key != "curves"}))
            cli.write_result(
                settings.json,
                cli.command_line("benchmarks.ppo_ablation"),
                {"steps": settings.steps, "episodes": settings.episodes}
                | {"arms": {name: " ".join(words) for name, words in ablation.arms.items()}}
                | {"summary": summary(rows), "runs": rows},
            )


def measured(settings: Settings, ablation: Ablation, arm: str, seed: int) -> dict[str, Any]:
    """Train one policy, unless it is trained, and read the results."""
    run = settings.out / f"{settings.ablation}_{settings.steps}_{arm}_{seed}"
    cost = run / "processor_seconds.json"
    if not cost.exists():
        before = _processor_seconds()
        words = ("--seed", str(seed), "--steps", str(settings.steps), "--evaluate-episodes", str(settings.episodes))
        command = (sys.executable, "-m", "embodied.train", *ablation.arms[arm], *words)
        subprocess.run((*command, "--out", str(run)), check=True, stdout=subprocess.DEVNULL)
        cost.write_text(json.dumps(_processor_seconds() - before))
    result = json.loads((run / "result.json").read_text())
    kept = ("success", "success_low", "success_high", "fall", "return", *ablation.measures)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        **{name: result[name] for name in kept if name in result},
        "processor_seconds": json.loads(cost.read_text()),
        "curves": {"step": _curve(lines, "step")} | {name: _curve(lines, name) for name in ablation.measures},
    }


def _processor_seconds() -> float:
    """s of all cores that the finished child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _curve(lines: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    """A metric's means over equal parts of the training; of steps, where each part ends."""
    parts = np.array_split(np.arange(len(lines)), POINTS)
    if name == "step":
        return [float(lines[part[-1]]["step"]) for part in parts if len(part)]
    found = [[lines[i][name] for i in part if lines[i].get(name) is not None] for part in parts if len(part)]
    return [float(np.mean(values)) if values else None for values in found]


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Arm -> means over the seeds, and how many there are."""
    found = {}
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        numbers = [name for name, value in own[0].items() if isinstance(value, float) and name != "seed"]
        found[arm] = {name: float(np.mean([row[name] for row in own])) for name in numbers} | {"seeds": len(own)}
    return found


if __name__ == "__main__":
    main(tyro.cli(Settings))
