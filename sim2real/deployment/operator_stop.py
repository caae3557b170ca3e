"""`OperatorStop`: the ways in which a person stops a deployment, and the reason that each gives."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
from types import FrameType
from typing import Any, TextIO

from embodied.cli.interrupts import unheard

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""Ctrl-C, `kill`, and a terminal that is closed."""


class OperatorStop:
    """Reason why the operator stops the robot, called in every cycle. Once there is a reason it is kept.

    Stops on Enter (or the end of the input) at a terminal, on a line through a pipe, and on `SIGNALS`, whose former
    handlers come back at the end of a `with` block. A second Ctrl-C goes to its former handler.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """Watch `stream`, by default the standard input, where it is a terminal or a pipe."""
        self.reason = ""
        self._stream = sys.stdin if stream is None else stream
        self._former: dict[int, Any] = {}
        self._unheard = contextlib.ExitStack()
        self._watched = _descriptor(self._stream)

    def __enter__(self) -> OperatorStop:
        self._unheard.enter_context(unheard())  # what stops a robot is not itself ended after some seconds
        for name in SIGNALS:
            if number := getattr(signal, name, None):
                self._former[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former.clear()
        self._unheard.close()

    def __call__(self) -> str:
        """Reason of the operator's stop; empty while there is none."""
        if not self.reason and self._watched >= 0 and select.select([self._watched], [], [], 0)[0]:
            data = os.read(self._watched, 4096)
            terminal = os.isatty(self._watched)
            if data or terminal:
                self.reason = f"stopped by the operator ({'key' if terminal else 'line on standard input'})"
            else:
                self._watched = -1  # a pipe whose other end has gone gives no input, and would stay readable for ever
        return self.reason

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.reason = self.reason or f"stopped by the operator ({signal.Signals(number).name})"
        if number == signal.SIGINT:
            signal.signal(number, self._former.get(number, signal.default_int_handler))


def _descriptor(stream: TextIO) -> int:
    """The descriptor of a terminal or pipe; -1 for a file, for nothing, and where they cannot be waited for."""
    try:
        number = stream.fileno()
        kind = os.fstat(number).st_mode
        select.select([number], [], [], 0)
    except (OSError, ValueError, AttributeError):
        return -1
    return number if stat.S_ISFIFO(kind) or os.isatty(number) else -1
