"""Learning curves of runs: measures of `metrics.jsonl`, averaged in bins, drawn with matplotlib."""

from __future__ import annotations

import fnmatch
import io
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, listing, reason
from embodied.storage.files import write_atomic

Points = list[tuple[float, float]]
Records = Sequence[Mapping[str, float]]

FARTHEST = 1e100  # of a number that is drawn: differences of much larger ones overflow
BINS = 60  # points of a curve
STOP = 600.0  # s between two lines of metrics beyond which the run stood still
COMMON = ("success", "closed_loop", "return", "loss", "held_out_error")
"""Measures that are drawn where a run has them, unless others are given."""
SHARES = ("success", "closed_loop", "failure", "dropped")
"""Measures from 0 to 1, shown in percent, by the part of their name before a slash."""
UNITS = {"held_out_error": "of normalised actions"}
"""Measure -> unit of its numbers, where it has one."""
COLUMNS = 2  # of panels: more are too small to read on a narrow page
COLOURS = ("#2f6fde", "#d9482b", "#1f9d61", "#b07a10", "#8a4fd0", "#0e8a9c", "#c2347f", "#5a6b2a", "#455a75", "#a4552b")
INK = "#1f2933"


class Across(StrEnum):
    """Quantity of the x axis of curves."""

    STEPS = "steps"
    """Steps as the run counts them: of all environments together, or of the gradient."""
    MINUTES = "minutes"
    """Minutes since the run began, without those in which it was stopped."""


def called(runs: Sequence[Path]) -> tuple[str, ...]:
    """Name of each run: its folder, or its path where two folders have the same name."""
    short = tuple(path.resolve().name for path in runs)
    return short if len(set(short)) == len(short) else tuple(str(path) for path in runs)


def chosen(wanted: Sequence[str], records: Sequence[Records]) -> list[str]:
    """The requested measures, in that order.

    Raises:
        EmbodiedError: no run has one of them, or any; lists what they have.
    """
    known = sorted({name for one in records for record in one for name in record} - {"step", "time"})
    if not known:
        raise EmbodiedError(f"no measure in the metrics.jsonl of {len(records)} runs; expected some training")
    if not wanted:
        return [name for name in COMMON if name in known] or known[:3]
    found: dict[str, None] = {}
    for pattern in wanted:
        matches = fnmatch.filter(known, pattern)
        if not matches:
            raise EmbodiedError(f"no run has the measure '{pattern}'; they have {listing(known)}")
        found |= dict.fromkeys(matches)
    return list(found)


def curve(records: Records, measure: str, across: Across, count: int = BINS) -> Points:
    """One measure of one run as at most `count` points, each the mean of as many lines that follow one another."""
    begun, minutes, last = [], 0.0, None
    for record in records:
        now = record.get("time", math.nan)
        gap = 0.0 if last is None else now - last
        minutes += gap / 60 if 0 < gap < STOP else 0.0
        last = now
        begun.append(minutes)
    places = [record["step"] for record in records] if across is Across.STEPS else begun
    points = [
        (place, record[measure])
        for place, record in zip(places, records, strict=True)
        if abs(place) < FARTHEST and abs(record.get(measure, math.nan)) < FARTHEST
    ]
    return binned(points, count)


def binned(points: Points, count: int) -> Points:
    """At most `count` points, each the mean height of as many that follow one another, where the last of them is."""
    size = max(1, -(-len(points) // count))
    chunks = [points[first : first + size] for first in range(0, len(points), size)]
    return [(chunk[-1][0], sum(y for _, y in chunk) / len(chunk)) for chunk in chunks]


def title(measure: str) -> str:
    """A measure's name as a panel is called: of `success/FAMILY/TASK` the task comes first."""
    kind, _, task = measure.partition("/")
    return f"{task.rpartition('/')[2]}: {kind}" if task else measure.replace("_", " ")


def blank(width: float, height: float) -> Any:
    """An empty matplotlib figure of this size in inches.

    Raises:
        EmbodiedError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EmbodiedError('pictures need the package matplotlib; pip install "embodied-sim[plots]"') from None
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def draw(path: Path, curves: Mapping[str, Mapping[str, Points]], across: Across) -> None:
    """A panel for each measure.

    Args:
        path: PNG, SVG or PDF.
        curves: Measure -> run -> points.
        across: Quantity of the x axis.

    Raises:
        EmbodiedError: matplotlib is missing, or the file cannot be written.
    """
    columns = min(COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    figure = blank(3.8 * columns, 2.6 * rows + 0.5)
    from matplotlib.ticker import EngFormatter, PercentFormatter

    panels = figure.subplots(rows, columns, squeeze=False)
    names = list(dict.fromkeys(name for lines in curves.values() for name in lines))
    for panel, (measure, lines) in zip(panels.flat, curves.items(), strict=False):
        for name, points in lines.items():
            marker = "o" if len(points) < BINS / 3 else None
            colour = COLOURS[names.index(name) % len(COLOURS)]
            panel.plot(*zip(*points, strict=True), color=colour, linewidth=1.4, marker=marker, markersize=3)
        panel.set_title(title(measure), loc="left", fontsize=10, color=INK, fontweight="bold")
        panel.tick_params(labelsize=8, colors=INK)
        panel.grid(alpha=0.25, linewidth=0.5)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlabel(across, fontsize=9, color=INK)
        share = measure.partition("/")[0] in SHARES
        panel.set_ylabel("of episodes" if share else UNITS.get(measure, ""), fontsize=9, color=INK)
        if across is Across.STEPS:  # of minutes a prefix would be read as a unit: 300 m
            panel.xaxis.set_major_formatter(EngFormatter(sep="\N{THIN SPACE}"))
        if share:
            panel.set_ylim(0.0, 1.0)
            panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    for panel in panels.flat[len(curves) :]:
        panel.set_visible(False)
    if len(names) > 1:
        handles = [figure.axes[0].plot([], [], color=COLOURS[i % len(COLOURS)])[0] for i in range(len(names))]
        figure.legend(handles, names, loc="outside upper left", ncols=min(6, len(names)), fontsize=9, frameon=False)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib as PNG, SVG or PDF, as the file's name ends.

    Raises:
        EmbodiedError: the file cannot be written.
    """
    try:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=path.suffix.removeprefix(".") or None)
        write_atomic(path, drawn.getvalue())
    except (OSError, ValueError) as error:
        raise EmbodiedError(f"cannot write the picture '{path}': {reason(error)}") from None
