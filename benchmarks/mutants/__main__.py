"""`python -m benchmarks.mutants`: how many of forty small faults the tests catch.

    python -m benchmarks.mutants --draw-only                         what would be changed
    python -m benchmarks.mutants --json FILE                         the default tests of this commit
    python -m benchmarks.mutants --commit REV --json FILE            those of another one
    python -m benchmarks.mutants --again FILE --marks "slow and not gpu" --json OTHER       slow tests on what survived

One run finds which tests execute each changed line; it is kept in `runs/mutants`. Then each line is changed in turn:
the two files of tests nearest to it run, then some of all tests that execute it, then their whole files, since what
was compiled for one test serves the next, then, with `--whole`, all tests. What fails is to pass without the change. A
result that is there is gone on with.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.drawing import ROOT, Mutant, drawn
from benchmarks.mutants.reach import checkout, environment, reached
from embodied import cli
from embodied.errors import EmbodiedError, guard

LIMIT = 5400  # s of one run of tests: a mutant that makes them hang is caught
NEAREST = 2  # files of tests that run first
MOST_TESTS = 60  # tests that execute a line and run then; those of as many modules as possible


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which faults, which tests."""

    seed: int = 0
    """Of the draw."""
    commit: str = "HEAD"
    """The state of the repository that is changed, and whose tests run."""
    drawn_at: str = ""
    """The state from whose files lines are drawn, by default the same; the other has them by their text."""
    marks: str = "not slow and not gpu"
    """Which tests run, as pytest's -m."""
    again: Path | None = None
    """A result of before: only the mutants that survived there are tried."""
    whole: bool = False
    """Whether a mutant that survives all files that reach it is tried with all tests, too."""
    jobs: int = 2
    """Mutants that are tried side by side, each in a copy of its own."""
    draw_only: bool = False
    """Print the mutants and end."""
    json: Path | None = None
    """Where to write the result, after each mutant."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.mutants")
    with checkout(settings.commit) as copy:
        with checkout(settings.drawn_at or settings.commit) as origin:
            placed = [mutant.placed_in(copy) for mutant in drawn(settings.seed, origin)]
        mutants = [mutant for mutant in placed if mutant is not None]
        if settings.draw_only:
            cli.show("\n".join(mutant.name for mutant in mutants))
            return 0
        survived = survivors(settings.again)
        mutants = [mutant for mutant in mutants if survived is None or mutant.name in survived]
        tests = [[] for _ in mutants] if survived is not None else known_tests(copy, mutants, settings)
    rows = done_before(settings.json)
    names = {row["mutant"] for row in rows}
    waiting = queue.SimpleQueue[tuple[Mutant, list[str]]]()
    for mutant, those in zip(mutants, tests, strict=True):
        if mutant.name not in names:
            waiting.put((mutant, those))
    with concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool:
        for ended in [pool.submit(try_all, waiting, rows, len(mutants), settings) for _ in range(settings.jobs)]:
            ended.result()
    cli.show(f"{sum(row['caught'] for row in rows)} of {len(rows)} caught")
    return 0


def try_all(
    waiting: queue.SimpleQueue[tuple[Mutant, list[str]]], rows: list[dict[str, Any]], count: int, settings: Settings
) -> None:
    """Try mutants in a copy of one's own until none waits; each is written at once."""
    with checkout(settings.commit) as copy:
        while True:
            try:
                mutant, tests = waiting.get_nowait()
            except queue.Empty:
                return
            begun = time.monotonic()
            caught = catching(copy, mutant, tests, settings)
            if caught is not None and "::" in caught and first_failure(copy, [caught], settings) is not None:
                raise EmbodiedError(f"{caught} fails without a change, too")
            rows.append(
                {
                    "mutant": mutant.name,
                    "reached_by": len(tests),
                    "caught": caught is not None,
                    "by": caught,
                    "seconds": round(time.monotonic() - begun),
                }
            )
            cli.say(f"{len(rows)}/{count} {'caught' if caught else 'SURVIVED'} {mutant.name}")
            result = {"mutants": len(rows), "caught": sum(row["caught"] for row in rows), "rows": rows}
            cli.write_result(settings.json, cli.command_line("benchmarks.mutants"), result)


def done_before(file: Path | None) -> list[dict[str, Any]]:
    """Rows of a result that is there."""
    return json.loads(file.read_text(encoding="utf-8"))["rows"] if file is not None and file.exists() else []


def known_tests(copy: Path, mutants: Sequence[Mutant], settings: Settings) -> list[list[str]]:
    """Which tests execute each line, kept for who goes on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=copy, capture_output=True, text=True, check=True
    ).stdout.strip()
    kept = ROOT / "runs" / "mutants" / f"{commit}-{settings.seed}-{settings.marks.replace(' ', '_')}.json"
    if not kept.exists():
        found = reached(copy, mutants, ["-n", str(settings.jobs), "-m", settings.marks])
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(
            json.dumps({mutant.name: tests for mutant, tests in zip(mutants, found, strict=True)}, indent=1)
        )
    by_name = json.loads(kept.read_text())
    return [by_name[mutant.name] for mutant in mutants]


def survivors(file: Path | None) -> set[str] | None:
    """Names of the mutants that a result has as not caught."""
    if file is None:
        return None
    return {row["mutant"] for row in json.loads(file.read_text(encoding="utf-8"))["rows"] if not row["caught"]}


def catching(copy: Path, mutant: Mutant, tests: Sequence[str], settings: Settings) -> str | None:
    """The first test that fails where the line is changed, or None."""
    path = copy / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(sound), encoding="utf-8")
    try:
        for chosen in rounds(mutant, tests, settings):
            failed = first_failure(copy, chosen, settings)
            if failed is not None:
                return failed
        return None
    finally:
        path.write_text(sound, encoding="utf-8")


def rounds(mutant: Mutant, tests: Sequence[str], settings: Settings) -> list[list[str]]:
    """What runs, one after the other, until something fails."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    files.sort(key=lambda file: distance(mutant.file, file))
    of_file = {file: [test for test in tests if test.startswith(f"{file}::")] for file in files}
    spread = [test for turn in range(MOST_TESTS) for file in files for test in of_file[file][turn : turn + 1]]
    chosen = [files[:NEAREST], spread[:MOST_TESTS], files] if tests else []
    return [*chosen, []] if settings.whole or settings.again else chosen


def distance(file: str, test: str) -> tuple[bool, int]:
    """How far a file of tests is from what it may test: by its name, then by its folder."""
    stem, folders = Path(file).stem, Path(file).parent.parts
    shared = len([part for part in folders if part in Path(test).parts])
    return stem not in Path(test).stem, -shared


def first_failure(copy: Path, chosen: Sequence[str], settings: Settings) -> str | None:
    """The first test that fails among the chosen (all of them where none is), or why the run failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", settings.marks, "-rfE", "--tb=no", *chosen]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment(copy), capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return "the tests hang"
    finally:
        shutil.rmtree(copy / ".pytest_cache", ignore_errors=True)
    if done.returncode in (0, 5):
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" - ")[0].partition(" ")[2] if failed else f"pytest ended with {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
