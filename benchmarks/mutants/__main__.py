"""`python -m benchmarks.mutants`: how many of forty small faults the tests catch.

    python -m benchmarks.mutants --draw-only                         what would be changed
    python -m benchmarks.mutants --json FILE                         the default tests of this commit
    python -m benchmarks.mutants --commit REV --json FILE            those of another one
    python -m benchmarks.mutants --again FILE --marks "slow and not gpu" --json OTHER       slow tests on what survived

Each line is changed in turn, and the files of tests nearest to it by their names run. For what survives those, one run
finds which tests execute each line (kept in `runs/mutants`): some of them run, then their whole files, since what was
compiled for one test serves the next, then, with `--whole`, all tests. What fails is to pass without the change. A
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.drawing import ROOT, Mutant, drawn
from benchmarks.mutants.reach import checkout, commit_of, environment, reached
from embodied import cli
from embodied.errors import EmbodiedError, guard

LIMIT = 5400  # s of one run of tests: a mutant that makes them hang is caught
NEAREST = 4  # files of tests that run first
MOST_TESTS = 60  # tests that execute a line and run then; those of as many modules as possible
Rounds = Callable[[Mutant], list[list[str]]]
"""Which tests run for a mutant, one choice after the other until something fails; an empty one is all tests."""


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
    """File for the result, written after each mutant."""


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
        files = sorted(str(path.relative_to(copy)) for path in copy.glob("tests/**/test_*.py"))
        result = Result(settings.json, len(mutants))
        left = try_all(result.missing(mutants), lambda mutant: [by_distance(mutant, files)[:NEAREST]], result, settings)
        tests = known_tests(copy, left, settings) if left and survived is None else {}
    for mutant in try_all(left, lambda mutant: rounds(mutant, tests.get(mutant.name, []), settings), result, settings):
        result.add(mutant, None, 0.0)
    cli.show(f"{sum(row['caught'] for row in result.rows)} of {len(result.rows)} caught")
    return 0


class Result:
    """Results so far, in a file that is written after each mutant and gone on with."""

    def __init__(self, file: Path | None, count: int) -> None:
        self.file, self.count = file, count
        self.rows: list[dict[str, Any]] = []
        if file is not None and file.exists():
            self.rows = json.loads(file.read_text(encoding="utf-8"))["rows"]

    def missing(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        """Those that have no row yet."""
        names = {row["mutant"] for row in self.rows}
        return [mutant for mutant in mutants if mutant.name not in names]

    def add(self, mutant: Mutant, caught: str | None, seconds: float) -> None:
        """Note which test, if any, caught a mutant, and write all of them."""
        row = {"mutant": mutant.name, "caught": caught is not None, "by": caught, "seconds": round(seconds)}
        self.rows.append(row)
        cli.say(f"{len(self.rows)}/{self.count} {'caught' if caught else 'SURVIVED'} {mutant.name}")
        caught_all = sum(row["caught"] for row in self.rows)
        values = {"mutants": len(self.rows), "caught": caught_all, "rows": self.rows}
        cli.write_result(self.file, cli.command_line("benchmarks.mutants"), values)


def try_all(mutants: Sequence[Mutant], choose: Rounds, result: Result, settings: Settings) -> list[Mutant]:
    """Try mutants side by side and note those that are caught; the others are returned."""
    waiting = queue.SimpleQueue[Mutant]()
    for mutant in mutants:
        waiting.put(mutant)
    with concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool:
        workers = [pool.submit(try_next, waiting, choose, result, settings) for _ in range(settings.jobs)]
        return [mutant for worker in workers for mutant in worker.result()]


def try_next(waiting: queue.SimpleQueue[Mutant], choose: Rounds, result: Result, settings: Settings) -> list[Mutant]:
    """Try mutants in a copy of its own until none waits; those that survive are returned."""
    survived: list[Mutant] = []
    if waiting.empty():
        return survived
    with checkout(settings.commit) as copy:
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return survived
            begun = time.monotonic()
            caught = catching(copy, mutant, choose(mutant), settings)
            if caught is None:
                survived.append(mutant)
                continue
            if "::" in caught and first_failure(copy, [caught], settings) is not None:
                raise EmbodiedError(f"{caught} fails without a change, too")
            result.add(mutant, caught, time.monotonic() - begun)


def known_tests(copy: Path, mutants: Sequence[Mutant], settings: Settings) -> dict[str, list[str]]:
    """Which tests execute each line, by the mutant's name, kept for later runs."""
    kept = ROOT / "runs" / "mutants" / f"{commit_of(copy)}-{settings.seed}-{settings.marks.replace(' ', '_')}.json"
    known: dict[str, list[str]] = json.loads(kept.read_text()) if kept.exists() else {}
    if any(mutant.name not in known for mutant in mutants):
        found = reached(copy, mutants, ["-n", str(settings.jobs), "-m", settings.marks])
        known = {mutant.name: tests for mutant, tests in zip(mutants, found, strict=True)}
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known, indent=1))
    return known


def survivors(file: Path | None) -> set[str] | None:
    """Names of the mutants that a result has as not caught."""
    if file is None:
        return None
    return {row["mutant"] for row in json.loads(file.read_text(encoding="utf-8"))["rows"] if not row["caught"]}


def catching(copy: Path, mutant: Mutant, choices: Sequence[list[str]], settings: Settings) -> str | None:
    """The first test that fails where the line is changed, or None."""
    path = copy / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(sound), encoding="utf-8")
    try:
        for chosen in choices:
            failed = first_failure(copy, chosen, settings)
            if failed is not None:
                return failed
        return None
    finally:
        path.write_text(sound, encoding="utf-8")


def by_distance(mutant: Mutant, files: Iterable[str]) -> list[str]:
    """Files of tests, nearest to a line first: by their name, then by their folder."""

    def distance(test: str) -> tuple[bool, int]:
        stem, folders = Path(mutant.file).stem, Path(mutant.file).parent.parts
        shared = len([part for part in folders if part in Path(test).parts])
        return stem not in Path(test).stem, -shared

    return sorted(files, key=distance)


def rounds(mutant: Mutant, tests: Sequence[str], settings: Settings) -> list[list[str]]:
    """Rounds of tests for a mutant that the nearest files do not catch, of those that execute its line."""
    files = by_distance(mutant, dict.fromkeys(test.partition("::")[0] for test in tests))
    of_file = {file: [test for test in tests if test.startswith(f"{file}::")] for file in files}
    spread = [test for turn in range(MOST_TESTS) for file in files for test in of_file[file][turn : turn + 1]]
    chosen = [spread[:MOST_TESTS], files] if tests else []
    return [*chosen, []] if settings.whole or settings.again else chosen


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
