"""JSON files under benchmarks/results, and the format of their figures."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
LINK = "../benchmarks/results/"
SEED = re.compile(r"_seed(\d+)")
Record: TypeAlias = Mapping[str, Any]
Row: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Metric:
    """Format of a number of a result."""

    label: str
    unit: str
    """`%` for a share."""
    digits: int = 3


METRICS: Mapping[str, Metric] = {
    "velocity_error": Metric("velocity error", "m/s"),
    "fall": Metric("failed", "%", 1),
    "tracked": Metric("targets tracked", "%", 1),
    "position_error": Metric("position error", "m"),
    "forward_speed": Metric("speed", "m/s", 2),
    "caught": Metric("caught", "%", 1),
    "dropped": Metric("dropped", "%", 1),
}
"""Of the tasks' own metrics those that are shown, in this order."""
BY_RETURN = (
    "locomotion/ant",
    "locomotion/half-cheetah",
    "locomotion/hopper",
    "locomotion/walker2d",
    "locomotion/humanoid",
)
"""Tasks that are judged by their return, as Gymnasium's are."""


def read() -> dict[str, Record]:
    """File name without its end -> result."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def is_evaluated(record: Record) -> bool:
    """Whether success of a policy was counted."""
    return isinstance(record.get("success"), float | int) and "episodes" in record and "bytes" not in record


def is_trained(record: Record) -> bool:
    return is_evaluated(record) and "train_seconds" in record and "steps" in record


def learner(record: Record) -> str:
    """Name of the algorithm; older results have it in their command only, by the flag's former name `--learner` too."""
    named = re.search(r"--(?:algorithm|learner) (\S+)", str(record.get("command", "")))
    return str(record.get("algorithm") or (named[1] if named else "ppo"))


def groups(results: Mapping[str, Record], wanted: Callable[[str, Record], bool]) -> dict[str, dict[str, Record]]:
    """Name without seed -> file -> result."""
    found: dict[str, dict[str, Record]] = {}
    for name, record in results.items():
        if wanted(name, record):
            found.setdefault(SEED.sub("", name), {})[name] = record
    return found


def several(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """One value, or the mean and each; empty where there is none."""
    if not values:
        return ""
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(float(np.mean(values)))} ({', '.join(shown(value) for value in values)})"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def success(records: Sequence[Record], key: str = "success") -> str:
    """% with its interval, for several the mean and each; empty where it was not counted."""
    if any(key not in record for record in records):
        return ""
    text = several([record[key] for record in records], percent)
    low, high = (records[0].get(f"{key}_{side}") for side in ("low", "high"))
    if len(records) > 1 or low is None or high is None:
        return text
    return f"{text} ({percent(low)} to {percent(high)})"


def others(records: Sequence[Record]) -> str:
    """Metrics of the task, and its return where that is what counts."""
    said = []
    if str(records[0].get("task")) in BY_RETURN:
        said.append(f"return {several([record['return'] for record in records], lambda value: f'{value:,.0f}')}")
    for name, metric in METRICS.items():
        if all(isinstance(record.get(name), float | int) for record in records):
            share = metric.unit == "%"
            digits = metric.digits
            text = several(
                [record[name] for record in records],
                lambda value, share=share, digits=digits: f"{100 * value if share else value:.{digits}f}",
            )
            said.append(f"{metric.label} {text} {metric.unit}")
    return "; ".join(said)


def files(names: Iterable[str]) -> str:
    """Links to the files of a row; for several seeds the first with its seed, the others by number."""
    links = []
    for count, name in enumerate(names):
        seed = SEED.search(name)
        links.append(f"[{name if count == 0 or seed is None else seed[1]}]({LINK}{name}.json)")
    return ", ".join(links)
