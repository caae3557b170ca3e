"""Rates of success over episodes and over tasks, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Z95 = 1.959964  # 97.5 % quantile of the normal distribution
EPISODE = "episode"
"""Name of the values that number the episodes of a trial, from 1."""


def wilson(successes: int, count: int) -> tuple[float, float]:
    """95 % interval of a proportion (Wilson 1927), sound also at 0 and 1."""
    if not count:
        return 0.0, 1.0
    rate, z2 = successes / count, Z95**2
    middle = (rate + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 * math.sqrt(rate * (1 - rate) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def overall(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over the tasks, with 95 % intervals of the two success rates.

    The tasks are given, and only the episodes are a sample: a mean's variance is the mean of the tasks' p (1 - p) / n,
    over the number of tasks; p as Agresti and Coull (1998) estimate it, so that 50 of 50 leaves some doubt.
    """
    found: dict[str, float] = {"tasks": float(len(rows))}
    for name in ("success", "success_any"):
        rates = [row[name] for row in rows]
        mean, variance = sum(rates) / len(rates), 0.0
        for row in rows:
            n = row["episodes"] + Z95**2
            p = (row[name] * row["episodes"] + Z95**2 / 2) / n
            variance += p * (1 - p) / n / len(rows) ** 2
        half = Z95 * math.sqrt(variance)
        found |= {name: mean, f"{name}_low": max(0.0, mean - half), f"{name}_high": min(1.0, mean + half)}
    found["return"] = sum(row["return"] for row in rows) / len(rows)
    found["episodes"] = float(sum(row["episodes"] for row in rows))
    found["seconds"] = sum(row["seconds"] for row in rows)
    return found


def adaptation(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, float]]]:
    """`overall_by_episode` of the suite's tasks, `by_episode`, and of those held out; empty without trials."""
    parts = {"by_episode": False, "held_out_by_episode": True}
    found = {key: overall_by_episode([row for row in rows if row["held_out"] is held]) for key, held in parts.items()}
    return {key: each for key, each in found.items() if each}


def overall_by_episode(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """`overall` of the tasks' first episodes of a trial, of their second ones and so on; empty without trials."""
    numbered = zip(*(row.get("by_episode", ()) for row in rows), strict=True)
    return [overall(part) | {EPISODE: float(number)} for number, part in enumerate(numbered, 1)]
