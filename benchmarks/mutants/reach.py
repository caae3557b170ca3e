"""Which tests execute the line that a mutant changes: one run of the tests in a copy whose lines report it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.mutants.drawing import ROOT, Mutant

PROBE = """
import os

FILE, SEEN = os.environ["MUTANT_HITS"], set()


def hit(number, value=None):
    test = os.environ.get("PYTEST_CURRENT_TEST", "import").rsplit(" (", 1)[0]
    if (number, test) not in SEEN:
        SEEN.add((number, test))
        with open(FILE, "a") as file:
            file.write(f"{number}\\t{test}\\n")
    return value
"""


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A copy of the repository at a commit."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(folder / "copy")], check=True)
        subprocess.run(["git", "checkout", "-q", commit], cwd=folder / "copy", check=True)
        yield folder / "copy"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def commit_of(copy: Path) -> str:
    """Eight digits of a copy's commit."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True).stdout.strip()


def instrument(copy: Path, mutants: Sequence[Mutant]) -> None:
    """Let each line report that it was executed, and leave what it does as it is."""
    (copy / "mutant_probe.py").write_text(PROBE)
    for number, mutant in enumerate(mutants):
        hit = f'__import__("mutant_probe").hit({number}'
        watched = f"{hit}); {mutant.old}" if mutant.statement else f"{hit}, ({mutant.old}))"
        path = copy / mutant.file
        path.write_text(mutant.applied(path.read_text(encoding="utf-8"), watched), encoding="utf-8")


def environment(copy: Path, **further: str) -> dict[str, str]:
    """Of a process that imports the copy, child processes included."""
    return {**os.environ, "PYTHONPATH": str(copy), **further}


def reached(copy: Path, mutants: Sequence[Mutant], options: Sequence[str]) -> list[list[str]]:
    """Tests that execute each mutant's line, by one run of all tests of a copy; its files stay instrumented."""
    instrument(copy, mutants)
    hits = copy / "hits.txt"
    hits.touch()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=copy,
        env=environment(copy, MUTANT_HITS=str(hits)),
        check=False,
    )
    found: Mapping[int, dict[str, None]] = {number: {} for number in range(len(mutants))}
    for line in hits.read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition("\t")
        found[int(number)][test] = None
    return [[test for test in tests if "::" in test] for tests in found.values()]
