"""JSON files under benchmarks/results, and the format of their figures.

A result lies at `ROOM/TASK/STUDY[-seedN].json`, or `ROOM/STUDY.json` where it is of no task; its record has the key
`study`. `archive/` holds what newer results have overtaken: no page shows it. `learners/PROBLEM/TASK/METHOD_seedN.json`
are the cells of `benchmarks.learners`, which has tables of its own.
"""

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
SEED = re.compile(r"-seed(\d+)")
ARCHIVE, CELLS = "archive", "learners"
CLEAN_SINCE = "2026-11-30T16:00"  # earlier results may be of a tree with uncommitted changes
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
    """Path below benchmarks/results, without its end -> result.

    Raises:
        ValueError: one was measured in a tree with uncommitted changes, so that no commit says of what it is.
    """
    found: dict[str, Record] = {}
    for path in sorted(RESULTS.rglob("*.json")):
        name = path.relative_to(RESULTS).with_suffix("")
        if name.parts[0] != ARCHIVE and not (name.parts[0] == CELLS and len(name.parts) == 4):
            found[name.as_posix()] = checked(name.as_posix(), json.loads(path.read_text(encoding="utf-8")))
    return found


def checked(name: str, record: Record) -> Record:
    """A result, unless it was measured in a tree with uncommitted changes; raises as `read`."""
    hardware = record.get("hardware", {})
    if hardware.get("dirty") and hardware["date"] >= CLEAN_SINCE:
        raise ValueError(f"{name}.json was measured with uncommitted changes (dirty: true); commit, and measure again")
    return record


def wrote(command: str, record: Record) -> bool:
    """Whether a command wrote a result, `benchmarks.deploy_standin`."""
    return f"-m {command}" in str(record.get("command", ""))


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
    """Task and study -> file -> result: its seeds."""
    found: dict[str, dict[str, Record]] = {}
    for name, record in results.items():
        if wanted(name, record):
            found.setdefault(f"{record.get('task')} {record['study']}", {})[name] = record
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
