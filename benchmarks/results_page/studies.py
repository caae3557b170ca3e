"""Rows of the tables that have one or few files: comparisons of methods, calibrations, speed beside other packages."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.results_page.records import Record, Row, files, percent, wrote
from embodied.evaluation.rates import wilson

MT10 = ("reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close", "button-press-topdown",
        "peg-insert-side", "window-open", "window-close")  # fmt: skip
"""Meta-World's order."""
IMPROVED = ("reach", "drawer-close", "button-press-topdown", "window-open", "window-close")
"""Tasks that reinforcement learning of a policy that sees began with; the columns of its table."""
METHODS: Mapping[str, str] = {
    "expert": "the script",
    "bc": "its clone",
    "sac": "SAC alone",
    "sac-seeded": "SAC, demonstrations in its buffer (G-PAYN)",
    "sac-cloned": "... beginning as their clone",
    "awac": "AWAC",
}
WAYS: Mapping[str, str] = {
    "without": "without a twin",
    "with": "with a twin",
    "with, but no replay": "... but its replay buffer",
    "with, but no weights": "... but its weights",
    "with, but no synthesis": "... but its solved episodes",
    "with, but no map": "... but its failure map",
}
ON_TWIN: Mapping[str, str] = {
    "nominal": "the nominal model",
    "twin": "the twin",
    "randomised": "robots drawn around the twin",
}


def by_task(results: Mapping[str, Record]) -> Iterable[Row]:
    """Success at the last step in each task of MT10, of every policy that was evaluated on it."""
    for name, record in results.items():
        rows = record.get("results")
        if record.get("task") != "mt10" or "success" not in record or not isinstance(rows, list):
            continue
        each = {row["task"].rpartition("/")[2]: row for row in rows}
        if set(each) == set(MT10):
            rates = (f"{100 * each[task]['success']:.0f}" for task in MT10)
            yield percent(record["success"]), *rates, f"{rows[0]['episodes']:.0f}", files([name])


def grasp_methods(results: Mapping[str, Record]) -> Iterable[Row]:
    """From a script to a policy: each method with each hand, over all seeds."""
    groups: dict[tuple[str, str], list[Record]] = collections.defaultdict(list)
    for row in results["grasping/grasp-comparison"]["results"]:
        groups[row["task"], row["method"]].append(row)
    for task in sorted({task for task, _ in groups}):
        for method, words in METHODS.items():
            rows = sorted(groups[task, method], key=lambda row: row["seed"])
            first = [row["first_success_seconds"] for row in rows if row["first_success_seconds"] is not None]
            yield (
                f"`{task}`",
                words,
                over_seeds(rows, "success_any"),
                ", ".join(f"{100 * row['success_any']:.0f}" for row in rows),
                over_seeds(rows, "success"),
                f"{np.mean(first):.1f} s" if any(row["success_any"] for row in rows) else "",
                f"{min(row['cpu_seconds'] for row in rows) / 60:.0f} to "
                f"{max(row['cpu_seconds'] for row in rows) / 60:.0f}",
            )


def over_seeds(rows: Sequence[Record], key: str) -> str:
    """% over the episodes of all seeds, with Wilson's interval."""
    count = sum(round(row["episodes"]) for row in rows)
    solved = sum(round(row[key] * row["episodes"]) for row in rows)
    low, high = wilson(solved, count)
    return f"{percent(solved / count)} ({percent(low)} to {percent(high)})"


def cubes(results: Mapping[str, Record]) -> Iterable[Row]:
    """Targets in a row of a cube in a hand."""
    for name, record in results.items():
        if not wrote("benchmarks.reorientation", record) or "first" not in record:
            continue
        for row in sorted(record["results"], key=lambda row: -row["within"]):
            yield (
                f"`{record['task']}`",
                "nothing" if record["policy"] == "zero" else "a run's",
                f"{record['first']:.1f} rad",
                f"{row['within']:.1f} rad",
                f"{row['targets_mean']:.2f}",
                percent(row["dropped"]),
                str(record["episodes"]),
                files([name]),
            )


def improved(results: Mapping[str, Record]) -> Iterable[Row]:
    """Reinforcement learning of a policy that sees, after what all began with (success at any step only)."""
    begun = False
    for name, record in results.items():
        if not str(record["study"]).startswith("vla-one-") or "after" not in record:
            continue
        if not begun:
            yield "before", "", percent(record["before"]), *("" for _ in IMPROVED), "", "", ""
            begun = True
        last = {row["task"].removeprefix("manipulation/"): row["success"] for row in record["results"]}
        yield (
            f"{str(record['algorithm']).upper()}{', outcome alone' if 'outcome' in name else ''}",
            f"{percent(record['success'])} ({percent(record['success_low'])} to {percent(record['success_high'])})",
            percent(record["success_any"]),
            *(f"{100 * last[task]:.0f}" for task in IMPROVED),
            f"{record['steps'] / 1e6:.2f}",
            f"{record['train_seconds'] / 60:.0f}",
            files([name]),
        )


def own_logs(results: Mapping[str, Record]) -> Iterable[Row]:
    """Whether a calibration finds what is hidden in the logs of its own twin, by kind of parameter."""
    for name in ("sim2real/calibration-go1", "sim2real/calibration-crazyflie", "sim2real/calibration-panda"):
        for robot, row in results[name]["results"].items():
            for kind, found in row["kinds"].items():
                within, median = found["within_5_percent"], found["median_error"]
                yield (
                    f"{robot}, {row['trials']} logs",
                    kind.replace("_", " "),
                    percent(found["coverage"]),
                    f"{found['identified']} of {found['estimates']}",
                    "" if within is None else percent(within),
                    "" if median is None else f"{100 * median:.2f}",
                    files([name]),
                )


def on_the_twin(results: Mapping[str, Record]) -> Iterable[Row]:
    """Policies trained on a calibrated twin, on the robot that was hidden."""
    for name, record in results.items():
        if not wrote("benchmarks.calibrated_training", record):
            continue
        for robot, row in record["results"].items():
            for kind, words in ON_TWIN.items():
                policy = row["policies"][kind]
                robots = policy["pybullet"]
                yield (
                    robot,
                    words,
                    percent(policy["success_in_training"]),
                    percent(robots["success"]),
                    means(robots),
                    str(robots["runs"]),
                    files([name]),
                )


def means(row: Mapping[str, Any]) -> str:
    """Mean errors of a deployment."""
    said = {"mean_velocity_error": "velocity error {:.3f} m/s", "mean_position_error": "position error {:.3f} m"}
    return "; ".join(words.format(row[key]) for key, words in said.items() if key in row)


def with_a_twin(results: Mapping[str, Record]) -> Iterable[Row]:
    """Steps on a target until a policy solves it, with and without a twin."""
    record = results["sim2real/faucet-open/twin-rl"]
    for way, words in WAYS.items():
        mean = record["means"][way]
        seeds = sorted((run["seed"], run["steps_to"]["both"]) for run in record["runs"] if run["way"] == way)
        yield (
            words,
            *(f"{mean[part]['steps']:,.0f} ({mean[part]['reached']})" for part in ("inside", "outside", "both")),
            ", ".join("never" if steps is None else f"{steps:,}" for _, steps in seeds),
            *(percent(mean[part]["success_at_first"]) for part in ("inside", "outside")),
            *(percent(mean[part]["success"]) for part in ("inside", "outside")),
        )


def table_tasks(results: Mapping[str, Record]) -> Iterable[Row]:
    """Control steps per second of each table task, beside other packages."""
    record = results["engines/manipulation-speed"]
    for row in ({"task": "mean of all"} | record["mean"], *record["results"]):
        rates = (f"{row[package] / 1e3:.1f}" for package in ("embodied", "metaworld", "envpool"))
        times = (f"{row[f'times_{package}']:.1f}" for package in ("metaworld", "envpool"))
        yield row["task"], *rates, *times


def metaworld(results: Mapping[str, Record]) -> Iterable[Row]:
    """Success of Meta-World's own policies and of our scripts on each table task."""
    record = results["manipulation/metaworld-policies"]
    for row in ({"task": "mean of all"} | record["mean"], *record["results"]):
        scores = (
            percent(row[whose][kind]) for whose in ("metaworld", "embodied") for kind in ("success_any", "success")
        )
        yield row["task"], *scores


def transferred(results: Mapping[str, Record]) -> Iterable[Row]:
    """Success of trained policies on Meta-World's task and on ours."""
    first = "manipulation/metaworld-transfer"
    sac = results[first]["results"][0]  # its other rows are from before the gripper's last change
    later = (results[f"{first}-{kind}"]["results"] for kind in ("shipped", "imitation"))
    for row in (sac, *itertools.chain.from_iterable(later)):
        sides = (row["metaworld"], row["embodied"])
        scores = (percent(side[kind]) for side in sides for kind in ("success_any", "success"))
        yield row["task"], {"metaworld": "Meta-World", "embodied": "ours"}[row["trained_on"]], *scores


def retrieved(results: Mapping[str, Record]) -> Iterable[Row]:
    """Targets that an arm gets out of clutter, by what it removes first."""
    words = {"graph": "by the graph", "target-first": "the target first", "random": "any object"}
    for name, record in results.items():
        if not wrote("benchmarks.clutter_retrieval", record):
            continue
        for strategy, row in record["strategies"].items():
            yield (
                f"{record['hand']}, {record['difficulty']}",
                words[strategy],
                f"{percent(row['success'])} ({percent(row['success_low'])} to {percent(row['success_high'])})",
                f"{row['attempts']:.1f}",
                f"{row['removals']:.1f}",
                str(record["scenes"]),
                files([name]),
            )


def asked(results: Mapping[str, Record]) -> Iterable[Row]:
    """Episodes with instructions that may fit several objects, by who decides when to ask."""
    for name, record in results.items():
        if not wrote("policies.vla.asking.evaluate", record):
            continue
        for row in record["results"]:
            yield (
                "the script" if record["policy"] == "expert" else "a policy that sees",
                str(row["by"]),
                f"{percent(row['success_any'])} ({percent(row['success_any_low'])} to "
                f"{percent(row['success_any_high'])})",
                percent(row["wrong_object"]),
                percent(row["asked"]),
                f"{row['episodes']:.0f}",
                files([name]),
            )


def lowered(results: Mapping[str, Record]) -> Iterable[Row]:
    """Tasks whose programs lower for CUDA, families against engines."""
    groups: dict[tuple[str, str], list[Record]] = collections.defaultdict(list)
    for row in results["engines/cuda-lowering"]["programs"]:
        groups[f"`{row['engine']}` {row['variant']}".strip(), row["task"].split("/")[0]].append(row)
    for (engine, family), members in groups.items():
        good = [row for row in members if row["lowers"]]
        state, widest = (span([row[key] / 1e3 for row in good]) for key in ("state_bytes", "widest_bytes"))
        callbacks = sum(bool(row["callbacks"]) for row in good)
        yield engine, f"{family}, {len(members)}", str(len(good)), str(callbacks), state, widest


def span(values: Sequence[float]) -> str:
    """Least to greatest."""
    if not values:
        return ""
    low, high = (f"{value:.3g}" if value < 1000 else f"{value:,.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
