"""Tables that `python -m embodied.runs` and a training with several seeds print."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from embodied.cli import Table, number
from embodied.evaluation.aggregate import Interval
from embodied.runs.comparison import Comparison
from embodied.runs.page import figure_text
from embodied.runs.summary import Summary, size_text, span

HEADINGS = ("run", "learner", "steps", "success", "age", "size")


def by_task(rows: Sequence[Summary]) -> list[Table]:
    """Runs for a terminal, a table for each task, in the order in which the tasks were last trained."""
    return [
        Table(task, tuple(_cells(row) for row in rows if row.task == task), HEADINGS, right=(2, 3, 4, 5))
        for task in dict.fromkeys(row.task for row in rows)
    ]


def by_path(rows: Sequence[Summary]) -> Table:
    """Runs for a pipe: whole paths and whole numbers, nothing above them."""
    return Table(
        "",
        tuple(
            (str(row.run.path), row.learner, str(row.steps), "" if math.isnan(row.success) else _marked(row, ".4g"),
             span(row.age), size_text(row.size))
            for row in rows
        ),
    )  # fmt: skip


def _cells(row: Summary) -> tuple[str, ...]:
    state = "" if row.state == "done" else f" ({row.state})"
    return (row.place + state, row.learner, number(row.steps), _success(row), span(row.age), size_text(row.size))


def _success(row: Summary) -> str:
    return "-" if math.isnan(row.success) else _marked(row, ".1%").replace("%", " %")


def _marked(row: Summary, form: str) -> str:
    """Success, of training alone with a tilde: those episodes were not fresh, and the policy went on learning."""
    return f"{'' if row.evaluated else '~'}{row.success:{form}}"


def seeds_table(comparison: Comparison) -> Table:
    """Figures of one training over its seeds."""
    (training,) = comparison.trainings
    done = sum(bool(run.result) for run in training.runs)
    aggregates = {measure: training.over_seeds(measure) for measure in comparison.measures}
    rows = tuple(
        (measure, *(_in_brief(measure, figure, comparison.units) for figure in (found.mean, found.iqm)))
        for measure, found in aggregates.items()
        if found is not None
    )
    return Table(
        f"{training.name}: {done} seeds, with 95 % intervals", rows, ("", "mean", "interquartile mean"), prose=(1, 2)
    )


def comparison_table(comparison: Comparison) -> Table:
    """Final figures side by side."""
    rows = {
        measure: [_in_brief(measure, training.figure(measure), comparison.units) for training in comparison.trainings]
        for measure in comparison.measures
    }
    return _side_by_side("final figures, with 95 % intervals", comparison, rows)


def settings_table(comparison: Comparison) -> Table:
    """Settings that differ, side by side."""
    return _side_by_side("settings that differ", comparison, comparison.settings)


def _in_brief(measure: str, figure: Interval | None, units: Mapping[str, str]) -> str:
    """A figure and its interval for a table whose title names the kind of interval."""
    return figure_text(measure, figure, units).replace("  (95 %: ", " (")


def _side_by_side(title: str, comparison: Comparison, rows: Mapping[str, Sequence[str]]) -> Table:
    names = [training.name for training in comparison.trainings]
    prose = tuple(range(1, len(names) + 1))
    return Table(title, tuple((name, *cells) for name, cells in rows.items()), ("", *names), prose=prose)
