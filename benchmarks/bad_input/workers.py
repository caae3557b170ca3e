"""Long-lived processes that run cases one after another, and are replaced where one dies or does not come to an end."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import resource
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Case, Kinds, Row, Verdict, judged, patience

MEMORY = 24 << 30  # bytes of address space of a worker: a number in a file must not take the machine
ENVIRONMENT = {
    # Idle threads of OpenBLAS spin on the cores that workers share; cases compile many small programs once.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1",
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).resolve().parents[2] / ".cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
PATIENCE = 3.0  # times that of a case until a worker that does not answer is ended


def work(domains: Mapping[str, Kinds], good: Path) -> None:
    """Answer cases on standard input, a line of JSON each, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # cases may print
    cases = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory(prefix="cases-") as folder:
        for number, line in enumerate(cases):
            case = Case(**json.loads(line))
            row = judged(case, domains[case.domain][case.kind], Box(Path(folder).resolve() / str(number), good))
            answers.write(json.dumps(dataclasses.asdict(row)) + "\n")
            answers.flush()


class Worker:
    """One process."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def row(self, case: Case) -> Row:
        """The verdict on a case; a process that died of it, or hangs in it, has one, too."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line, begun = "", time.monotonic()
        try:
            self.process.stdin.write(json.dumps(dataclasses.asdict(case)) + "\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], PATIENCE * patience())[0]:
                line = self.process.stdout.readline()
        except OSError:
            pass
        if line:
            values: dict[str, Any] = json.loads(line)
            return Row(**{**values, "verdict": Verdict(values["verdict"])})
        hangs = self.process.poll() is None and not self._died()
        self.end()
        verdict = Verdict.HANG if hangs else Verdict.TRACEBACK
        seconds = round(time.monotonic() - begun, 3)
        detail = f"over {seconds:.0f} s" if hangs else f"the process died with {self.process.returncode}"
        return Row(case.domain, case.kind, case.seed, "", verdict, detail, seconds, 0.0)

    def _died(self) -> bool:
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def alive(self) -> bool:
        """Whether it can take another case."""
        return self.process.poll() is None

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()


def run(cases: Sequence[Case], good: Path, count: int, tell: Callable[[Row], None]) -> list[Row]:
    """Verdicts on all cases, by so many workers at once.

    What hangs is tried once more by itself at the end: on a busy machine the quickest case may take its time.
    """
    rows = _all(cases, good, count, tell)
    slow = [Case(row.domain, row.kind, row.seed) for row in rows if row.verdict is Verdict.HANG]
    again = {(row.domain, row.kind, row.seed): row for row in _all(slow, good, 1, tell)} if slow else {}
    return [again.get((row.domain, row.kind, row.seed), row) for row in rows]


def _all(cases: Sequence[Case], good: Path, count: int, tell: Callable[[Row], None]) -> list[Row]:
    command = [sys.executable, "-m", "benchmarks.bad_input", "--worker", str(good)]
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    rows: list[Row] = []

    def go_on() -> None:
        worker = Worker(command)
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                worker.end()
                return
            if not worker.alive:
                worker = Worker(command)
            row = worker.row(case)
            rows.append(row)
            tell(row)

    threads = [threading.Thread(target=go_on) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows
