"""Rows of the tables that have many files: trainings, evaluations, speeds, deployments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.results_page.records import (
    LINK,
    Record,
    Row,
    files,
    groups,
    is_evaluated,
    is_trained,
    learner,
    others,
    percent,
    several,
    success,
    wrote,
)
from benchmarks.results_page.studies import means


def trained(results: Mapping[str, Record]) -> Iterable[Row]:
    """Trainings that ended with an evaluation."""
    for group in groups(results, lambda name, record: is_trained(record)).values():
        records = list(group.values())
        yield (
            f"`{records[0].get('task', '')}`",
            learner(records[0]),
            f"{records[0]['steps'] / 1e6:.1f}",
            several(minutes(records), lambda value: f"{value:.1f}"),
            success(records),
            success(records, "success_any"),
            others(records),
            files(group),
        )


def minutes(records: Sequence[Record]) -> list[float]:
    """Minutes of each training; none where one went on from a checkpoint, since its clock saw only the rest."""
    whole = not any(record.get("resumed_at") for record in records)
    return [record["train_seconds"] / 60 for record in records] if whole else []


SEEING = ("vla", "lerobot")
"""In the names of files about policies that see."""


def evaluated(sees: bool) -> Callable[[Mapping[str, Record]], Iterable[Row]]:
    """Policies and scripts over fresh episodes; those that see apart."""

    def rows(results: Mapping[str, Record]) -> Iterable[Row]:
        def wanted(name: str, record: Record) -> bool:
            return is_evaluated(record) and not is_trained(record) and any(word in name for word in SEEING) == sees

        for group in groups(results, wanted).values():
            records = list(group.values())
            first = records[0]
            policy = first.get("policy")
            learned = first["algorithm"] if "library" in first else "a run's"
            yield (
                f"`{first.get('task', '')}`",
                policy if isinstance(policy, str) and policy in ("shipped", "expert", "zero", "random") else learned,
                str(first.get("engine", "mujoco")),
                f"{first['episodes']:.0f}",
                success(records),
                success(records, "success_any"),
                others(records),
                files(group),
            )

    return rows


def is_of_seeds(record: Record) -> bool:
    """Whether `embodied.train --seeds` wrote it."""
    return "seeds" in record and "figures" in record


def of_seeds(results: Mapping[str, Record]) -> Iterable[Row]:
    """Trainings with several seeds by one command."""
    for name, record in results.items():
        if not is_of_seeds(record):
            continue
        figures = record["figures"]
        iqm = figures["success"]
        yield (
            f"`{record['task']}`",
            record["algorithm"],
            ", ".join(map(str, record["seeds"])),
            success([record]),
            f"{percent(iqm['iqm'])} ({percent(iqm['iqm_low'])} to {percent(iqm['iqm_high'])})",
            ", ".join(percent(score) for score in iqm["scores"]),
            others([record]),
            f"{files([name])}, [page]({LINK}{name}.html)",
        )


def speed(results: Mapping[str, Record]) -> Iterable[Row]:
    """Environments per second by `embodied.bench`."""
    for name, record in results.items():
        listed = record.get("results")
        for one in [record, *(listed if isinstance(listed, list) else [])]:
            if not isinstance(one, Mapping) or "engine_fraction" not in one or not wrote("embodied.bench", record):
                continue
            yield (
                f"`{one['task']}`",
                ", ".join(filter(None, (one["engine"], record["hardware"].get("gpu")))),
                f"{one['num_envs']:,}",
                "the shipped" if one.get("policy") else "none",
                f"{one['env_steps_per_second'] / 1e3:,.1f} k",
                f"{one['physics_steps_per_second'] / 1e6:,.2f} M",
                f"{100 * one['engine_fraction']:.0f} %",
                files([name]),
            )


def deployed(results: Mapping[str, Record]) -> Iterable[Row]:
    """Bundles on simulated robots."""
    for name, record in results.items():
        rows = record.get("success")
        if not wrote("benchmarks.deploy_standin", record) or not isinstance(rows, Mapping):
            continue
        for what, row in rows.items():
            latched = sum(row["latched"].values())
            yield (
                f"`{what.split(' on ')[0]}`",
                what.split(" on ", 1)[1],
                str(row["runs"]),
                percent(row["success"]),
                percent(row["failed"]),
                str(latched),
                str(row["outside_limits"]),
                means(row),
                files([name]),
            )


def calibrated(results: Mapping[str, Record]) -> Iterable[Row]:
    """Whether a calibration's intervals hold the truth, for logs of simulators that are not its twin."""
    for name, record in results.items():
        if not wrote("benchmarks.calibration_foreign", record):
            continue
        for source, row in record["results"].items():
            worst = min(row["parameters"], key=lambda parameter, row=row: row["parameters"][parameter]["coverage"])
            yield (
                source,
                f"{row['logs']} ({row['converged']})",
                percent(row["coverage"]),
                f"{row['half_width_over_error']:.1f}",
                f"{row['width_over_prior']:.3f}",
                percent(row["identified"]),
                f"{worst} ({percent(row['parameters'][worst]['coverage'])} %)",
                files([name]),
            )


def remaining(results: Mapping[str, Record]) -> Iterable[Row]:
    """Files without a table: their commands, and what single numbers they have."""
    for name, record in results.items():
        numbers = {
            key: value
            for key, value in record.items()
            if isinstance(value, float | int) and not isinstance(value, bool) and not key.endswith(("_low", "_high"))
        }
        said = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in list(numbers.items())[:8])
        yield files([name]), f"`{_short(record.get('command', ''))}`", said


def _short(command: Any) -> str:
    """A command without where it wrote to."""
    return re.sub(r" --(json|out) \S+", "", str(command)).removeprefix("python -m ").replace("|", "\\|")


HEADLINES: Sequence[tuple[str, str, str]] = (
    ("A Crazyflie learns to hover", "swarm/hover", "train"),
    ("A Go1 learns to walk", "locomotion/go1-joystick-flat", "train"),
    ("... its policy on PyBullet", "locomotion/go1-joystick-flat", "evaluate-pybullet"),
    ("... on Brax", "locomotion/go1-joystick-flat", "evaluate-brax"),
    ("A G1 learns to walk", "locomotion/g1-joystick-flat", "train"),
    ("Gymnasium's humanoid learns to walk", "locomotion/humanoid", "train-7m"),
    ("Eight drones take their places in a formation", "swarm/formation", "evaluate-shipped"),
    ("A LEAP hand lifts objects that it never saw", "grasping/leap-lift", "sac-held-out"),
    ("Scripts of Meta-World's fifty tasks", "mt50", "evaluate-expert"),
    ("One policy for MT50, from states", "mt50", "train-dagger"),
    ("One policy for MT10, from states", "mt10", "train-dagger"),
    ("... from pictures and words", "mt10", "vla-median"),
    ("An arm picks up the object that it is told, from pictures", "manipulation/pick-among", "vla-median"),
    ("A1, known by its URDF alone, learns to walk", "locomotion/velocity", "a1"),
)
"""Headline -> task and study."""


def headlines(results: Mapping[str, Record]) -> Iterable[Row]:
    """Results that most readers look for first."""
    by_study = groups(results, lambda name, record: is_evaluated(record))
    for what, task, study in HEADLINES:
        seeds = by_study[f"{task} {study}"]
        records = list(seeds.values())
        took = ""
        if is_trained(records[0]):
            took = f"{records[0]['steps'] / 1e6:.1f} M steps"
            if spent := minutes(records):
                took += f", {float(np.mean(spent)):.1f} min"
        yield what, success(records), success(records, "success_any"), others(records), took, files(seeds)
