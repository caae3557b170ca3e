"""`python -m benchmarks.test_time`: how long the tests take in a fresh clone, caches cold.

    python -m benchmarks.test_time --json FILE                  the README's command, its fresh environment included
    python -m benchmarks.test_time --busy 2 --json FILE         beside two processes that compute
    python -m benchmarks.test_time --script .ci/run --json FILE
    python -m benchmarks.test_time --touch policies/off_policy/sac.py --json FILE   `make test-changed` after a change

A further run is appended to a file that is there. Each row names the commit that was cloned; `dirty` in the record
is of the folder from which that was done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mutants.reach import checkout, commit_of
from embodied import cli
from embodied.errors import guard

ENDED = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the test run."""

    commit: str = "HEAD"
    """The state of the repository that is cloned."""
    script: str = ""
    """A command of the clone instead of the README's."""
    touch: str = ""
    """A file of the clone to change first; then `make test-changed` runs, in this environment."""
    busy: int = 0
    """Further processes that compute meanwhile."""
    json: Path | None = None
    """File to which the result is appended."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.test_time")
    with checkout(settings.commit) as copy, busy(settings.busy):
        command = settings.script or (changed(copy, settings.touch) if settings.touch else readme_command(copy))
        named = {"commit": commit_of(copy), "script": settings.script, "touched": settings.touch, "busy": settings.busy}
        row = {**named, **measured(command, copy)}
    rows = json.loads(settings.json.read_text())["rows"] if settings.json and settings.json.exists() else []
    cli.write_result(settings.json, cli.command_line("benchmarks.test_time"), {"rows": [*rows, row]})
    cli.show(json.dumps(row, indent=1))
    return int(bool(row["exit"]))


def readme_command(copy: Path) -> str:
    """The first command after the README's mark."""
    return (copy / "README.md").read_text().partition("<!-- tests -->")[2].split("```")[1].partition("\n")[2].strip()


def changed(copy: Path, file: str) -> str:
    """`make test-changed` after a file was changed, though nothing that it does."""
    with (copy / file).open("a") as stream:
        stream.write("\n# changed\n")
    return f"{sys.executable} -m pytest -n 2 --changed"


def measured(command: str, copy: Path) -> dict[str, object]:
    """Seconds, processor time with all children, and what pytest counted."""
    begun, before = time.monotonic(), spent()
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds, processor = time.monotonic() - begun, spent() - before
    cli.say("\n".join(done.stdout.splitlines()[-40:]))
    counts = {word.rstrip("s"): int(count) for count, word in ENDED.findall(done.stdout)}
    return {
        "seconds": round(seconds),
        "processor_seconds": round(processor),
        "exit": done.returncode,
        "counts": counts,
        "tests": re.findall(r"processor time: .*", done.stdout),
        "parts": re.findall(r"^\d+ s  .*", done.stdout, re.MULTILINE),
    }


def spent() -> float:
    """Processor time of the children that ended, s."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Let processes compute meanwhile, each on one core."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()


if __name__ == "__main__":
    sys.exit(main())
