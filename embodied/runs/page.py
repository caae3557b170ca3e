"""The page of a comparison: figures with intervals, settings that differ, curves. One file that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from embodied.evaluation import page as pages
from embodied.evaluation.aggregate import FEW, Interval
from embodied.evaluation.charts import Line, chart
from embodied.evaluation.learning_curves import COLOURS, SHARES, Across, Points
from embodied.evaluation.page import Html
from embodied.evaluation.tables import decimals, interval
from embodied.runs import comparison as compared
from embodied.runs.comparison import ABSENT, Comparison, Training, mean_curve
from embodied.storage import task_names

ACROSS = {Across.STEPS: "environment steps", Across.MINUTES: "minutes"}
NOWRAP = "white-space: nowrap"


def page(
    comparison: Comparison, title: str, command: str, measures: Sequence[str] = (), across: Across = Across.STEPS
) -> str:
    """The page as HTML.

    Args:
        command: Command that makes it again.
        measures: Of training, those that are drawn; by default the common ones.
        across: Quantity of the x axis.
    """
    trainings = comparison.trainings
    one = len(trainings) == 1
    parts = [_headline(comparison), pages.heading("Final figures")]
    parts += [_over_seeds(comparison), *_doubt(trainings[0])] if one else [_side_by_side(comparison)]
    parts += _curves(comparison, measures, across)
    if settings := comparison.settings:
        parts += [pages.heading("Settings that differ")]
        columns = ("setting", *(training.name for training in trainings))
        parts += [pages.table(columns, ((name, *values) for name, values in settings.items()))]
    parts += [pages.heading("Runs"), _runs(trainings)]
    return pages.page(title, _subtitle(trainings), command, parts)


def _subtitle(trainings: Sequence[Training]) -> str:
    """Summary of what was trained: tasks, learners, engines and numbers of environments."""
    runs = [run for training in trainings for run in training.runs]
    said = []
    for key, words in (("algorithm", "{}"), ("engine", "on {}"), ("num_envs", "{} environments")):
        if values := dict.fromkeys(str(run.config[key]) for run in runs if run.config.get(key)):
            said.append(words.format(" and ".join(values)))
    tasks = dict.fromkeys(task_names.label(run.task) for run in runs)
    return ": ".join(filter(None, (", ".join(tasks), ", ".join(said))))


def figure_text(measure: str, figure: Interval | None, units: Mapping[str, str]) -> str:
    """A final figure as people read it: with its interval, its unit, and the same digits for both."""
    if figure is None:
        return ABSENT
    if measure in compared.SHARES:
        return interval(figure.value, figure.low, figure.high, share=True)
    unit = units.get(measure, "")
    if measure in compared.LAST:
        return f"{figure.value:,.{1 if unit == 's' else 0}f} {unit}".strip()
    return interval(figure.value, figure.low, figure.high, unit=unit)


def _seed_text(measure: str, value: float, mean: Interval, units: Mapping[str, str]) -> str:
    """The figure of one seed, with the digits of their mean."""
    if measure in (*compared.SHARES, *compared.LAST) or not math.isfinite(mean.low):
        return figure_text(measure, Interval(value, math.nan, math.nan), units)
    return f"{value:.{decimals(mean.low, mean.high)}f} {units.get(measure, '')}".strip()


def _headline(comparison: Comparison) -> Html:
    """The success of each training, in large type."""
    shown = {}
    for training in comparison.trainings:
        figure = training.figure("success")
        if figure is not None:
            value, _, rest = figure_text("success", figure, comparison.units).partition("  ")
            whose = "success at the last step" if len(comparison.trainings) == 1 else training.name
            shown[f"{whose} {rest}".strip()] = value
    return pages.numbers(shown) if shown else pages.paragraph("None has been evaluated yet.", "note")


def _over_seeds(comparison: Comparison) -> Html:
    """One training: mean and interquartile mean over its seeds, and each of them."""
    (training,) = comparison.trainings
    done, units = [run for run in training.runs if run.result], comparison.units
    columns = ("figure", "#mean", "#interquartile mean", *(f"#seed {run.config.get('seed')}" for run in done))
    rows = []
    for measure in comparison.measures:
        found = training.over_seeds(measure)
        if found is not None and len(found.scores) == len(done):
            each = (_seed_text(measure, score, found.mean, units) for score in found.scores.mean(1))
            rows.append(
                (_said(measure), figure_text(measure, found.mean, units), figure_text(measure, found.iqm, units), *each)
            )
    return pages.table(columns, rows, dict.fromkeys(range(1, len(columns)), NOWRAP))


def _doubt(training: Training) -> list[Html]:
    """Note on the limits of an interval over seeds."""
    done = sum(bool(run.result) for run in training.runs)
    few = (
        f" {done} seeds are few: such intervals are narrower than what further seeds would show." if done < FEW else ""
    )
    return [
        pages.paragraph(
            "Intervals hold 95 % of the means (interquartile means) of seeds drawn with replacement, for each task by "
            f"itself (a stratified bootstrap).{few}"
        )
    ] * (done > 1)


def _side_by_side(comparison: Comparison) -> Html:
    columns, units = ("figure", *(f"#{training.name}" for training in comparison.trainings)), comparison.units
    rows = [
        (_said(measure), *(figure_text(measure, training.figure(measure), units) for training in comparison.trainings))
        for measure in comparison.measures
    ]
    note = "Intervals: of one run over its episodes, of several over their seeds."
    table = pages.table(columns, rows, dict.fromkeys(range(1, len(columns)), NOWRAP))
    return pages.join((table, pages.paragraph(note)))


def _curves(comparison: Comparison, measures: Sequence[str], across: Across) -> list[Html]:
    trainings, found = comparison.trainings, comparison.curves(measures, across)
    if not found:
        return []
    alone = len(trainings) == 1 and len(trainings[0].runs) > 1
    keys = (
        {f"seed {run.config.get('seed')}": _colour(index) for index, run in enumerate(trainings[0].runs)}
        | {"their mean": "var(--ink)"}
        if alone
        else {training.name: _colour(index) for index, training in enumerate(trainings)}
    )
    several = not alone and any(len(training.runs) > 1 for training in trainings)
    note = "Of episodes in training, with the noise of exploration. "
    note += "Lines are the means of seeds, bands reach from the lowest to the highest. " * several
    figures = [
        pages.figure(
            chart(
                _seeds(curves) if alone else _means(curves), ACROSS[across], share=measure.partition("/")[0] in SHARES
            ),
            measure,
        )
        for measure, curves in found.items()
    ]
    legend = pages.paragraph(pages.join((note, pages.legend(keys))))
    return [pages.heading("Training"), legend, pages.grid(figures, cell="26rem")]


def _seeds(curves: dict[str, list[Points]]) -> list[Line]:
    (runs,) = curves.values()
    lines = [Line(points, _colour(index), 1.2, 0.7) for index, points in enumerate(runs)]
    return [*lines, Line(mean_curve(runs).points, "var(--ink)", 2.2)] if runs else []


def _means(curves: dict[str, list[Points]]) -> list[Line]:
    lines = []
    for index, runs in enumerate(curves.values()):
        if runs:
            mean = mean_curve(runs)
            lines.append(Line(mean.points, _colour(index), 1.8, band=mean.band))
    return lines


def _runs(trainings: Sequence[Training]) -> Html:
    rows = (
        (
            training.name,
            run.config.get("seed", ABSENT),
            run.path.name,
            run.created[:16].replace("T", " "),
            f"{run.result['steps']:,}" if "steps" in run.result else ABSENT,
            f"{run.result['train_seconds']:.1f} s" if "train_seconds" in run.result else "not at its end",
        )
        for training in trainings
        for run in training.runs
    )
    columns = ("training", "#seed", "folder", "begun (UTC)", "#steps", "#trained for")
    return pages.table(columns, rows, dict.fromkeys(range(len(columns)), NOWRAP))


def _said(measure: str) -> str:
    """A figure's name in words."""
    words = {"success": "success at the last step", "success_any": "success at any step", "fall": "failed",
             "train_seconds": "training time", "train_env_steps_per_second": "training speed"}  # fmt: skip
    return words.get(measure, measure.replace("_", " "))


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
