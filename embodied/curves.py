"""`python -m embodied.curves`: pictures of how training went, a panel for each measure and a line for each run."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.learning_curves import BINS, Across, called, chosen, curve, draw
from embodied.storage.runs import Run


@dataclasses.dataclass(frozen=True)
class Settings:
    """Draw learning curves of runs: PNG, SVG or PDF, as the file's name ends. Examples:

    python -m embodied.curves runs/swarm/hover/20261121-103000
    python -m embodied.curves runs/vla/grpo runs/vla/ppo --measures success 'success/*' --across minutes --out rl.png
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    measures: tuple[str, ...] = ()
    """Names in metrics.jsonl, * for any part of one; by default success, closed_loop, return, loss, held_out_error."""
    across: Across = Across.STEPS
    """steps or minutes."""
    names: tuple[str, ...] = ()
    """Names of the runs; by default their folders' names."""
    bins: int = BINS
    """Points of a curve at most: fewer are smoother."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("curves.png")
    """The picture."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise EmbodiedError("which runs? python -m embodied.curves RUN ...")
        if self.names and len(self.names) != len(self.runs):
            raise EmbodiedError(f"{len(self.names)} names for {len(self.runs)} runs; expected one for each")
        if len(set(self.names)) < len(self.names):
            raise EmbodiedError(f"--names {' '.join(self.names)}: expected another one for each run")
        if self.bins < 1:
            raise EmbodiedError(f"--bins {self.bins}: expected at least 1")


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "curves")
    names = settings.names or called(settings.runs)
    records = [Run.open(path).metrics() for path in settings.runs]
    measures = chosen(settings.measures, records)
    curves = {
        measure: {
            name: found
            for name, one in zip(names, records, strict=True)
            if (found := curve(one, measure, settings.across, settings.bins))
        }
        for measure in measures
    }
    draw(settings.out, curves, settings.across)
    cli.show(f"{', '.join(measures)} of {len(records)} runs -> {settings.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
