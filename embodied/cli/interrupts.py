"""Ctrl-C, SIGTERM and a closed terminal: heard at once, a request to long work to save and stop, and in the end an end.

A thread hears signals that Python would run a handler for only later, when the main thread leaves a compilation or a
compiled loop. It says within a second that one was heard, and sees to it that the process has stopped within ten:

    at once     a command is interrupted; long work, which enters `Interrupts`, goes on to where it can save
    GRACE       long work is interrupted, wherever it is, and what it saved before counts
    LIMIT       the process ends, as if it were killed, where nothing else ends it; not that of a notebook
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import ClassVar, Self

from embodied.cli.terminal import say
from embodied.errors import AROUND, EXIT_SIGNAL

HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
SIGNALS = (signal.SIGTERM, signal.SIGINT, *([HANGUP] if HANGUP else []))
ACKNOWLEDGED, GRACE, LIMIT = 0.3, 6.0, 9.0  # s after a signal
HELD = 0.1  # s between two looks whether what must not be interrupted is over


class Interrupts:
    """While it is entered, the first signal is remembered; a second Ctrl-C does not wait for the step to end.

    Then, and after `GRACE`, the block is left wherever it is, without an exception, and `cut_off`.
    """

    signal: str | None = None
    """The name of the signal that arrived, if one did."""
    cut_off = False
    """Whether the work was left within a step, so that its state must not be saved."""

    def __enter__(self) -> Self:
        # An ignored hang-up stays ignored: `nohup` needs that. Only the main thread may handle signals.
        main = threading.current_thread() is threading.main_thread()
        wanted = SIGNALS if main else ()
        heard = [number for number in wanted if number != HANGUP or signal.getsignal(number) is not signal.SIG_IGN]
        self._previous = {number: signal.signal(number, self._on_signal) for number in heard}
        self._heard = contextlib.ExitStack()
        self._heard.enter_context(listening(final=False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if (listener := Listener.active) is not None:
            listener.settle()
        self._heard.close()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self.cut_off = self.signal is not None and kind is not None and issubclass(kind, KeyboardInterrupt)
        return self.cut_off

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or signal.Signals(number).name


class Listener:
    """The thread of this process that hears signals."""

    active: ClassVar[Listener | None] = None

    def __init__(self, *, final: bool) -> None:
        """Prepare to hear; if `final`, the process ends where it is at the `LIMIT`."""
        self._final, self._name, self._holds = final, "", 0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def __enter__(self) -> Self:
        self._ears, mouth = socket.socketpair()
        mouth.setblocking(False)
        self._mouth, Listener.active = mouth, self
        self._former = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._former)
        Listener.active = None
        self._mouth.close()
        self._thread.join()
        self._ears.close()

    def settle(self) -> None:
        """Let what was interrupted, and now saves, take its time."""
        self._due = [(when, act) for when, act in self._due if act == self._acknowledge]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Interrupt nothing in this block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def _listen(self) -> None:
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            if select.select([self._ears], [], [], wait)[0]:
                if not (heard := self._ears.recv(64)):
                    return
                self._hear(heard)
            elif self._due:
                when, act = self._due.pop(0)
                if self._holds and act != self._acknowledge:
                    self._due.insert(0, (time.monotonic() + HELD, act))
                elif time.monotonic() >= when:
                    act()

    def _hear(self, numbers: bytes) -> None:
        """Note the first signal, unless something else handles it, as what stops a robot does."""
        named = [signal.Signals(number) for number in numbers if number in SIGNALS]
        if not named or self._name or deaf.is_set():
            return
        self._name, now = named[0].name, time.monotonic()
        acts = [(ACKNOWLEDGED, self._acknowledge), (GRACE, self._interrupt)]
        acts += [(LIMIT, self._end)] if self._final else []
        self._due = [(now + seconds, act) for seconds, act in acts]

    def _acknowledge(self) -> None:
        say(f"{self._name}: stopping ...")

    def _interrupt(self) -> None:
        """Raise a KeyboardInterrupt in the main thread, also in a call of the system."""
        if os.name == "posix" and (main := threading.main_thread().ident) is not None:
            signal.pthread_kill(main, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            say(f"ended by {self._name} in a computation that cannot be stopped; what was saved before is there")
        os._exit(EXIT_SIGNAL + signal.Signals[self._name])


deaf = threading.Event()
"""Set while signals are heard by something else alone."""


@contextlib.contextmanager
def listening(*, final: bool = True) -> Iterator[None]:
    """Hear signals in this block of the main thread, unless a `Listener` does already."""
    if Listener.active is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    with Listener(final=final):
        yield


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Interrupt nothing in this block but by a second Ctrl-C: a file that is being written is worth the wait."""
    if Listener.active is None:
        yield
        return
    with Listener.active.held():
        yield


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Leave signals to the handlers that were set in this block, however long they take, as robots need it."""
    deaf.set()
    try:
        yield
    finally:
        deaf.clear()


AROUND.add(listening)
