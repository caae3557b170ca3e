"""`python -m benchmarks.bad_input`: generated bad command lines and damaged files, and what the program makes of them.

A case is a command line with something wrong, or a good file (a run, a bundle, a log, a calibration, a dataset,
demonstrations, initial states) that was damaged; a worker process gives it to the program under a limit of time. The
promise: the program works or ends by one of its one-line errors, raises nothing else, comes to an end, and leaves no
new file behind where it ends by an error.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import importlib
import io
import json
import os
import random
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import embodied
from embodied import cli
from embodied.errors import EmbodiedError, guard

COMMANDS = (
    "embodied.bench.__main__", "embodied.collect", "embodied.curves", "embodied.doctor.__main__", "embodied.evaluate",
    "embodied.ladder.__main__", "embodied.list", "embodied.play", "embodied.ship", "embodied.snapshots",
    "embodied.train",
    "policies.demonstrations", "policies.vla.train", "policies.vla.compare", "policies.vla.rl_finetune",
    "policies.vla.asking.train", "policies.vla.asking.evaluate", "sim2real.bundles.bundle", "sim2real.calibrate",
    "sim2real.cameras.calibrate", "sim2real.cameras.calibrate_hand_eye", "sim2real.deploy", "sim2real.excitation",
    "sim2real.export", "sim2real.preflight", "sim2real.twin", "tasks.grasping.inhand.gaits",
    "tasks.grasping.planner.grasp_library", "tasks.questions.clutter.score", "tasks.questions.clutter.write",
    "tasks.questions.cooperation.score", "tasks.questions.cooperation.write",
)  # fmt: skip
FLAGS = (
    "seed", "num-envs", "steps", "episodes", "policy", "engine", "device", "out", "json", "resume", "task", "only",
    "cameras", "resolution", "config.agents", "calibration", "initial-states", "algorithm", "robot", "address",
    "command", "minutes", "measures", "video", "host", "port", "impl", "threads", "start-from", "evaluate-episodes",
)  # fmt: skip
WORDS = (
    "", "-1", "0", "1e999", "nan", "-inf", "1e30", "99999999999999999999", "0x10", "1.5", "None", "[]", "{}", "../..",
    "/dev/null/x", "/proc/self/mem", "swarm/hover", "swarm/hovr", "mt10", "shipped", "expert", "a\nb",
    "%s%n", "x" * 5000, "--", "-", "=", "--=", "cuda:99", "cpu", "mujoco", "rigid", "runs", ".", "/", "~", "$HOME",
    "\udcff",
)  # fmt: skip
CERTAINLY_WRONG = ("--no-such-flag", "--seed=-1", "--seed=x", "--json=", "--num-envs=x", "--out=/proc/no/such/folder")
LIMIT = 30.0  # s that a bad case may take: importing and compiling counts
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 1e308, float("nan"), "", "../../../etc/passwd", "x" * 10000, [], {}, [[]] * 1000,
    {"a": {}}, [1e30] * 10, "\u0000",
)  # fmt: skip


class SlowError(BaseException):
    """A case has reached its limit. No `Exception`, so that nothing on the way takes it for its own."""


COMMAND_KINDS = ("command line", "value on a command line")
MEMORY = 24 * 2**30  # bytes of address space of a worker: a bad number must not take the machine


@dataclasses.dataclass(frozen=True)
class Case:
    """One bad input: what it is, and how it is made from a seed."""

    kind: str
    seed: int


# ---------------------------------------------------------------------------------------------------- command lines


def bad_command(rng: random.Random) -> tuple[str, list[str]]:
    """A command and words for it, of which at least one is wrong for every command."""
    command = rng.choice(COMMANDS)
    words = [rng.choice(WORDS) for _ in range(rng.randrange(3))]
    for _ in range(rng.randrange(4)):
        flag, value = rng.choice(FLAGS), rng.choice(WORDS)
        words += [f"--{flag}={value}"] if rng.random() < 0.5 else [f"--{flag}", value]
    words.insert(rng.randrange(len(words) + 1), rng.choice(CERTAINLY_WRONG[:1] * 3 + CERTAINLY_WRONG))
    if "--no-such-flag" not in words:
        words.append("--no-such-flag")
    rng.shuffle(words)
    return command, words


def run_command(command: str, words: list[str]) -> str:
    """Call a command as the shell would, in this process; how it ended."""
    sys.argv = [command, *words]
    module = importlib.import_module(command)
    try:
        scripted = not hasattr(module, "main")
        code = 0 if scripted and runpy.run_module(command, run_name="__main__") else module.main(words)
    except SystemExit as stop:
        return f"exit {stop.code}"
    return f"exit {code}"


SKELETONS: tuple[tuple[str, ...], ...] = (
    (
        "embodied.evaluate",
        "swarm/hover",
        "--policy=zero",
        "--episodes=4",
        "--seed=0",
        "--engine=rigid",
        "--json=a.json",
    ),
    ("embodied.train", "swarm/hover", "--num-envs=32", "--steps=768", "--evaluate-episodes=0", "--out=run", "--seed=0"),
    (
        "embodied.bench.__main__",
        "swarm/hover",
        "--engine=rigid",
        "--num-envs=32",
        "--turns=1",
        "--steps=1",
        "--json=b.json",
    ),
    ("embodied.list", "swarm/hover"),
    ("embodied.curves", "GOOD/run", "--out=c.png", "--measures=return", "--bins=10"),
    ("embodied.ship", "GOOD/run", "swarm/hover"),
    ("embodied.doctor.__main__", "--rehearse", "--only=graph_modes", "--minutes=1", "--json=d.json"),
    ("policies.demonstrations", "swarm/hover", "--policy=shipped", "--episodes=2", "--failures", "--out=d.safetensors"),
    ("sim2real.bundles.bundle", "GOOD/bundle"),
    ("sim2real.export", "swarm/hover", "--out=bundle"),
    ("sim2real.preflight", "GOOD/log.csv", "--robot=go1", "--recover=r.csv"),
    ("sim2real.deploy", "GOOD/bundle", "--robot=simulated", "--seconds=0.1", "--log=l.mcap", "--json=e.json"),
)
"""Commands that end soon, of which one value is replaced; GOOD is the folder of good files."""


def bad_value(rng: random.Random, good: Path) -> tuple[str, list[str]]:
    """A short command with one of its values replaced by a strange one, or with one more flag."""
    command, *words = rng.choice(SKELETONS)
    words = [word.replace("GOOD", str(good)) for word in words]
    index, value = rng.randrange(len(words)), rng.choice(WORDS)
    flag, equals, _ = words[index].partition("=")
    if (value.isdigit() and len(value) < 3) or value in ("runs", ".", "/", "~", "$HOME"):
        value = "-1"  # what may work, and take long
    words[index] = f"{flag}={value}" if equals else value
    return command, words


# ------------------------------------------------------------------------------------------------------------- files


def make_good(folder: Path) -> None:
    """One good file or folder of every kind that the program reads."""
    import numpy as np

    from sim2real.logs.log import Channel, Log
    from sim2real.logs.read_log import write_log

    def call(*words: str) -> None:
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=Path.cwd())
        if done.returncode:
            raise EmbodiedError(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")

    small = ["--num-envs", "32", "--steps", "2048", "--evaluate-episodes", "0"]
    call("embodied.train", "swarm/hover", "--out", str(folder / "run"), *small)
    call("sim2real.export", "swarm/hover", "--out", str(folder / "bundle"))
    words = ["--policy", "shipped", "--episodes", "2", "--failures", "--out", str(folder / "demos.safetensors")]
    call("policies.demonstrations", "swarm/hover", *words)
    t = np.arange(0.0, 2.0, 0.01)
    names = tuple(f"j{index}" for index in range(3))
    log = Log({"joint_pos": Channel(t, np.sin(t)[:, None] * np.ones(3), names, "rad")})
    for suffix in ("csv", "mcap"):
        write_log(folder / f"log.{suffix}", log)
    good_calibration().save(folder)
    call("embodied.collect", "manipulation/reach", "--out", str(folder / "dataset"), "--episodes", "1")


def good_calibration() -> Any:
    """A calibration of a Go1, of whose parameters two were estimated."""
    from benchmarks import calibration_logs
    from sim2real.identification.calibration import Calibration, Direction, Estimate, OpenLoop
    from sim2real.twins.named import make_twin

    leg = make_twin("go1", calibration_logs.empty(("joint_pos",), ("FR_hip", "FR_thigh", "FR_calf")))
    chosen = tuple(Estimate(parameter, parameter.nominal, 0.1) for parameter in leg.parameters[:4])
    error = OpenLoop("joint_pos", 0.5, 10, 0.2, 0.1, 0.1, 0.01)
    free = sum(estimate.parameter.free for estimate in chosen)
    covariance = tuple(tuple(0.01 * (row == column) for column in range(free)) for row in range(free))
    direction = Direction((chosen[0].name,), (1.0,), 2.0)
    return Calibration("go1", chosen, covariance, (direction,), (error,), 0.002, 1.0, 1.0, True, "log.csv")


def read_run(path: Path) -> None:
    from embodied.storage.runs import Run
    from policies.training.loading import load_policy

    run = Run.open(path)
    run.metrics()
    run.load()
    load_policy(str(path), hover())


_HOVER: list[Any] = []


def hover() -> Any:
    """An environment that policies are loaded for."""
    if not _HOVER:
        _HOVER.append(embodied.make("swarm/hover", 2))
    return _HOVER[0]


def read_bundle(path: Path) -> None:
    from sim2real.bundles import bundle

    bundle.load(path)


def read_log(path: Path) -> None:
    run_command("sim2real.preflight", [str(path)])


def read_demonstrations(path: Path) -> None:
    from policies.data import demonstrations

    demonstrations.load(path, hover().observation_spec, hover().action_size)
    demonstrations.load_source(path)


def read_initial_states(path: Path) -> None:
    from embodied.core import initial_states

    initial_states.load(path, hover().task)


def read_calibration(path: Path) -> None:
    from sim2real.identification import calibration

    calibration.load(path)


def read_dataset(path: Path) -> None:
    from embodied.storage.datasets.reader import open_dataset

    for episode in open_dataset(path):
        del episode


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "run": ("run", read_run),
    "bundle": ("bundle", read_bundle),
    "csv log": ("log.csv", read_log),
    "mcap log": ("log.mcap", read_log),
    "demonstrations": ("demos.safetensors", read_demonstrations),
    "initial states": ("demos.safetensors", read_initial_states),
    "calibration": ("calibration.json", read_calibration),
    "dataset": ("dataset", read_dataset),
}
"""Kind -> the good file, and what reads it."""


def damage(path: Path, rng: random.Random) -> str:
    """Damage a file, or one file of a folder; returns how."""
    if path.is_dir():
        path = rng.choice(sorted(item for item in path.rglob("*") if item.is_file()))
    ways = [truncate, flip, scramble, replace_by_other]
    if path.suffix in (".json", ".jsonl"):
        ways += [edit_json] * 4
    if path.suffix == ".csv":
        ways += [edit_csv] * 3
    if path.suffix == ".safetensors":
        ways += [edit_header] * 3
    way = rng.choice(ways)
    way(path, rng)
    return f"{way.__name__} {path.name}"


def truncate(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 8, 100))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(data)


def scramble(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(rng.choice((0, 1, 7, 100, 10_000))))


def replace_by_other(path: Path, rng: random.Random) -> None:
    """A folder, a pipe, a link to nowhere, to itself, to a device, or very deep JSON in a file's place."""
    path.unlink()
    way = rng.randrange(6)
    if way == 0:
        path.mkdir()
    elif way == 1:
        os.mkfifo(path)
    elif way == 5:
        path.write_text("[" * 100_000)
    else:
        path.symlink_to(("/no/such/file", path.name, "/dev/zero")[way - 2])


