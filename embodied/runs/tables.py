"""What `python -m embodied.runs` and a training with several seeds print: 80 columns, and lines to cut in a pipe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from embodied import cli
from embodied.runs.aggregate import Interval
from embodied.runs.comparison import Comparison
from embodied.runs.page import figure_text
from embodied.runs.summary import Summary, size_text, span


def print_list(output: Console, rows: Sequence[Summary]) -> None:
    """Runs by their tasks, newest first; in a pipe a line each, with tabs between path and the rest."""
    if not output.is_terminal:
        for row in rows:
            success = "" if math.isnan(row.success) else f"{row.success:.4g}"
            cells = (str(row.run.path), row.learner, str(row.steps), success, span(row.age), size_text(row.size))
            print("\t".join(cells), file=output.file)
        return
    for task in dict.fromkeys(row.task for row in rows):
        table = Table(title=task, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        table.add_column("run", overflow="fold")
        table.add_column("learner")
        for column in ("steps", "success", "age", "size"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("")
        for row in rows:
            if row.task == task:
                table.add_row(row.run.name, row.learner, cli.number(row.steps), _success(row), span(row.age),
                              size_text(row.size), "" if row.state == "done" else row.state)  # fmt: skip
        output.print(table)
        output.print()


def _success(row: Summary) -> str:
    """Of training alone with a tilde: those episodes were not fresh, and the policy went on learning."""
    return "-" if math.isnan(row.success) else f"{'' if row.evaluated else '~'}{100 * row.success:.1f} %"


def seeds_table(comparison: Comparison) -> Table:
    """Figures of one training over its seeds."""
    (training,) = comparison.trainings
    done = sum(bool(run.result) for run in training.runs)
    result = Table(title=f"{training.name}: {done} seeds", title_justify="left", title_style="bold")
    for column in ("", "mean", "interquartile mean"):
        result.add_column(column, overflow="fold")
    for measure in comparison.measures:
        found = training.over_seeds(measure)
        if found is not None:
            result.add_row(measure, _in_a_cell(measure, found.mean), _in_a_cell(measure, found.iqm))
    return result


def comparison_table(comparison: Comparison) -> Table:
    """Final figures side by side."""
    return _side_by_side(
        "final figures",
        comparison,
        {
            measure: [_in_a_cell(measure, training.figure(measure)) for training in comparison.trainings]
            for measure in comparison.measures
        },
    )


def settings_table(comparison: Comparison) -> Table:
    """Settings that differ, side by side."""
    return _side_by_side("settings that differ", comparison, comparison.settings)


def _side_by_side(title: str, comparison: Comparison, rows: Mapping[str, Sequence[str]]) -> Table:
    result = Table(title=title, title_justify="left", title_style="bold")
    for column in ("", *(training.name for training in comparison.trainings)):
        result.add_column(column, overflow="fold")
    for name, cells in rows.items():
        result.add_row(name, *cells)
    return result


def _in_a_cell(measure: str, figure: Interval | None) -> str:
    """A figure with its interval in a line of its own where there is one."""
    value, _, rest = figure_text(measure, figure).partition("  ")
    return f"{value}\n{rest}" if rest else value
