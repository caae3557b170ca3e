"""Ctrl-C, SIGTERM and a closed terminal as a request that long work reads between its steps, so that it saves first."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
SIGNALS = (signal.SIGTERM, signal.SIGINT, *([HANGUP] if HANGUP else []))


class Interrupts:
    """While it is entered, the first signal is remembered; a second Ctrl-C does not wait for the step to end."""

    signal: str | None = None
    """The name of the signal that arrived, if one did."""

    def __enter__(self) -> Self:
        # An ignored hang-up stays ignored: `nohup` needs that. Only the main thread may handle signals.
        main = threading.current_thread() is threading.main_thread()
        wanted = SIGNALS if main else ()
        heard = [number for number in wanted if number != HANGUP or signal.getsignal(number) is not signal.SIG_IGN]
        self._previous = {number: signal.signal(number, self._on_signal) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
