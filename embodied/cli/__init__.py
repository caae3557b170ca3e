"""What the command lines share: which task they mean, progress, tables, JSON files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from embodied.errors import EmbodiedError
from embodied.registry import Registry

S = TypeVar("S")

LINE_INTERVAL = 10.0  # s between progress lines where there is no terminal


def parse(kind: type[S], arguments: Sequence[str] | None, command: str, default: S | None = None) -> S:
    """Parse the flags of `python -m embodied.COMMAND`; enumerations go by their values, as in stored configs.

    A command of another package is given with its package: `sim2real.twin`.
    """
    named: dict[str, Any] = {} if default is None else {"default": default}
    words = None if arguments is None else list(arguments)
    config = (tyro.conf.EnumChoicesFromValues,)
    module = command if "." in command else f"embodied.{command}"
    return tyro.cli(kind, args=words, prog=f"python -m {module}", config=config, **named)


def named_task(arguments: Sequence[str], registry: Registry, default: str | None = None) -> str | None:
    """The task that a command line means, found before its flags can be parsed: they depend on it.

    A word counts when it is a task's name, or when it stands first; the values of flags do not.
    """
    for index, word in enumerate(arguments):
        follows_flag = index > 0 and arguments[index - 1].startswith("--") and "=" not in arguments[index - 1]
        if word in registry or word in registry.suites or (not word.startswith("-") and not follows_flag):
            return word
    return default


def required_task(arguments: Sequence[str], registry: Registry, program: str) -> str:
    """The task that a command line means; where only help is asked for, any.

    Raises:
        EmbodiedError: it means none; names those there are.
    """
    name = named_task(arguments, registry)
    if name is not None:
        return name
    if {"-h", "--help"} & set(arguments):
        return next(iter(registry))
    raise EmbodiedError(f"which task? python -m {program} TASK; tasks: {', '.join(registry)}")


def flag_value(words: Sequence[str], flag: str) -> str | None:
    """The value of `--flag VALUE` or `--flag=VALUE`.

    Raises:
        EmbodiedError: the flag stands without a value.
    """
    for index, word in enumerate(words):
        if word.startswith(flag + "="):
            return word.partition("=")[2]
        if word == flag:
            if index + 1 == len(words):
                raise EmbodiedError(f"{flag} needs a value")
            return words[index + 1]
    return None


def given(settings: Any, words: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Of these fields of parsed settings, those that the command line names, not those that are defaults."""
    flags = {name: f"--{name.replace('_', '-')}" for name in names}
    return {name: getattr(settings, name) for name, flag in flags.items() if flag_value(words, flag) is not None}


def console() -> Console:
    """Where tables and progress go: standard error, so that standard output can be piped."""
    return Console(stderr=True, highlight=False)


class Line:
    """A progress bar on a terminal, a line now and then elsewhere."""

    def __init__(self, what: str, total: float, output: Console | None = None) -> None:
        """Show nothing before the first `update`."""
        self.output = output or console()
        self.what, self.total = what, total
        self._printed = time.monotonic()
        columns: Iterable[ProgressColumn] = (
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
        )
        self._bar = Progress(*columns, console=self.output, transient=False) if self.output.is_terminal else None
        self._id = self._bar.add_task(what, total=total, text="") if self._bar else None

    def __enter__(self) -> Line:
        """Begin to show progress."""
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        if self._bar:
            self._bar.stop()

    def update(self, done: float, text: str) -> None:
        """Show that `done` of the total is reached."""
        if self._bar and self._id is not None:
            self._bar.update(self._id, completed=done, text=text)
        elif time.monotonic() - self._printed >= LINE_INTERVAL or done >= self.total:
            self._printed = time.monotonic()
            self.output.print(f"{self.what}  {100 * min(done / self.total, 1):3.0f} %  {text}", soft_wrap=True)


def number(value: float) -> str:
    """A number short enough for a table: 1.25M, 0.0312, 98."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.4g}"


def table(title: str, rows: Mapping[str, str]) -> Table:
    """Two columns: what, and its value."""
    result = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    for name, value in rows.items():
        result.add_row(name, value)
    return result


def evaluation_rows(summary: Mapping[str, float]) -> dict[str, str]:
    """The rows that say how well a policy did."""
    rows = {
        "success": percent(summary, "success"),
        "success at any step": percent(summary, "success_any"),
        "return": f"{summary['return']:.4g}  (95 %: {summary['return_low']:.4g} to {summary['return_high']:.4g})",
        "length": f"{summary['length']:.0f} steps",
    }
    bounds = {f"{name}_{end}" for name in ("success", "success_any", "return") for end in ("low", "high")}
    said = {*rows, *bounds, "success_any", "seconds", "env_steps_per_second"}
    rows |= {name: f"{value:.4g}" for name, value in summary.items() if name not in said}
    return rows | {"speed": f"{number(summary['env_steps_per_second'])} env steps/s, {summary['seconds']:.1f} s"}


def suite_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each task of a suite, and their mean; in brackets 95 % intervals."""
    from embodied.evaluation.suites import overall

    result = Table(title=name, title_justify="left", title_style="bold")
    for column in ("task", "success at any step, %", "at the last step, %", "return"):
        result.add_column(column, no_wrap=True)
    for held_out in sorted({row["held_out"] for row in rows}):
        part = [row for row in rows if row["held_out"] == held_out]
        for row in (*part, {"task": f"mean of {len(part)}", **overall(part)}):
            rates = [
                f"{100 * row[key]:.0f}  ({100 * row[f'{key}_low']:.0f} to {100 * row[f'{key}_high']:.0f})"
                for key in ("success_any", "success")
            ]
            label = row["task"].rpartition("/")[2] + (" (held out)" if held_out else "")
            result.add_row(label, *rates, f"{row['return']:.4g}")
        result.add_section()
    return result


def percent(summary: Mapping[str, float], name: str) -> str:
    """A rate and its 95 % interval, in percent."""
    rate, low, high = (100 * summary[key] for key in (name, f"{name}_low", f"{name}_high"))
    return f"{rate:.1f} %  (95 %: {low:.1f} to {high:.1f})"


def write_result(path: Path | None, command: str, values: Mapping[str, Any]) -> None:
    """Write numbers with hardware, commit and command as JSON; nothing for no path."""
    if path is None:
        return
    from embodied.cli.hardware import describe, write_json

    write_json(path, {**values, "command": command, "hardware": describe()})


def command_line(module: str) -> str:
    """The command as a reader would type it, without this machine's paths; `module` as in `python -m module`."""
    words = [word if "/" not in word or not Path(word).is_absolute() else Path(word).name for word in sys.argv[1:]]
    return " ".join(["python -m", module, *words])
