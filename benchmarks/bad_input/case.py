"""A case: one input made from a seed, what is done with it, and how that has to end."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import importlib.util
import io
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bad_input.box import Box
from embodied.errors import EXIT_ERROR, EXIT_INTERRUPTED, EmbodiedError

LIMIT = 30.0  # s after which a case is a hang, where the machine does nothing else


class Must(enum.StrEnum):
    """How a case has to end."""

    REFUSE = "refuse"
    WORK = "work"
    EITHER = "either"


class Verdict(enum.StrEnum):
    """How a case ended."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    TRACEBACK = "traceback"
    """An error that is none of the documented ones, or one of several lines; or the process died."""
    HANG = "hang"
    WRONG = "wrong"
    """Accepted though it means nothing, refused though it is valid, or a result other than that of the valid input."""
    OUTSIDE = "outside"
    """Something was written outside of the folder that was given for results."""


FAULTS = (Verdict.TRACEBACK, Verdict.HANG, Verdict.WRONG, Verdict.OUTSIDE)


@dataclasses.dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What is done with one input."""

    what: str
    """The input, for people."""
    act: Callable[[], Any]
    """Gives it to the program; what it returns is the result."""
    must: Must = Must.EITHER
    wrong: Callable[[Any], str] = lambda result: ""
    """Of a result of what was accepted: what is wrong with it, or nothing."""
    allowed: tuple[type[BaseException], ...] = ()
    """Errors of Python that the interface documents, beside `EmbodiedError`."""


Make = Callable[[random.Random, Box], Attempt]
Kinds = Mapping[str, Make]
"""Kind of input -> what makes one from a seed."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Which input: everything else follows from it."""

    domain: str
    kind: str
    seed: str

    @property
    def rng(self) -> random.Random:
        """Its random numbers."""
        return random.Random(f"{self.domain}/{self.kind}/{self.seed}")


@dataclasses.dataclass(frozen=True)
class Row:
    """A case's verdict."""

    domain: str
    kind: str
    seed: str
    what: str
    verdict: Verdict
    detail: str
    seconds: float
    processor_seconds: float
    """Of its process and of those that it started."""


def patience() -> float:
    """s after which a case is a hang: `LIMIT`, stretched where more processes want the cores than there are."""
    return LIMIT * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class SlowError(BaseException):
    """A case has reached its limit. No `Exception`, so that nothing on the way takes it for its own."""


def call(module: str, *words: str) -> Said:
    """Call a command's `main` in this process, as the shell would call the command."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    spec = importlib.util.find_spec(module)
    package = spec is not None and spec.submodule_search_locations is not None
    main = importlib.import_module(f"{module}.__main__" if package else module).main
    sys.argv = [f"python -m {module}", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        finally:
            sys.argv = before
    return Said(code or 0, out.getvalue(), err.getvalue())


def judged(case: Case, make: Make, box: Box) -> Row:
    """Run a case in its box; the verdict."""
    begun, worked = time.perf_counter(), processor_seconds()
    what = ""
    said = io.StringIO()
    try:
        with box.entered(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            attempt = _made(make, case, box)
            what = attempt.what
            before = box.content()
            begun = time.perf_counter()
            with limited(patience()):
                verdict, detail = ended(attempt)
            changed = sorted(box.changed_since(before))
        if "Traceback (most" in said.getvalue() and verdict not in FAULTS:
            verdict, detail = Verdict.TRACEBACK, said.getvalue()[-400:]
        if changed and verdict not in FAULTS:
            verdict, detail = Verdict.OUTSIDE, ", ".join(changed[:5])
    except SlowError:
        verdict, detail = Verdict.HANG, f"over {patience():.0f} s"
    seconds, work = time.perf_counter() - begun, processor_seconds() - worked
    return Row(case.domain, case.kind, case.seed, what[:300], verdict, detail[:600], round(seconds, 3), round(work, 3))


def processor_seconds() -> float:
    """Of this process and of the children that it has waited for, s."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _made(make: Make, case: Case, box: Box) -> Attempt:
    """The attempt; where the generator itself fails, one that says so."""
    try:
        return make(case.rng, box)
    except Exception:
        said = traceback.format_exc()[-500:]

        def fail() -> None:
            raise AssertionError(f"the generator failed: {said}")

        return Attempt("", fail)


@contextlib.contextmanager
def limited(seconds: float):
    """Raise `SlowError` inside after a time."""

    def stop(*_: object) -> None:
        raise SlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ended(attempt: Attempt) -> tuple[Verdict, str]:
    """How an attempt ends, and details."""
    try:
        result = attempt.act()
    except SlowError:
        raise
    except (EmbodiedError, *attempt.allowed) as error:
        return refused(attempt, str(error))
    except BaseException as error:
        return Verdict.TRACEBACK, f"{type(error).__name__}: {str(error)[:200]} | {place(error)}"
    if isinstance(result, Said):
        if "Traceback (most" in result.err or result.code not in (0, 1, EXIT_ERROR, EXIT_INTERRUPTED):
            return Verdict.TRACEBACK, f"exit {result.code}: {result.err[-400:]}"
        if result.code == EXIT_ERROR:
            errors = [line for line in result.err.splitlines() if line.startswith("error:")]
            if len(errors) != 1 or result.err.splitlines()[-1] != errors[0]:
                return Verdict.TRACEBACK, f"exit 2 with {len(errors)} lines of error: {result.err[-400:]}"
            return refused(attempt, errors[0])
    if attempt.must is Must.REFUSE and not (isinstance(result, Said) and result.code):
        return Verdict.WRONG, f"accepted: {str(result)[:200]}"
    if said := attempt.wrong(result):
        return Verdict.WRONG, said
    return Verdict.ACCEPTED, str(result)[:200]


def refused(attempt: Attempt, message: str) -> tuple[Verdict, str]:
    """The verdict of a refusal with this message."""
    if len(message.splitlines()) != 1:
        return Verdict.TRACEBACK, f"a message of {len(message.splitlines())} lines: {message}"
    if attempt.must is Must.WORK:
        return Verdict.WRONG, f"refused: {message}"
    return Verdict.REFUSED, message


def place(error: BaseException) -> str:
    """Where an error was raised: the last lines of it that are in this repository, and the last of all."""
    root = str(Path(__file__).resolve().parents[2])
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(root) and "bad_input" not in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in [*frames[-1:], *ours[:-4:-1]])
