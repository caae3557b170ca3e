"""`python -m embodied.doctor`: what this machine has, what will be used, and how to fix what is wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import json as jsonlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.text import Text

from embodied import cli
from embodied.doctor import examination, machine
from embodied.doctor.machine import Verdict
from embodied.env.factory import default_engine
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, UnknownNameError, guard

EXAMPLES = ("swarm/hover", "locomotion/go1-joystick-flat", "manipulation/reach")  # tasks whose default engines it shows
COLOURS = {Verdict.GOOD: "green", Verdict.NOTE: "yellow", Verdict.WRONG: "red"}
CHILD = "--in-this-process"  # with it the examination starts itself for one check; internal
MINUTES = 8.0  # of the whole GPU examination


@dataclasses.dataclass(frozen=True)
class Settings:
    """Say what this machine has, what will be used, what is wrong, and what fixes it.

    With --gpu, examine the GPU: compile times, parity with C MuJoCo, rates, trainings. Every check runs in a process of
    its own under a limit of time, and the file of --json is written after each.

    Examples:

        python -m embodied.doctor
        python -m embodied.doctor --gpu --json gpu.json
        python -m embodied.doctor --rehearse --only parity racing
    """

    gpu: bool = False
    """Run the examination of the GPU."""
    rehearse: bool = False
    """Run the examination on small sizes and whatever device there is."""
    only: tuple[str, ...] = ()
    """With --gpu or --rehearse: these checks only."""
    minutes: float = MINUTES
    """With --gpu or --rehearse: checks that have not begun by then are left out."""
    json: Path | None = None
    """Also write what was found to this file."""

    def __post_init__(self) -> None:
        known = [check.name for check in examination.CHECKS]
        for name in self.only:
            if name not in known:
                raise UnknownNameError("check", name, known)
        if self.only and not (self.gpu or self.rehearse):
            raise EmbodiedError("--only names checks of the GPU: give --gpu, or --rehearse, beside it")


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if CHILD in words:
        return run_here(words[0], rehearse="--rehearse" in words)
    settings = cli.parse(Settings, words, "doctor")
    result: dict[str, Any] = {} if settings.only else look_at_machine()
    cli.write_result(settings.json, cli.command_line("embodied.doctor"), result)
    if settings.gpu or settings.rehearse:
        examine(settings, result)
    wrong = [
        row["name"] for row in (*result.get("machine", ()), *result.get("checks", ())) if row["verdict"] == "wrong"
    ]
    print(f"{len(wrong)} wrong: {', '.join(wrong)}" if wrong else "nothing is wrong")
    return 1 if wrong else 0


def look_at_machine() -> dict[str, Any]:
    """Print what the machine has and which engine each kind of task will take; the same as plain values."""
    found, rows = [*machine.findings()], {}
    for finding in found:
        text = Text(finding.value, COLOURS[finding.verdict])
        rows[finding.name] = text + Text(f"\n{finding.fix}", "bold") if finding.fix else text
    cli.show(cli.table("this machine", rows))
    registry = join_content()
    try:
        engines: dict[str, str] = {name: default_engine(registry[name]) for name in EXAMPLES}
    except EmbodiedError as error:  # the same as a finding above: JAX is set to use a missing device
        engines = {name: f"none: {error}" for name in EXAMPLES}
    cli.show(cli.table("engines by default", engines))
    return {"machine": [dataclasses.asdict(finding) for finding in found], "engines": engines}


def examine(settings: Settings, result: dict[str, Any]) -> None:
    """Run the checks one after the other, each in its process, and write what is known after each."""
    checks = [check for check in examination.CHECKS if not settings.only or check.name in settings.only]
    begun, rows = time.monotonic(), result.setdefault("checks", [])
    for number, check in enumerate(checks, 1):
        cli.say(f"[{number}/{len(checks)}] {check.name}: {check.what} ...")
        left = 60 * settings.minutes - (time.monotonic() - begun)
        row = run_apart(check, min(check.seconds, left), rehearse=settings.rehearse)
        cli.show(Text(f"{check.name}: {row['verdict']}, {row['seconds']:.0f} s", COLOURS[Verdict(row["verdict"])]))
        cli.show(f"    {row.get('why') or summary(row)}")
        rows.append(row)
        cli.write_result(settings.json, cli.command_line("embodied.doctor"), result)


def run_apart(check: examination.Check, limit: float, *, rehearse: bool) -> dict[str, Any]:
    """Run one check in a process of its own, which is killed with its children at the limit."""
    row: dict[str, Any] = {"name": check.name, "what": check.what, "verdict": str(Verdict.NOTE), "seconds": 0.0}
    if limit < 5:
        return row | {"why": "not run: no time was left"}
    words = [sys.executable, "-m", "embodied.doctor", check.name, CHILD, *(["--rehearse"] if rehearse else [])]
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(words, stdout=printed, stderr=said, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
        row["seconds"] = time.perf_counter() - begun
        printed.seek(0)
        said.seek(0)
        answer = next((line for line in reversed(printed.read().splitlines()) if line.startswith("{")), None)
        if code == 0 and answer:
            return row | jsonlib.loads(answer)
        why = f"not done within {limit:.0f} s" if code is None else examination.last_line(said.read())
        return row | {"verdict": str(Verdict.WRONG), "why": why}


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process, and what it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def run_here(name: str, *, rehearse: bool) -> int:
    """Run one check and print its result as a line of JSON."""
    check = next(check for check in examination.CHECKS if check.name == name)
    try:
        values = check.run(examination.REHEARSAL if rehearse else examination.FULL)
        answer = {"verdict": str(Verdict.GOOD), "values": values}
    except examination.NotHereError as error:
        answer = {"verdict": str(Verdict.NOTE), "why": f"left out: {error}"}
    except EmbodiedError as error:
        answer = {"verdict": str(Verdict.WRONG), "why": str(error)}
    print(jsonlib.dumps(answer))
    return 0


def summary(row: dict[str, Any]) -> str:
    """A check's figures in one line."""
    return ", ".join(shown("", row.get("values", {})))


def shown(name: str, value: Any) -> list[str]:
    """`name value` for every number and text within a value."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in shown(f"{name} {key}".strip(), inner)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        keys = ("num_envs", "env_steps_per_second", "bare_physics_steps_per_second", "pictures_per_second")
        return [", ".join(f"{key} {cli.number(row[key])}" for key in keys if key in row) for row in value]
    if isinstance(value, list):
        return [f"{name} {' '.join(cli.number(item) for item in value)}"]
    return [f"{name} {cli.number(value) if isinstance(value, float) else value}"]


if __name__ == "__main__":
    sys.exit(main())
