"""`python -m benchmarks.watching`: the processor time that a viewer beside a training takes from it, `train --watch`.

Processor time, and not how much slower a training gets: on a machine with other work the latter says nothing. A viewer
is run for a short and for a long time; the difference is its rate, the rest is what it takes to start. The browser that
draws is not measured: it may be on another machine.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

from embodied import cli
from embodied.errors import guard

SHORT, LONG = 4.0, 24.0  # s


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    task: str = "swarm/hover"
    """Task that is shown."""
    policy: str = "shipped"
    """Who acts."""
    json: Path | None = None
    """Where to write the result."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "watching")
    play = [sys.executable, "-m", "embodied.play", settings.task, "--policy", settings.policy]
    playing = [processor_time([*play, "--seconds", f"{seconds:g}"]) for seconds in (SHORT, LONG)]
    waiting = [processor_time(play, ended_after=10.0 + seconds) for seconds in (SHORT, LONG)]
    rates = [(longer - shorter) / (LONG - SHORT) for shorter, longer in (playing, waiting)]
    result = {
        "task": settings.task,
        "playing_processor_seconds_per_second": rates[0],
        "waiting_processor_seconds_per_second": rates[1],
        "start_processor_seconds": playing[0] - SHORT * rates[0],
    }
    cli.console().print(
        f"{settings.task}: {rates[0]:.1%} of a core while it plays, {rates[1]:.1%} while no page is open, "
        f"{result['start_processor_seconds']:.1f} s of one to start"
    )
    cli.write_result(settings.json, cli.command_line("benchmarks.watching"), result)
    return 0


def processor_time(command: list[str], ended_after: float | None = None) -> float:
    """s of user and system time that a command takes to its end, or until it is ended so many s after its start."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    if ended_after is not None:
        time.sleep(ended_after)
        process.terminate()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
