"""Notes and progress of a working command, on standard error; and numbers, short enough to read."""

from __future__ import annotations

import importlib
import math
import threading
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from embodied.cli.commands import as_called

LINE_INTERVAL = 10.0  # s between progress lines where there is no terminal
NOTEBOOK_INTERVAL = 0.5  # s between two texts of a notebook's line
CLOCK_INTERVAL = 1.0  # s between two looks at the clock
STARTING, COMPILING = "starting ...", "compiling ..."


def console() -> Console:
    """Console for notes and progress: standard error, so that standard output holds results alone."""
    return Console(stderr=True, highlight=False)


def output() -> Console:
    """Console for results: standard output."""
    return Console(highlight=False)


def say(*notes: str | Text) -> None:
    """Print notes to standard error, whole lines however long they are; commands are named as they were typed."""
    for note in notes:
        said = as_called(note) if isinstance(note, str) else note
        console().print(said, soft_wrap=True, markup=False, emoji=False)


class NotebookLine:
    """A line below a notebook's cell, which is written anew instead of another below it."""

    def __init__(self) -> None:
        """Show nothing before the first text."""
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None
        self._shown = -math.inf

    def show(self, text: str, *, last: bool) -> None:
        """Write the text, unless one was written just now and this is not the last."""
        if not last and time.monotonic() - self._shown < NOTEBOOK_INTERVAL:
            return
        self._shown, shown = time.monotonic(), {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


class Line:
    """A progress bar on a terminal, one line below a notebook's cell, a line now and then elsewhere.

    Each has a clock that goes on while nothing is reported, as in a compilation, and the time left.
    """

    def __init__(self, what: str, total: float, output: Console | None = None, before: str = STARTING) -> None:
        """Show `before` until the first `update`; nothing if it is empty."""
        self.output = output or console()
        self.what, self.total = what, total
        self._text, self._done, self._first = before, 0.0, (0.0, 0.0)
        self._begun = self._printed = time.monotonic()
        self._notebook = NotebookLine() if self.output.is_jupyter else None
        columns: Iterable[ProgressColumn] = (
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
        )
        self._bar = Progress(*columns, console=self.output, transient=False) if self.output.is_terminal else None
        self._id = self._bar.add_task(what, total=total, text=before) if self._bar else None
        self._ended = threading.Event()
        self._clock = None if self._bar else threading.Thread(target=self._tick, name="clock", daemon=True)

    def __enter__(self) -> Line:
        self._begun = self._printed = time.monotonic()
        if self._bar:
            self._bar.start()
        if self._clock:
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
        self._ended.set()
        if self._clock:
            self._clock.join()

    def update(self, done: float, text: str) -> None:
        """Show that `done` of the total is reached."""
        if not self._first[0]:
            self._first = (time.monotonic(), done)
        self._done, self._text = done, text
        if self._bar and self._id is not None:
            self._bar.update(self._id, completed=done, text=text)
        elif self._notebook is not None or time.monotonic() - self._printed >= LINE_INTERVAL or done >= self.total:
            self._print()

    def _print(self) -> None:
        now, (since, first) = time.monotonic(), self._first
        self._printed = now
        if not since:
            said = f"{self.what}  {self._text}  {duration(now - self._begun)}"
        else:
            said = f"{self.what}  {100 * min(self._done / self.total, 1):3.0f} %  {self._text}"
            if first < self._done < self.total:
                said += f"  {duration((now - since) * (self.total - self._done) / (self._done - first))} left"
        if self._notebook is not None:
            self._notebook.show(said, last=self._done >= self.total)
        else:
            self.output.print(said, soft_wrap=True)

    def _tick(self) -> None:
        """Print where nothing was reported for some time."""
        while not self._ended.wait(CLOCK_INTERVAL):
            silent = time.monotonic() - self._printed
            if self._text and silent >= (CLOCK_INTERVAL if self._notebook else LINE_INTERVAL):
                self._print()


def duration(seconds: float) -> str:
    """A time short enough for a line: 45 s, 12 min, 3.4 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def number(value: float) -> str:
    """A number short enough for a table: 1.25M, 0.0312, 98."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.4g}"
