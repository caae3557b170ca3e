"""`python -m embodied.runs`: the runs there are, and how some of them compare."""

from __future__ import annotations

import dataclasses
import json as jsonlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.learning_curves import Across
from embodied.runs import tables
from embodied.runs.comparison import Comparison, compare
from embodied.runs.page import page
from embodied.runs.summary import Summary, find, summarize
from embodied.storage.files import jsonable, write_atomic
from embodied.storage.runs import RUNS, Run

COMPARE = "compare"


@dataclasses.dataclass(frozen=True)
class Listing:
    """List runs, newest first: learner, steps, success, age, size. Or compare some of them. Examples:

        python -m embodied.runs
        python -m embodied.runs hover --learner sac
        python -m embodied.runs compare baseline gentle --html gentle.html
        python -m embodied.runs compare --help

    Success is that of the evaluation at the end, at the last step; with a tilde, that of the last of training.
    """

    words: tyro.conf.Positional[tuple[str, ...]] = ()
    """Parts of a task's, a folder's or a run's name, all of which must fit; * and ? as in names of files."""
    learner: str | None = None
    """Algorithm, as of embodied.train --algorithm."""
    limit: int = 30
    """Number of runs at most, the newest; 0: all."""
    root: Path = RUNS
    """Folder of all runs."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclasses.dataclass(frozen=True)
class Comparing:
    """Compare trainings: final figures with 95 % intervals, settings that differ, curves. Examples:

        python -m embodied.runs compare runs/swarm/hover/baseline gentle
        python -m embodied.runs compare baseline gentle --html gentle.html --measures success 'reward/*'

    A folder of several runs, as embodied.train --seeds makes it, is one training: its interval is that of the seeds.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Folders of runs or of several seeds, or their names where no other run has them."""
    names: tuple[str, ...] = ()
    """Names for them; by default their own names."""
    measures: tuple[str, ...] = ()
    """With --html: names in metrics.jsonl, * for any part of one; by default success, closed_loop, return, loss."""
    across: Across = Across.STEPS
    """With --html: steps or minutes."""
    root: Path = RUNS
    """Folder of all runs, in which names are looked for."""
    html: Path | None = None
    """Also write a page with curves: one file that needs no network."""
    json: Path | None = None
    """Also write figures and settings to this file."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise EmbodiedError(
                "which runs? python -m embodied.runs compare RUN RUN; python -m embodied.runs lists them"
            )
        if self.names and len(self.names) != len(self.runs):
            raise EmbodiedError(f"{len(self.names)} names for {len(self.runs)} runs; expected one for each")


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [COMPARE]:
        return show(cli.parse(Comparing, words[1:], f"runs {COMPARE}"))
    return list_runs(cli.parse(Listing, words, "runs"))


def list_runs(settings: Listing) -> int:
    """Print the requested runs."""
    found = find(settings.root, settings.words, settings.learner)
    shown = found[: settings.limit or None]
    rows = list(_readable(shown))
    if settings.json:
        keys = ("task", "learner", "steps", "success", "evaluated", "age", "size", "state")
        values: list[dict[str, Any]] = [
            {"path": str(row.run.path), "name": row.run.name, "created": row.run.created}
            | {key: getattr(row, key) for key in keys}
            for row in rows
        ]
        print(jsonlib.dumps(jsonable(values), indent=2))
        return 0
    cli.show(*(tables.by_task(rows) if cli.output().is_terminal else [tables.by_path(rows)] * bool(rows)))
    if not rows:
        asked = " ".join((*settings.words, *([settings.learner] if settings.learner else [])))
        cli.say(
            f"no runs{f' of {asked}' if asked else ''} below '{settings.root}'; python -m embodied.train makes some"
        )
    elif len(found) > len(shown):
        cli.say(f"and {len(found) - len(shown)} older ones; --limit 0 shows all")
    return 0


def _readable(runs: Iterable[Run]) -> Iterator[Summary]:
    """Summaries of the runs that can be read; a note on each of the others."""
    for run in runs:
        try:
            yield summarize(run)
        except EmbodiedError as error:
            cli.say(f"note: {error}")


def show(settings: Comparing) -> int:
    """Print a comparison, and write it where requested."""
    comparison = compare(settings.runs, settings.root, settings.names)
    cli.show(tables.comparison_table(comparison))
    if comparison.settings:
        cli.show(tables.settings_table(comparison))
    command = cli.command_line("embodied.runs")
    if settings.html is not None:
        title = " against ".join(training.name for training in comparison.trainings)
        settings.html.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(settings.html, page(comparison, title, command, settings.measures, settings.across).encode())
        cli.say(f"-> {settings.html}")
    cli.write_result(settings.json, command, as_json(comparison))
    return 0


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Figures and settings for a file."""
    figures = {
        measure: {
            training.name: None if (found := training.figure(measure)) is None else dataclasses.asdict(found)
            for training in comparison.trainings
        }
        for measure in comparison.measures
    }
    names = [training.name for training in comparison.trainings]
    settings = {name: dict(zip(names, values, strict=True)) for name, values in comparison.settings.items()}
    return {"trainings": {training.name: training.seeds for training in comparison.trainings}, "figures": figures,
            "settings": settings}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
