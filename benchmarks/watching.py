"""`python -m benchmarks.watching`: the processor time that a viewer beside a training takes from it, `train --watch`.

Processor time, and not how much slower a training gets: on a machine with other work the latter means nothing. A viewer
is run for a short and a long time, both longer than an episode, since the first end of one compiles the restart; the
difference is its rate, the rest is what it takes to start. The browser that draws is not measured: it may be on another
machine. With --before, another checkout is measured in turns with this one.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.start_up import commit
from embodied import cli
from embodied.errors import guard

ROOT = Path(__file__).resolve().parent.parent
SHORT, LONG = 10.0, 30.0  # s
STARTED = 40.0  # s after which a viewer has compiled what it needs, on a busy machine too


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    task: str = "swarm/hover"
    """Task that is shown."""
    policy: str = "shipped"
    """Policy that acts."""
    before: Path | None = None
    """Another checkout."""
    json: Path | None = None
    """File for the result."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "watching")
    play = [sys.executable, "-m", "embodied.play", settings.task, "--policy", settings.policy]
    roots = [ROOT] + ([settings.before] if settings.before else [])
    playing = {root: [] for root in roots}
    for seconds in (SHORT, LONG):
        for root in roots:
            playing[root].append(processor_time(root, [*play, "--seconds", f"{seconds:g}"]))
    waiting = rate([processor_time(ROOT, play, ended_after=STARTED + seconds) for seconds in (SHORT, LONG)])
    now = rate(playing[ROOT])
    result = {
        "task": settings.task,
        "playing_processor_seconds_per_second": now,
        "waiting_processor_seconds_per_second": waiting,
        "start_processor_seconds": playing[ROOT][0] - SHORT * now,
    }
    said = ""
    if settings.before:
        before = rate(playing[settings.before])
        result |= {"before": commit(settings.before), "playing_before_processor_seconds_per_second": before}
        said = f" (before {before:.1%})"
    cli.say(
        f"{settings.task}: {now:.1%}{said} of a core while it plays, {waiting:.1%} while no page is open, "
        f"{result['start_processor_seconds']:.1f} s of one to start"
    )
    words = f"python -m benchmarks.watching --task {settings.task}{' --before CHECKOUT' if settings.before else ''}"
    cli.write_result(settings.json, words, result)
    return 0


def rate(taken: list[float]) -> float:
    """Processor seconds per second, of what `SHORT` and `LONG` seconds take."""
    return (taken[1] - taken[0]) / (LONG - SHORT)


def processor_time(root: Path, command: list[str], ended_after: float | None = None) -> float:
    """s of user and system time of a checkout's command, to its end or until it is ended so many s after its start."""
    process = subprocess.Popen(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stderr=subprocess.DEVNULL
    )
    if ended_after is not None:
        time.sleep(ended_after)
        process.terminate()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
