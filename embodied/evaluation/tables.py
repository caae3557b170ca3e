"""The tables that `evaluate` prints, of one task and of a suite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from embodied.cli import Table, number
from embodied.evaluation.rates import overall, overall_by_episode


def evaluation_rows(summary: Mapping[str, float], units: Mapping[str, str]) -> dict[str, str]:
    """The rows of a policy's results; units are those of the task's own metrics."""
    rows = {
        "success": percent(summary, "success"),
        "success at any step": percent(summary, "success_any"),
        "return": interval(*(summary[key] for key in ("return", "return_low", "return_high"))),
        "length": f"{summary['length']:.0f} steps",
    }
    bounds = {f"{name}_{end}" for name in ("success", "success_any", "return") for end in ("low", "high")}
    said = {*rows, *bounds, "success_any", "seconds", "env_steps_per_second"}
    if "fall" in summary:
        rows["failed"] = f"{100 * summary['fall']:.1f} %"
    rows |= {
        name: f"{value:.4g} {units.get(name, '')}".strip()
        for name, value in summary.items()
        if name not in (*said, "fall")
    }
    speed = f"{number(summary['env_steps_per_second'])} env steps/s, {summary['seconds']:.1f} s"
    return rows | {"speed of simulation": speed}


def suite_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each task of a suite, and their mean: rates in percent, with 95 % intervals in brackets.

    Of a policy that acts in trials, success in each of their episodes.
    """
    if "by_episode" in rows[0]:
        return _trial_table(name, rows)
    lines, sections = [], []
    for held_out in sorted({row["held_out"] for row in rows}):
        part = [row for row in rows if row["held_out"] == held_out]
        sections.append(len(lines))
        for row in (*part, {"task": f"mean of {len(part)}{', held out' if held_out else ''}", **overall(part)}):
            rates = [
                f"{100 * row[key]:.0f} ({100 * row[f'{key}_low']:.0f} to {100 * row[f'{key}_high']:.0f})"
                for key in ("success_any", "success")
            ]
            lines.append((row["task"].rpartition("/")[2], *rates, f"{row['return']:.4g}"))
    headings = ("success, %", "at any step", "at the last step", "return")
    return Table(name, tuple(lines), headings, right=(1, 2, 3), sections=tuple(sections[1:]))


def _trial_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each task, and their means: success in each episode of a trial, in percent, with 95 % intervals."""
    lines, sections = [], []
    for held_out in sorted({row["held_out"] for row in rows}):
        part = [row for row in rows if row["held_out"] == held_out]
        sections.append(len(lines))
        mean = {
            "task": f"mean of {len(part)}{', held out' if held_out else ''}",
            "by_episode": overall_by_episode(part),
        }
        for row in (*part, mean):
            cells = (_rates(row["by_episode"], key) for key in ("success", "success_any"))
            lines.append((row["task"].rpartition("/")[2], *(cell for own in cells for cell in own)))
    numbers = range(1, len(rows[0]["by_episode"]) + 1)
    ends = ("at the last step", "at any step")
    headings = ("success, %", *(f"episode {number}, {end}" for end in ends for number in numbers))
    return Table(name, tuple(lines), headings, right=tuple(range(1, len(headings))), sections=tuple(sections[1:]))


def trial_rows(by_episode: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """Rows of a task's table: success in each episode of a trial."""
    return {
        f"success in episode {number} of a trial": percent(summary, "success")
        for number, summary in enumerate(by_episode, 1)
    }


def _rates(summaries: Sequence[Mapping[str, float]], key: str) -> list[str]:
    return [
        f"{100 * row[key]:.0f} ({100 * row[f'{key}_low']:.0f} to {100 * row[f'{key}_high']:.0f})" for row in summaries
    ]


def percent(summary: Mapping[str, float], name: str) -> str:
    """A rate and its 95 % interval, in percent."""
    return interval(*(summary[key] for key in (name, f"{name}_low", f"{name}_high")), share=True)


def interval(value: float, low: float, high: float, *, share: bool = False, unit: str = "") -> str:
    """A value and its 95 % interval, with the same digits: "97.3 %  (95 %: 94.5 to 98.7)".

    Args:
        low: Lower end; the interval is left out where its ends are not finite.
        share: Whether it is a share of 1, to be shown in percent.
    """
    factor, unit = (100.0, " %") if share else (1.0, f" {unit}" if unit else "")
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{factor * value:.1f}{unit}" if share else f"{value:.4g}{unit}"
    digits = 1 if share else decimals(low, high)
    said, below, above = (f"{factor * number:.{digits}f}" for number in (value, low, high))
    return f"{said}{unit}  (95 %: {below} to {above})"


def plus_minus(value: float, half: float, unit: str = "") -> str:
    """A value and half the width of its 95 % interval, with the same digits: "329.88 ± 0.62 px"."""
    digits = decimals(0.0, half)
    return f"{value:.{digits}f} ± {half:.{digits}f} {unit}".strip()


def decimals(low: float, high: float) -> int:
    """Decimals with which the width of an interval has two digits; of an interval without width, its ends have four."""
    width = high - low
    size, wanted = (width, 1) if width > 0 else (abs(low), 3)
    return 0 if size == 0 or not math.isfinite(size) else min(12, max(0, wanted - math.floor(math.log10(size))))
