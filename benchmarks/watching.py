"""`python -m benchmarks.watching`: by how much a viewer beside it slows a training, `train --watch`.

Trainings with and without it take turns, each in a process of its own; the rate is that of the whole training, without
the compilation before its first iteration. Nobody opens the page: a browser on the same machine costs what it costs.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from embodied import cli
from embodied.errors import guard
from embodied.storage.runs import Run


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    task: str = "swarm/hover"
    """Task that is trained."""
    steps: int = 4_000_000
    """Environment steps of each training."""
    turns: int = 5
    """How often the two take turns."""
    json: Path | None = None
    """Where to write the result."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "watching")
    rates: dict[bool, list[float]] = {False: [], True: []}
    with cli.Line("watching", 2 * settings.turns) as line, tempfile.TemporaryDirectory() as folder:
        for turn in range(settings.turns):
            for watched in (False, True) if turn % 2 == 0 else (True, False):
                rates[watched].append(rate(settings, Path(folder) / f"{turn}-{watched}", watched))
                line.update(sum(map(len, rates.values())), f"{rates[watched][-1]:,.0f} steps/s")
    alone, watched = (statistics.median(rates[which]) for which in (False, True))
    slower = [1 - with_it / without for without, with_it in zip(rates[False], rates[True], strict=True)]
    result = {
        "task": settings.task,
        "steps": settings.steps,
        "env_steps_per_second": alone,
        "env_steps_per_second_watched": watched,
        "slower": statistics.median(slower),
        "slower_in_each_turn": slower,
    }
    cli.console().print(f"alone {alone:,.0f} steps/s, watched {watched:,.0f}: {100 * result['slower']:.1f} % slower")
    cli.write_result(settings.json, cli.command_line("benchmarks.watching"), result)
    return 0


def rate(settings: Settings, out: Path, watched: bool) -> float:
    """Environment steps per second of one training, from its first iteration to its last."""
    words = [sys.executable, "-m", "embodied.train", settings.task, "--steps", str(settings.steps), "--out", str(out)]
    words += ["--evaluate-episodes", "0", *(["--watch"] if watched else [])]
    subprocess.run(words, check=True, capture_output=True)
    lines = Run.open(out).metrics()
    first, last = lines[0], lines[-1]
    return (last["step"] - first["step"]) / (last["time"] - first["time"])


if __name__ == "__main__":
    sys.exit(main())
