"""The curves of docs/vla.md, from benchmarks/results: supervised fine-tuning, and GRPO beside PPO.

python -m benchmarks.vla_curves
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import tyro

from embodied import cli
from embodied.evaluation.learning_curves import Across, Points, binned, draw

RESULTS = Path("benchmarks/results")
BINS = 18  # points of a curve: an iteration's 160 episodes alone are noisy
TASKS = ("button-press-topdown", "drawer-close", "reach", "window-close", "window-open")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the curves."""

    out: Path = Path("docs")
    """Folder."""


def main(settings: Settings) -> None:
    """Draw both."""
    draw(settings.out / "sft_curves.png", fine_tuning(), Across.STEPS)
    draw(settings.out / "rl_curves.png", reinforcement(), Across.MINUTES)
    cli.show(f"sft_curves.png, rl_curves.png -> {settings.out}")


def fine_tuning() -> dict[str, dict[str, Points]]:
    """Trials, and the error on held-out episodes, of `vla_sft_mt10.json`."""
    result = json.loads((RESULTS / "vla_sft_mt10.json").read_text())
    return {
        measure: {"": [(record["step"], record[measure]) for record in result[kind]]}
        for kind, measure in (("trials", "closed_loop"), ("held_out", "held_out_error"))
    }


def reinforcement() -> dict[str, dict[str, Points]]:
    """Success of the rollouts' episodes against minutes of training, of `vla_one_curves.json`."""
    result = json.loads((RESULTS / "vla_one_curves.json").read_text())
    return {
        measure: {
            name.upper(): binned(
                [(row["train_seconds"] / 60, row[measure]) for row in result[name]["iterations"]], BINS
            )
            for name in ("grpo", "ppo")
        }
        for measure in ("success", *(f"success/manipulation/{task}" for task in TASKS))
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
