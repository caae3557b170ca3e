"""`python -m benchmarks.kills`: long work that is killed again and again at random moments, and goes on each time.

`checkpoints`: each life of an endless training begins (the first by `train`, later ones by `train --resume`), and after
a random time gets SIGKILL. Then every checkpoint in the run is loaded. What counts: checkpoints that do not load,
resumes that fail, and steps that a checkpoint had and the next life did not go on from.

The other jobs come to an end: a training by DAgger, a recording, a sweep and the evaluation of a suite. Each is done
twice by one process, and then by processes that are killed until as many were. What counts: lives that fail, what was
saved before a kill and is not there after it, and ends with another result than that of one process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.errors import EmbodiedError, UnknownNameError, guard
from embodied.storage import checkpoints
from embodied.storage.files import TEMPORARY
from embodied.storage.runs import CHECKPOINTS

FOREVER = 10**9  # environment steps: more than all lives together take
ENDLESS = "checkpoints"
EARLIEST = 0.3  # of the time of one process: kills before mostly meet imports
SAID = "said.txt"  # what the last process printed
TIMED = "second"  # part of the names of figures that differ between two processes
ROOT = Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class Job:
    """Work that comes to an end, done in a folder of its own."""

    words: Callable[[Path], tuple[str, ...]]
    """Of the command that begins, or goes on."""
    saved: Callable[[Path], int]
    """How much is saved; no kill may make it less."""
    result: Callable[[Path], Any]
    """What must be as by one process."""


def training(*words: str) -> Job:
    """A training into `run`: whether its policy and its evaluation are the same, and all that a resume needs."""

    def command(folder: Path) -> tuple[str, ...]:
        if checkpoints.steps(folder / "run" / CHECKPOINTS):
            return ("embodied.train", "--resume", "run")
        shutil.rmtree(folder / "run", ignore_errors=True)  # killed before its first checkpoint, it begins anew
        return ("embodied.train", *words, "--out", "run")

    def result(folder: Path) -> Any:
        newest = checkpoints.latest(folder / "run" / CHECKPOINTS)
        assert newest is not None
        figures = json.loads((folder / "run" / "result.json").read_text())
        return figures["return"], figures["success"], hashes(newest)[checkpoints.TENSORS]

    return Job(command, lambda folder: max(checkpoints.steps(folder / "run" / CHECKPOINTS), default=0), result)


def recording(*words: str) -> Job:
    """A dataset in `demos`: whether it is the same byte by byte."""

    def saved(folder: Path) -> int:
        return len([*folder.glob(f"{TEMPORARY}demos-*/parts/*.parquet"), *folder.glob("demos/data/*/*.parquet")])

    command = ("embodied.collect", *words, "--out", "demos", "--resume")
    return Job(lambda folder: command, saved, lambda folder: hashes(folder / "demos"))


def sweep(*words: str) -> Job:
    """A sweep: whether its trials are the same."""
    command = ("embodied.sweep", *words, "--name", "sweep", "--json", "sweep.json")

    def saved(folder: Path) -> int:
        return len([*folder.glob("runs/**/trial-*/result.json")])

    return Job(lambda folder: command, saved, lambda folder: json.loads((folder / "sweep.json").read_text())["trials"])


def suite(*words: str) -> Job:
    """The evaluation of a suite: whether the results of all tasks are the same."""

    def saved(folder: Path) -> int:
        found = [json.loads(path.read_text())["rows"] for path in folder.glob("runs/evaluations/*/unfinished-*.json")]
        return max(map(len, found), default=0)

    def result(folder: Path) -> Any:
        rows = json.loads((folder / "e.json").read_text())["results"]
        return [{name: value for name, value in row.items() if TIMED not in name} for row in rows]

    return Job(lambda folder: ("embodied.evaluate", *words, "--resume", "--json", "e.json"), saved, result)


def hashes(folder: Path) -> dict[str, str]:
    """Path in a folder -> sha256 of the file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


