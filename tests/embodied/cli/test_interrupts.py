"""Signals are remembered, heard at once, and end what does not end by itself; what was ignored stays ignored."""

import ast
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from embodied.cli import interrupts as module
from embodied.cli.commands import COMMANDS
from embodied.cli.interrupts import SIGNALS, Interrupts, held, unheard
from embodied.errors import AROUND, guard
from tests.kit.commands import run
from tests.kit.import_graph import all_modules, parsed


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_remembered(number):
    before = signal.signal(number, signal.SIG_DFL)  # whoever started the tests in the background may ignore it
    try:
        with Interrupts() as interrupts:
            assert interrupts.signal is None
            signal.raise_signal(number)
            assert interrupts.signal == signal.Signals(number).name
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
            assert interrupts.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)


def signalled(number: int = signal.SIGINT, after: float = 0.0) -> None:
    """Send this process a signal from another thread, as a person does: not between two steps of the main one."""
    threading.Timer(after, os.kill, (os.getpid(), number)).start()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little patience."""
    monkeypatch.setattr(module, "ACKNOWLEDGED", 0.05)
    monkeypatch.setattr(module, "GRACE", 0.3)


def inner_loop() -> None:
    while True:
        sum(range(100))


def compiled_loop() -> None:
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)


INNER: dict[str, Callable[[], object]] = {
    "python": inner_loop,
    "many short calls": compiled_loop,
    "a call of the system": lambda: time.sleep(100),
    "a lock": lambda: threading.Event().wait(100),
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_long_work_that_does_not_come_to_its_next_step_is_left_within_it(inner: str, number: int) -> None:
    work = Interrupts()

    @guard
    def main(arguments: list[str] | None = None) -> int:
        del arguments
        signalled(number, 0.05)
        with work:
            INNER[inner]()
        return 5

    begun = time.monotonic()
    done = run(main)
    assert (done.code, work.cut_off, work.signal) == (5, True, signal.Signals(number).name)
    assert f"{work.signal}: stopping ..." in done.err
    assert 0.3 < time.monotonic() - begun < 2.0


@pytest.mark.usefixtures("hasty")
def test_work_that_comes_to_its_next_step_saves_as_long_as_that_takes() -> None:
    @guard
    def main(arguments: list[str] | None = None) -> int:
        del arguments
        signalled(after=0.05)
        with Interrupts() as work:
            while not work.signal:
                time.sleep(0.01)
            with held():
                time.sleep(0.5)
        time.sleep(0.5)
        return int(work.cut_off)

    done = run(main)
    assert done.code == 0
    assert "SIGINT: stopping ..." in done.err


@pytest.mark.usefixtures("hasty")
def test_what_stops_a_robot_is_left_alone() -> None:
    @guard
    def main(arguments: list[str] | None = None) -> int:
        del arguments
        with unheard():
            before = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.default_int_handler))
            try:
                signalled()
                time.sleep(1.0)
            finally:
                signal.signal(signal.SIGINT, before)
        return 0

    assert (run(main).code, run(main).err) == (0, "")


ENDLESS = """
import hashlib, sys
from embodied import cli
from embodied.errors import AROUND, guard
cli.interrupts.LIMIT, cli.interrupts.GRACE = 1.0, 0.6

@guard
def main():
    with cli.Interrupts():
        print("working", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

main()
"""


def test_a_computation_that_cannot_be_stopped_is_said_and_ends_with_the_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == b"working\n"
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"SIGINT: stopping ...\n"
        assert time.monotonic() - begun < 0.9
        assert b"in a computation that cannot be stopped" in process.stderr.readline()
        assert process.wait(5) == 130
        assert time.monotonic() - begun < 5


def test_every_command_runs_where_signals_are_heard() -> None:
    mains = [
        definition
        for name, path in all_modules().items()
        if not name.startswith(("tests", "examples"))
        for definition in parsed(path).body
        if isinstance(definition, ast.FunctionDef)
        and definition.name == "main"
        and [argument.arg for argument in definition.args.args] == ["arguments"]
    ]
    assert len(mains) >= len(COMMANDS)
    assert [main for main in mains if "guard" not in map(ast.unparse, main.decorator_list)] == []
    assert module.listening in AROUND
