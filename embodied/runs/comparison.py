"""Trainings beside each other: their final figures, the settings that differ, their curves. Runs that differ in nothing
but their seed make up one training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embodied.env.registry import join_content
from embodied.errors import RunError, UnknownNameError, listing
from embodied.evaluation.aggregate import Aggregate, Interval, aggregate
from embodied.evaluation.learning_curves import BINS, Across, Points, Records, chosen, curve
from embodied.storage.metrics import is_number
from embodied.storage.runs import Run

FIRST = ("success", "success_any", "return")
"""Figures that every evaluation has, in the order in which they are shown; a task's own follow, then `LAST`."""
LAST = ("steps", "train_seconds", "train_env_steps_per_second")
SHARES = ("success", "success_any", "fall", "truncated")
"""Figures from 0 to 1, which are shown in percent."""
UNITS = {"train_seconds": "s", "train_env_steps_per_second": "steps/s", "length": "steps", "diverged": "episodes"}
NO_FIGURES = ("episodes", "seconds", "env_steps_per_second", "seed", "num_envs", "resumed_at", "tasks")
NO_SETTINGS = ("seed", "name", "variations", "checkpoint_seconds")
"""Fields of a run's config that do not distinguish trainings: seeds are shown by themselves."""
ABSENT = "-"


def declared_units(task: str) -> Mapping[str, str]:
    """Units of a task's own metrics, as an installed task declares them; empty for others, and for suites."""
    registry = join_content()
    return registry[task].load().metric_units if task in registry else {}


@dataclasses.dataclass(frozen=True)
class Training:
    """One run, or several of different seeds."""

    name: str
    runs: tuple[Run, ...]

    def figure(self, measure: str) -> Interval | None:
        """A final figure: of one run with the interval of its episodes, of several with that of the seeds."""
        first, *others = self.runs
        if others:
            found = self.over_seeds(measure)
            return None if found is None else found.mean
        result = first.result
        if not is_number(result.get(measure)):
            return None
        low, high = (result.get(f"{measure}_{end}") for end in ("low", "high"))
        return Interval(result[measure], low if is_number(low) else math.nan, high if is_number(high) else math.nan)

    def over_seeds(self, measure: str) -> Aggregate | None:
        """A final figure over the runs that came to their end, for each task of a suite; None: none has it."""
        results = [result for run in self.runs if (result := run.result)]
        of_tasks = [[row for row in result.get("results") or [result] if not row.get("held_out")] for result in results]
        # What a suite has for the whole alone is no figure of its tasks.
        if not all(is_number(row.get(measure)) for rows in of_tasks for row in rows):
            of_tasks = [[result] for result in results if is_number(result.get(measure))]
        scores = [[row[measure] for row in rows] for rows in of_tasks]
        return aggregate(scores) if scores else None

    @property
    def seeds(self) -> str:
        """The seeds, as a person lists them."""
        return listing(run.config.get("seed", ABSENT) for run in self.runs)


@dataclasses.dataclass(frozen=True)
class Mean:
    """Mean and spread of several runs' curves, where all of them have been."""

    points: Points
    band: Sequence[tuple[float, float, float]]
    """(x, lowest, highest)."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Trainings beside each other."""

    trainings: tuple[Training, ...]

    @property
    def units(self) -> dict[str, str]:
        """Units of the final figures: of training, and of the tasks' own metrics."""
        found = dict(UNITS)
        for training in self.trainings:
            for run in training.runs:
                found |= run.result.get("units") or declared_units(run.task)  # older results have none
        return found

    @property
    def measures(self) -> list[str]:
        """Names of the final figures that any of them has."""
        found: dict[str, None] = {}
        for training in self.trainings:
            for run in training.runs:
                found |= dict.fromkeys(name for name, value in run.result.items() if is_number(value))
        bounds = {f"{name}_{end}" for name in found for end in ("low", "high")}
        own = [name for name in found if name not in (*FIRST, *LAST, *NO_FIGURES, *bounds)]
        return [name for name in (*FIRST, *own, *LAST) if name in found]

    @property
    def settings(self) -> dict[str, tuple[str, ...]]:
        """Settings that differ, by their dotted names in `config.json` -> each training's value."""
        held = [[flat(run.config) for run in training.runs] for training in self.trainings]
        names = dict.fromkeys(name for configs in held for config in configs for name in config)
        said = {
            name: tuple(" | ".join(dict.fromkeys(config.get(name, ABSENT) for config in configs)) for configs in held)
            for name in names
            if name.split(".")[0] not in NO_SETTINGS
        }
        return {name: values for name, values in said.items() if len(set(values)) > 1 or " | " in values[0]}

    def curves(self, measures: Sequence[str] = (), across: Across = Across.STEPS) -> dict[str, dict[str, list[Points]]]:
        """Measure of training -> training -> a curve for each of its runs that has one.

        Raises:
            EmbodiedError: no run has a measure that is asked for.
        """
        records = {training.name: [run.metrics() for run in training.runs] for training in self.trainings}
        every: list[Records] = [one for all_runs in records.values() for one in all_runs]
        if not any(every):
            return {}
        return {
            measure: {name: [found for one in all_runs if (found := curve(one, measure, across))]
                      for name, all_runs in records.items()}
            for measure in chosen(measures, every)
        }  # fmt: skip


def mean_curve(curves: Sequence[Points]) -> Mean:
    """The mean of curves where all of them have been, between whose points it runs straight."""
    if len(curves) == 1:
        return Mean(curves[0], ())
    first, last = max(points[0][0] for points in curves), min(points[-1][0] for points in curves)
    if not first < last:
        return Mean([], ())
    grid = np.linspace(first, last, BINS)
    heights = np.stack([np.interp(grid, *np.transpose(points)) for points in curves])
    mean, low, high = heights.mean(0), heights.min(0), heights.max(0)
    return Mean(list(zip(grid.tolist(), mean.tolist(), strict=True)),
                list(zip(grid.tolist(), low.tolist(), high.tolist(), strict=True)))  # fmt: skip


def compare(words: Sequence[str], root: Path, names: Sequence[str] = ()) -> Comparison:
    """The trainings that words mean: a run's folder or name, or a folder of runs, which are one training's seeds.

    Args:
        words: Their names or folders.
        root: Folder of all runs, in which names are looked for.
        names: Names to show instead; as many as words, or none.

    Raises:
        EmbodiedError: a word means nothing, or several runs.
    """
    found = [_meant(word, root) for word in words]
    short = [runs[0].name if len(runs) == 1 else Path(word).name for word, runs in zip(words, found, strict=True)]
    called = list(names) or (short if len(set(short)) == len(short) else list(words))
    return Comparison(tuple(Training(name, tuple(runs)) for name, runs in zip(called, found, strict=True)))


def _meant(word: str, root: Path) -> list[Run]:
    path = Path(word)
    if path.exists():
        below = Run.all(path)
        return sorted(below, key=_by_seed) if below else [Run.open(path)]
    runs = Run.all(root)
    named = [run for run in runs if word in (run.name, run.path.name)]
    experiments = {run.path.parent for run in runs if word in (run.config.get("name"), run.path.parent.name)}
    if not named and len(experiments) == 1:
        return sorted((run for run in runs if run.path.parent in experiments), key=_by_seed)
    if len(named) > 1 or len(experiments) > 1:
        places = [run.path for run in named] or sorted(experiments)
        raise RunError(f"{word!r} means several runs: {listing(places, 6)}; give the folder")
    if not named:
        known = {run.name for run in runs} | {run.config["name"] for run in runs if run.config.get("name")}
        raise UnknownNameError("run", word, known)
    return named


def _by_seed(run: Run) -> tuple[float, str]:
    seed = run.config.get("seed")
    return (float(seed) if is_number(seed) else math.inf, str(run.path))


def flat(value: Any, name: str = "") -> dict[str, str]:
    """Nested settings by dotted names, `algorithm_config.actor.hidden`, as text."""
    if isinstance(value, Mapping) and value:
        parts = (flat(item, f"{name}.{key}" if name else str(key)) for key, item in value.items())
        return {inner: text for part in parts for inner, text in part.items()}
    return {name: f"{value:g}" if isinstance(value, float) else str(value)}