def edit_json(path: Path, rng: random.Random) -> None:
    """Other values in a JSON file, sealed again, so that they are looked at and not only their checksum."""
    from embodied.storage.files import seal

    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    index = rng.randrange(len(lines))
    document = json.loads(lines[index])
    sealed = isinstance(document, dict) and document.pop("sha256", None) is not None
    for _ in range(rng.choice((1, 1, 3))):
        document = with_other_value(document, rng)
    if sealed and isinstance(document, dict):
        with contextlib.suppress(ValueError, TypeError):
            lines[index] = seal(document).decode()
            path.write_text("\n".join(lines))
            refresh_manifest(path)
            return
    lines[index] = json.dumps(document)
    path.write_text("\n".join(lines))
    refresh_manifest(path)


def with_other_value(value: Any, rng: random.Random) -> Any:
    """A JSON value with one place in it changed, removed or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {name: inner for name, inner in value.items() if name != key}
        return value | {key: with_other_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        index = rng.randrange(len(value))
        return [*value[:index], with_other_value(value[index], rng), *value[index + 1 :]]
    return rng.choice(VALUES)


def refresh_manifest(path: Path) -> None:
    """Let a bundle's manifest agree with an edited file: an attacker would."""
    from embodied.storage.files import seal

    manifest = path.parent / "manifest.json"
    if path == manifest or not manifest.exists():
        return
    document = json.loads(manifest.read_text())
    document.pop("sha256", None)
    data = path.read_bytes()
    document["files"][path.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest.write_bytes(seal(document))


def edit_csv(path: Path, rng: random.Random) -> None:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    for _ in range(rng.choice((1, 5))):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(("", "nan", "1e999", "x", '"', "-0", "9" * 400, "\x00"))
    path.write_text("\n".join(",".join(row) for row in rows))


def edit_header(path: Path, rng: random.Random) -> None:
    """Other shapes, types and offsets of tensors."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(with_other_value(json.loads(data[8 : 8 + length]), rng)).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])


# ------------------------------------------------------------------------------------------------------------ worker


def attempt(case: Case, good: Path, scratch: Path) -> dict[str, Any]:
    """Run one case in this process."""
    rng = random.Random(case.seed)
    what, act = "", lambda: ""
    if case.kind in COMMAND_KINDS:
        command, words = bad_command(rng) if case.kind == COMMAND_KINDS[0] else bad_value(rng, good)
        what, act = f"{command} {words!r}"[:300], lambda: run_command(command, words)
    else:
        name, reader = FILES[case.kind]
        target = scratch / Path(name).name
        copy = shutil.copytree if (good / name).is_dir() else shutil.copy
        copy(good / name, target)
        what = damage(target, rng)
        act = lambda: reader(target) or "read"  # noqa: E731
    before, begun = listed(scratch), time.perf_counter()
    row: dict[str, Any] = {"kind": case.kind, "seed": case.seed, "what": what}
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            row["ended"] = str(act())
    except EmbodiedError as error:
        row["ended"] = "refused"
        if len(str(error).splitlines()) > 1:
            row["long"] = str(error)[:200]
    except SystemExit as stop:
        row["ended"] = f"exit {stop.code}"
    except SlowError:
        row["hang"] = True
    except BaseException as error:
        row["exception"] = f"{type(error).__name__}: {error}"[:300]
        row["where"] = traceback.format_exc().strip().splitlines()[-3:-1]
    if "Traceback" in said.getvalue():
        row["exception"] = said.getvalue()[-300:]
    row["seconds"] = time.perf_counter() - begun
    failed = row.get("ended", "").startswith("exit") and row["ended"] != "exit 0"
    if case.kind in COMMAND_KINDS and failed and (left := listed(scratch) - before):
        row["left"] = sorted(left)[:5]
    return row


def is_fault(row: dict[str, Any]) -> bool:
    """Whether a case broke the promise."""
    return bool({"exception", "hang", "left", "long"} & row.keys())


def listed(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def work(good: Path, cases: list[Case], out: Path) -> None:
    """Run cases one after the other, a line of JSON each."""

    def stop(*_: object) -> None:
        raise SlowError

    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    home = Path.cwd()
    with out.open("a") as file:
        for case in cases:
            with tempfile.TemporaryDirectory() as scratch:
                os.chdir(scratch)
                signal.setitimer(signal.ITIMER_REAL, LIMIT)
                row = attempt(case, good, Path(scratch))
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.chdir(home)
            file.write(json.dumps(row) + "\n")
            file.flush()


# -------------------------------------------------------------------------------------------------------------- main


def cases_of(count: int, seed: int) -> Iterator[Case]:
    """Quarters of command lines and of values on them, and half files, in turns."""
    kinds = [*FILES]
    for index in range(count):
        kind = COMMAND_KINDS[index // 2 % 2] if index % 2 == 0 else kinds[index // 2 % len(kinds)]
        yield Case(kind, seed + index)


def run(count: int, seed: int, good: Path) -> list[dict[str, Any]]:
    """All cases, by workers that are replaced where one dies or does not come to an end."""
    waiting, rows = list(cases_of(count, seed)), []
    with cli.Line("bad input", count) as line, tempfile.TemporaryDirectory() as folder:
        while waiting:
            out = Path(folder) / "rows.jsonl"
            out.write_text("")
            chunk = json.dumps([dataclasses.asdict(case) for case in waiting[:200]])
            words = [sys.executable, "-m", "benchmarks.bad_input", "--worker", str(good), str(out)]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert process.stdin is not None
            process.stdin.write(chunk)
            process.stdin.close()
            seen, since = 0, time.monotonic()
            while process.poll() is None and time.monotonic() - since < 3 * LIMIT:
                time.sleep(0.2)
                if (done := out.read_text().count("\n")) != seen:
                    seen, since = done, time.monotonic()
                    line.update(len(rows) + seen, "")
            alive = process.poll() is None
            process.kill()
            process.wait()
            new = [json.loads(text) for text in out.read_text().splitlines()]
            if len(new) < len(waiting[:200]):  # the worker died of this case, or hangs in it
                case = dataclasses.asdict(waiting[len(new)])
                new.append(case | ({"hang": True} if alive else {"exception": f"died with {process.returncode}"}))
            rows += new
            waiting = waiting[len(new) :]
    return rows


@guard
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bad_input", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--good", type=Path, help="folder of good files, made where it does not exist")
    parser.add_argument("--worker", nargs=2, type=Path, help=argparse.SUPPRESS)
    settings = parser.parse_args(arguments)
    if settings.worker:
        cases = [Case(**row) for row in json.load(sys.stdin)]
        work(settings.worker[0], cases, settings.worker[1])
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        good = settings.good or Path(temporary) / "good"
        if not good.exists():
            good.mkdir(parents=True)
            make_good(good)
        rows = run(settings.cases, settings.seed, good.resolve())
    faults = [row for row in rows if is_fault(row)]
    for row in faults:
        print(json.dumps(row))
    totals = {
        "cases": len(rows),
        "kinds": dict(collections.Counter(row["kind"] for row in rows)),
        "ended": dict(collections.Counter(row.get("ended", "fault") for row in rows)),
        "tracebacks": sum("exception" in row for row in rows),
        "hangs": sum("hang" in row for row in rows),
        "files_left_by_commands": sum("left" in row for row in rows),
        "longest_seconds": max(row.get("seconds", 0.0) for row in rows),
        "limit_seconds": LIMIT,
        "faults": faults,
    }
    cli.show(cli.table("bad input", {name: str(value)[:200] for name, value in totals.items()}))
    cli.write_result(settings.json, cli.command_line("benchmarks.bad_input"), totals)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