JOBS: Mapping[str, Job] = {
    "dagger": training(
        "swarm/leader-follower", "--algorithm", "dagger", "--num-envs", "32", "--steps", "64000",
        "--checkpoint-seconds", "0.3", "--evaluate-episodes", "16", "--dagger.save-buffer",
    ),
    "collect": recording(
        "manipulation/reach", "--episodes", "200", "--num-envs", "40", "--cameras", "view", "--resolution", "48"
    ),
    "sweep": sweep(
        "swarm/hover", "--vary", "ppo.learning-rate=1e-4..1e-2,log", "--trials", "3", "--num-envs", "64", "--steps",
        "131072", "--checkpoint-seconds", "0.3", "--evaluate-episodes", "64",
    ),
    "suite": suite("mt10", "--policy", "expert", "--episodes", "2"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the kills."""

    jobs: tuple[str, ...] = (ENDLESS, *JOBS)
    """What is killed."""
    kills: int = 10
    """Of each job."""
    task: str = "swarm/hover"
    """Task of the endless training."""
    num_envs: int = 64
    """Its environments."""
    checkpoint_seconds: float = 0.05
    """Seconds between its checkpoints: so few that most kills meet one that is being written."""
    longest: float = 3.0
    """s of one of its lives after its first new checkpoint, at most."""
    seed: int = 0
    """Seed of the moments."""
    json: Path | None = None
    """File for the result."""

    def __post_init__(self) -> None:
        for name in self.jobs:
            if name not in (ENDLESS, *JOBS):
                raise UnknownNameError("job", name, (ENDLESS, *JOBS))


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.kills")
    result: dict[str, dict[str, Any]] = {}
    for name in settings.jobs:
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            if name == ENDLESS:
                result[name] = kill_again_and_again(settings, Path(folder) / "run")
            else:
                result[name] = kill_job(JOBS[name], name, Path(folder), settings.kills, settings.seed)
        cli.show(cli.table(name, {key: str(value) for key, value in result[name].items()}))
    cli.write_result(settings.json, cli.command_line("benchmarks.kills"), {"jobs": result})
    faults = ("unloadable", "failed", "failed_resumes", "lost", "different")
    return int(any(found.get(fault) for found in result.values() for fault in faults))


def kill_job(job: Job, name: str, folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Outcome of as many kills; each time the job comes to its end, it begins anew elsewhere."""
    moments, seconds = random.Random(seed), 0.0
    result: dict[str, Any] = {"kills": 0, "ends": 0, "failed": 0, "lost": 0, "different": 0}
    found = []
    for whole in (folder / "cold", folder / "warm"):  # compiled programs are kept: the second is as fast as those after
        whole.mkdir()
        begun = time.monotonic()
        if life(job, whole) != 0:
            return result | {"failed": 1, "last_words": (whole / SAID).read_text().strip().splitlines()[-1:]}
        seconds = time.monotonic() - begun
        found.append(job.result(whole))
    expected = found[0]
    result["different"] += found[1] != expected
    with cli.Line(f"kills of {name}", kills) as line:
        while result["kills"] < kills and not result["failed"]:
            place, saved, code = folder / f"{result['ends']}", 0, None
            place.mkdir()
            while code is None:
                last = result["kills"] >= kills
                code = life(job, place, None if last else seconds * moments.uniform(EARLIEST, 1.0))
                before, saved = saved, job.saved(place)
                result["kills"] += code is None
                result["lost"] += code is None and saved < before
                line.update(result["kills"], f"{saved} saved, {result['ends']} ends")
            if code != 0:
                result |= {"failed": 1, "last_words": (place / SAID).read_text().strip().splitlines()[-1:]}
            result["ends"] += 1
            result["different"] += code == 0 and job.result(place) != expected
    return result | {"seconds_of_one_process": seconds}


def life(job: Job, folder: Path, seconds: float | None = None) -> int | None:
    """Let a process begin or go on; its exit code, or None where it was killed after some seconds."""
    words = [sys.executable, "-m", *job.words(folder)]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with (folder / SAID).open("wb") as said:
        process = subprocess.Popen(words, cwd=folder, env=told, stdout=said, stderr=said)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


def kill_again_and_again(settings: Settings, run: Path) -> dict[str, Any]:
    """Outcome of all lives of the endless training."""
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
