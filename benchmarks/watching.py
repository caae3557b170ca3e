"""`python -m benchmarks.watching`: by how much a viewer beside it slows a training.

Trainings take turns: alone; with `--watch`, while nobody opens the page; beside a viewer that plays all the time. Each
is a process of its own, and the rate is that from its first iteration to its last. The browser that draws is not
measured: it may be on another machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.errors import guard
from embodied.storage.runs import Run
from policies.training.watching import NICE

ALONE, WATCHED, PLAYING = HOW = ("alone", "watched", "beside_a_playing_viewer")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    task: str = "swarm/hover"
    """Task that is trained."""
    steps: int = 4_000_000
    """Environment steps of each training."""
    turns: int = 5
    """How often the two take turns."""
    settling: float = 20.0
    """s that a viewer has to start before the training beside it does."""
    json: Path | None = None
    """Where to write the result."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "watching")
    rates: dict[str, list[float]] = {how: [] for how in HOW}
    with cli.Line("watching", len(HOW) * settings.turns) as line, tempfile.TemporaryDirectory() as folder:
        for turn in range(settings.turns):
            for how in HOW if turn % 2 == 0 else HOW[::-1]:
                rates[how].append(rate(settings, Path(folder) / f"{turn}-{how}", how))
                line.update(sum(map(len, rates.values())), f"{how}: {rates[how][-1]:,.0f} steps/s")
    result: dict[str, Any] = {"task": settings.task, "steps": settings.steps}
    for how, found in rates.items():
        slower = [1 - one / alone for one, alone in zip(found, rates[ALONE], strict=True)]
        result[how] = {
            "env_steps_per_second": statistics.median(found),
            "slower": statistics.median(slower),
            "slower_in_each_turn": slower,
        }
        cli.console().print(f"{how}: {statistics.median(found):,.0f} steps/s, {statistics.median(slower):.1%} slower")
    cli.write_result(settings.json, cli.command_line("benchmarks.watching"), result)
    return 0


def rate(settings: Settings, out: Path, how: str) -> float:
    """Environment steps per second of one training, from its first iteration to its last."""
    module = [sys.executable, "-m"]
    words = [*module, "embodied.train", settings.task, "--steps", str(settings.steps), "--out", str(out)]
    words += ["--evaluate-episodes", "0", *(["--watch"] if how == WATCHED else [])]
    with contextlib.ExitStack() as stack:
        if how == PLAYING:
            # A length makes it play without a visitor.
            play = [
                *module,
                "embodied.play",
                settings.task,
                "--policy",
                "zero",
                "--nice",
                str(NICE),
                "--seconds",
                "1e6",
            ]
            viewer = stack.enter_context(subprocess.Popen(play, stderr=subprocess.DEVNULL))
            stack.callback(viewer.terminate)
            time.sleep(settings.settling)
        subprocess.run(words, check=True, capture_output=True)
    lines = Run.open(out).metrics()
    first, last = lines[0], lines[-1]
    return (last["step"] - first["step"]) / (last["time"] - first["time"])


if __name__ == "__main__":
    sys.exit(main())
