"""One training with several seeds: one after the other, each a run of its own, and their figures together."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.errors import EmbodiedError, RunError, listing
from embodied.evaluation.aggregate import Interval
from embodied.runs.comparison import Comparison, Training, flat
from embodied.runs.page import page
from embodied.runs.tables import seeds_table
from embodied.storage import checkpoints, task_names
from embodied.storage.configs import run_document
from embodied.storage.files import jsonable, write_atomic
from embodied.storage.runs import CONFIG, RUNS, Run, check_links
from policies.networks.optim import distributed
from policies.training import launch
from policies.training.settings import Settings
from policies.training.task_session import StopEarly

REPORT = "report"
"""Name of the files `report.json` and `report.html` in the folder of all seeds."""
UNLIKE = ("seed", "engine", "variations", "checkpoint_seconds", "name", "wandb")
"""Fields of a run's config that may differ from the requested settings; the engine only where none is requested."""


def train_seeds(settings: Settings[Any, Any], command: str) -> int:
    """Train with every seed and report; what is trained already is not trained again. Returns the exit code.

    The report says the command by which it can be repeated.

    Raises:
        EmbodiedError: one of the runs there was begun with other settings, or is being trained by another process.
    """
    if distributed.processes() > 1:
        raise EmbodiedError("--seeds is for one process; with torchrun, train each --seed by a command of its own")
    folder, runs = folder_of(settings), []
    check_links(folder)
    for number, seed in enumerate(settings.seeds, 1):
        cli.say(f"seed {seed}, {number} of {len(settings.seeds)}")
        one = dataclasses.replace(settings, seed=seed, seeds=(), out=folder / f"seed-{seed}", json=None)
        done = trained_already(one)
        if done is not None:
            cli.say(f"trained already: {done.path}; with another --name it is trained anew")
        else:
            trained = train_one(one)
            if trained.stopped:
                cli.say(f"and then the other seeds, by the same command again:\n  {command}")
                return 0
            done = trained.run
        runs.append(done)
    report(Training(folder.name, tuple(runs)), folder, command, settings.json)
    return 0


def folder_of(settings: Settings[Any, Any]) -> Path:
    """The folder of all seeds: as requested, or by a name that is the same for the same settings."""
    if settings.out is not None or settings.name is not None:
        folder = launch.folder_of(settings)
        assert folder is not None
        return folder
    told = json.dumps(jsonable(_comparable(settings)), sort_keys=True)
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    return RUNS / task_names.run_folder(settings.task) / f"{settings.algorithm}-{digest}"


def trained_already(settings: Settings[Any, Any]) -> Run | None:
    """The run that has these settings and came to its end.

    Raises:
        RunError: the run there has others.
    """
    assert settings.out is not None
    if not (settings.out / CONFIG).exists():
        return None
    run = Run.open(settings.out)
    asked, held = flat(jsonable(_comparable(settings))), flat(run.config)
    if differ := sorted(name for name, value in asked.items() if name in held and held[name] != value):
        changes = listing(f"{name} {held[name]}, not {asked[name]}" for name in differ)
        raise RunError(f"{run.path} was begun with {changes}; give this training another --name, or remove it")
    return run if run.result.get("steps", 0) >= settings.steps else None


def train_one(settings: Settings[Any, Any], stop_early: StopEarly | None = None) -> launch.Trained:
    """Train into `out`, or go on with what was cut off there; `stop_early` as of `launch.start`."""
    assert settings.out is not None
    trained = None
    if (settings.out / CONFIG).exists():
        run = Run.open(settings.out)
        if checkpoints.steps(run.checkpoints):
            trained = launch.resume(settings.out, {}, stop_early=stop_early)
        else:
            run.claim()  # refused where another process is at it
            run.discard()
    trained = trained or launch.start(settings, stop_early=stop_early)
    assert trained is not None  # not one of several processes
    return trained


def report(training: Training, folder: Path, command: str, to: Path | None) -> None:
    """Print the figures over the seeds, and write them as JSON, with means under one run's keys, and as a page."""
    comparison = Comparison((training,))
    cli.show(seeds_table(comparison))
    runs, figures, means = training.runs, {}, {}
    for measure in comparison.measures:
        found = training.over_seeds(measure)
        if found is not None:
            scores = found.scores.tolist() if found.scores.shape[1] > 1 else found.scores[:, 0].tolist()
            iqm = _keys("iqm", found.iqm)
            figures[measure], means = {"scores": scores, **iqm}, means | _keys(measure, found.mean)
    task = task_names.label(runs[0].task)
    values = {"task": task, "seeds": [run.config["seed"] for run in runs], "algorithm": runs[0].config["algorithm"]}
    values |= means | {"figures": figures}
    for path in (folder / f"{REPORT}.json", to):
        cli.write_result(path, command, values)
    target = folder / f"{REPORT}.html"
    write_atomic(target, page(comparison, f"{task}: {len(training.runs)} seeds", command).encode())
    cli.say(f"-> {folder / REPORT}.json, {target}")


def _keys(name: str, found: Interval) -> dict[str, float]:
    """A figure and its interval as plain keys."""
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _comparable(settings: Settings[Any, Any]) -> dict[str, Any]:
    """Fields of the config that must be alike in runs of the same settings."""
    document = run_document(settings)
    return {
        name: value
        for name, value in document.items()
        if name not in UNLIKE or (name == "engine" and value is not None)
    }
