"""The table of the learners, Markdown, written from the cells' files; `benchmarks.results_page` puts it on its page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embodied.evaluation.aggregate import Interval, aggregate, performance_profile, probability_of_improvement

Record = Mapping[str, Any]
RESULTS = Path(__file__).resolve().parents[1] / "results/learners"
LINK = "../benchmarks/results/learners/"
BASELINES = {"sparse": "bc", "dense": "ppo", "pictures": "sac-pixels", "teams": "mappo", "games": "mappo"}
"""Problem -> method over which the improvement of the others is shown."""
REMOVED: Mapping[str, str] = {
    "ddpg": "TD3 without what makes it steady, and no better",
    "fast-td3": "for large batches on a GPU, which nobody here has measured; on two cores PPO learns more by the clock",
    "pql": "as fast-td3",
    "cqn": "no better than cloning: batches and networks of the published size take half a second of a core an update",
    "cqn-as": "as cqn, and below it",
    "q-transformer": "no better than cloning, likewise",
}
"""Methods that were measured and taken out of the commands -> why."""
SLIM_GRIPPER = "2026-11-25T21:31:42+00:00"
"""Since when the table tasks have it; what was measured on them before is of another hand."""
PROFILE = (0.25, 0.5, 0.75, 0.9)
INTRODUCTION = """Every learner on the problem it is for, by `python -m benchmarks.learners`. *Sparse*: a reward of 1 at
success, from noisy demonstrations of the task's script, 100,000 environment steps besides. *Dense*: a million steps, or
the clock. *Pictures*: learned in one look, tried in others. *Teams*: many agents, equal steps of their worlds. *Games*:
sides with opposed rewards, the first against the script of the others. Success is in %, over {episodes} fresh episodes
of the task as it is; intervals are 95 %: over several seeds a stratified bootstrap's, of one seed Wilson's over its
episodes, which knows nothing of other seeds. Core-minutes are what training took of a processor. What has no row was
not measured yet; what is marked † was taken out of the commands.
"""


def read(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All results there are, in the order of their files."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/*/*.json"))]


def markdown(records: Sequence[Record]) -> str:
    """Cell by cell, and over the tasks of each problem."""
    if not records:
        return "Nothing was measured yet.\n"
    episodes = sorted({int(record["evaluation"]["episodes"]) for record in records})
    parts = [INTRODUCTION.format(episodes=" or ".join(map(str, episodes)))]
    for problem, rows in grouped(records, "problem").items():
        parts.append(f"### {problem.capitalize()}\n\n{_table(HEADERS[problem], _task_rows(problem, rows))}")
        if summary := list(_summary_rows(problem, rows)):
            header = [*SUMMARY, f"better than {BASELINES[problem]}", *PROFILED]
            table = _table(header, summary)
            parts.append(f"Over the tasks whose measure is success, of the seeds that each of them has:\n\n{table}")
        if gone := [f"{name} ({why})" for name, why in REMOVED.items() if name in grouped(rows, "method")]:
            parts.append(f"† Taken out: {'; '.join(gone)}.\n")
        if any(map(of_another_hand, rows)):
            parts.append(
                "‡ With Franka's hand, before the slim gripper: not to be compared with rows without this mark.\n"
            )
    return "\n".join(parts)


COMMON = ("steps", "core-minutes", "seeds")
HEADERS: Mapping[str, Sequence[str]] = {
    "sparse": ("task", "demonstrations", "method", "success", "at any step", *COMMON),
    "dense": ("task", "method", "success", "return", "zoo's return", *COMMON),
    "pictures": ("task", "method", "success", "at any step", "in other looks", *COMMON),
    "teams": ("task", "method", "success", "return", *COMMON),
    "games": ("task", "method", "success", "at any step", *COMMON),
}
TITLES = tuple(problem.capitalize() for problem in sorted(HEADERS))
"""Sections of the page, in their order."""
SUMMARY = ("demonstrations", "method", "tasks x seeds", "interquartile mean", "at any step")
PROFILED = [f"runs of {100 * least:.0f} % or more" for least in PROFILE]


def grouped(records: Iterable[Record], *keys: str) -> dict[Any, list[Record]]:
    """Records by the value of a key, or by the values of several."""
    found: dict[Any, list[Record]] = {}
    for record in records:
        values = tuple(record[key] for key in keys)
        found.setdefault(values[0] if len(keys) == 1 else values, []).append(record)
    return found


def _task_rows(problem: str, records: Sequence[Record]) -> Iterable[Sequence[str]]:
    for (task, number, method), rows in grouped(records, "task", "demonstrations", "method").items():
        shown = [str(number)] if problem == "sparse" else []
        marks = "†" * (method in REMOVED) + "‡" * any(map(of_another_hand, rows))
        yield [f"`{task}`", *shown, method + marks, *_measured(problem, rows), *_spent(rows)]


def of_another_hand(record: Record) -> bool:
    """Whether it was measured before the table tasks had their slim gripper."""
    return record["task"].startswith("manipulation/") and record["hardware"]["date"] < SLIM_GRIPPER


def _measured(problem: str, rows: Sequence[Record]) -> list[str]:
    """Columns of the evaluations."""
    last = _success(rows, "success")
    if problem in ("dense", "teams"):
        returns = _number([row["evaluation"]["return"] for row in rows])
        reference = rows[0]["evaluation"].get("reference_return")
        zoo = [] if problem == "teams" else ["" if reference is None else f"{reference:,.0f}"]
        return [last, returns, *zoo]
    found = [last, _success(rows, "success_any")]
    if problem == "pictures":
        looks = rows[0]["evaluation"]["looks"]
        means = {
            look: np.mean([row["evaluation"]["looks"][look]["success"] for row in rows if "looks" in row["evaluation"]])
            for look in looks
        }
        found.append(", ".join(f"{look} {100 * mean:.0f}" for look, mean in means.items()))
    return found


def _success(rows: Sequence[Record], name: str) -> str:
    """% with an interval: for several seeds the bootstrap's, for one the episodes'."""
    if len(rows) == 1:
        one = rows[0]["evaluation"]
        return _interval(Interval(one[name], one[f"{name}_low"], one[f"{name}_high"]))
    return _interval(aggregate([[row["evaluation"][name]] for row in rows]).mean)


def _interval(found: Interval) -> str:
    value = f"{100 * found.value:.0f}"
    return value if math.isnan(found.low) else f"{value} ({100 * found.low:.0f} to {100 * found.high:.0f})"


def _number(values: Sequence[float]) -> str:
    each = f" ({', '.join(f'{value:,.0f}' for value in values)})" if len(values) > 1 else ""
    return f"{np.mean(values):,.0f}{each}"


def _spent(rows: Sequence[Record]) -> list[str]:
    """Steps, core-minutes and links."""
    steps, minutes = (float(np.mean([row[key] for row in rows])) for key in ("env_steps", "core_minutes"))
    links = ", ".join(f"[{row['seed']}]({LINK}{_path(row)})" for row in rows)
    return [f"{steps:,.0f}", f"{minutes:.1f}", links]


def _path(row: Record) -> str:
    shown = f"_demos{row['demonstrations']}" if row["demonstrations"] else ""
    return f"{row['problem']}/{row['task'].split('/')[-1]}/{row['method']}{shown}_seed{row['seed']}.json"


def _summary_rows(problem: str, records: Sequence[Record]) -> Iterable[Sequence[str]]:
    """Figures over all tasks whose measure is success, where there are several of them."""
    by_return = {row["task"] for row in records if "reference_return" in row["evaluation"]}
    for number, rows in grouped(records, "demonstrations").items():
        rows = [row for row in rows if not of_another_hand(row) and row["task"] not in by_return]
        by_method = grouped(rows, "method")
        tasks = sorted({row["task"] for row in rows})
        tables = {method: found for method, of in by_method.items() if (found := _scores(of, tasks)) is not None}
        baseline = tables.get(BASELINES[problem])
        for method, scores in tables.items() if len(tasks) > 1 else ():
            last, at_any = scores["success"], scores["success_any"]
            better = "" if baseline is None else _interval(probability_of_improvement(last, baseline["success"]))
            yield [
                str(number) if number else "",
                method,
                f"{last.shape[1]} x {last.shape[0]}",
                _interval(aggregate(last).iqm),
                _interval(aggregate(at_any).iqm),
                "" if method == BASELINES[problem] else better,
                *(_interval(share) for share in performance_profile(last, PROFILE)),
            ]


def _scores(rows: Sequence[Record], tasks: Sequence[str]) -> dict[str, np.ndarray] | None:
    """(seeds, tasks) of the seeds that every task has; None where there is none."""
    of = {(row["task"], row["seed"]): row["evaluation"] for row in rows}
    seeds = [seed for seed in sorted({row["seed"] for row in rows}) if all((task, seed) in of for task in tasks)]
    if not seeds:
        return None
    return {
        name: np.array([[of[task, seed][name] for task in tasks] for seed in seeds])
        for name in ("success", "success_any")
    }


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
