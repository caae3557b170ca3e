"""The tables that `evaluate` prints, of one task and of a suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from embodied.cli import Table, number
from embodied.evaluation.suites import overall


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
    """One line for each task of a suite, and their mean: rates in percent, with 95 % intervals in brackets."""
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


def percent(summary: Mapping[str, float], name: str) -> str:
    """A rate and its 95 % interval, in percent."""
    rate, low, high = (100 * summary[key] for key in (name, f"{name}_low", f"{name}_high"))
    return f"{rate:.1f} %  (95 %: {low:.1f} to {high:.1f})"
