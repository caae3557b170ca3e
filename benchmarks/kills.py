"""`python -m benchmarks.kills`: a training that is killed again and again at random moments, and goes on each time.

Each life of the training begins (the first by `train`, later ones by `train --resume`), and after a random time gets
SIGKILL. Then every checkpoint in the run is loaded. What counts: checkpoints that do not load, resumes that fail, and
steps that a checkpoint had and the next life did not go on from.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.storage import checkpoints
from embodied.storage.runs import CHECKPOINTS

FOREVER = 10**9  # environment steps: more than all lives together take


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the kills."""

    kills: int = 100
    """Lives of the training."""
    task: str = "swarm/hover"
    """Task of the training."""
    num_envs: int = 64
    """Environments."""
    checkpoint_seconds: float = 0.05
    """Seconds between checkpoints: so few that most kills meet one that is being written."""
    longest: float = 3.0
    """s of a life after its first new checkpoint, at most."""
    seed: int = 0
    """Seed of the moments."""
    json: Path | None = None
    """File for the result."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.kills")
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        result = kill_again_and_again(settings, folder / "run")
    finally:
        shutil.rmtree(folder)
    cli.show(cli.table("kills", {name: str(value) for name, value in result.items()}))
    cli.write_result(settings.json, cli.command_line("benchmarks.kills"), result)
    return 1 if result["unloadable"] or result["failed_resumes"] or result["lost"] else 0


def kill_again_and_again(settings: Settings, run: Path) -> dict[str, Any]:
    """Outcome of all lives."""
    moments = random.Random(settings.seed)
    result: dict[str, Any] = {"kills": 0, "checkpoints_loaded": 0, "unloadable": 0, "failed_resumes": 0, "lost": 0}
    newest = 0
    with cli.Line("kills", settings.kills) as line:
        for _ in range(settings.kills):
            with tempfile.TemporaryFile("w+") as said:
                process = subprocess.Popen(command(settings, run), stdout=said, stderr=said)
                ended = live(process, run, newest, moments.uniform(0, settings.longest))
                process.send_signal(signal.SIGKILL)
                process.wait()
                if ended:
                    said.seek(0)
                    result["failed_resumes"] += 1
                    result["last_words"] = said.read().strip().splitlines()[-1:]
            found, broken = load_all(run / CHECKPOINTS)
            result["kills"] += 1
            result["checkpoints_loaded"] += len(found)
            result["unloadable"] += broken
            result["lost"] += not found or max(found) < newest
            newest = max([newest, *found])
            line.update(result["kills"], f"{newest} steps, {result['unloadable']} unloadable")
    return result | {"steps": newest}


def command(settings: Settings, run: Path) -> list[str]:
    """Command that begins the training, or goes on with it."""
    if run.exists():
        return [sys.executable, "-m", "embodied.train", "--resume", str(run)]
    words = [settings.task, "--out", str(run), "--num-envs", str(settings.num_envs), "--steps", str(FOREVER)]
    words += ["--checkpoint-seconds", str(settings.checkpoint_seconds)]
    return [sys.executable, "-m", "embodied.train", *words]


def live(process: subprocess.Popen[Any], run: Path, newest: int, more: float) -> bool:
    """Wait until there is a newer checkpoint, and `more` seconds; True where the training ended by itself."""
    deadline, folder = time.monotonic() + 120, run / CHECKPOINTS
    while (
        time.monotonic() < deadline and process.poll() is None and max(checkpoints.steps(folder), default=0) <= newest
    ):
        time.sleep(0.01)
    try:
        process.wait(more)
    except subprocess.TimeoutExpired:
        return False
    return True


def load_all(folder: Path) -> tuple[list[int], int]:
    """Steps of the checkpoints that load, and how many do not."""
    found, broken = [], 0
    for step in checkpoints.steps(folder):
        try:
            found.append(checkpoints.load(folder / checkpoints.name_of(step)).step)
        except EmbodiedError:
            broken += 1
    return found, broken


if __name__ == "__main__":
    sys.exit(main())
