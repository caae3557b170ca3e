"""Every learner on the problem it is for: one command, one table.

    python -m benchmarks.learners                                         # all that is not there yet; days on two cores
    python -m benchmarks.learners --problems sparse --tasks drawer-open --methods bc rlpd --demonstrations 10 --seeds 0
    python -m benchmarks.learners --smoke --out FOLDER                    # a minute: does everything run

Each cell is a file, benchmarks/results/learners/PROBLEM/TASK/METHOD_seedK.json; what has one is passed over. At the end
the table is printed; docs/results.md has it, by python -m benchmarks.results_page.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import tyro

from benchmarks.learners import table
from benchmarks.learners.cells import Budget, Cell, Problem, run
from benchmarks.learners.dense import DENSE
from benchmarks.learners.pictures import PICTURES
from benchmarks.learners.sparse import SPARSE
from benchmarks.learners.teams import GAMES, TEAMS
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, UnknownNameError

PROBLEMS: tuple[Problem, ...] = (SPARSE, DENSE, PICTURES, TEAMS, GAMES)
SMOKE_STEPS, SMOKE_EPISODES = 64, 2
UNLIMITED = 100_000_000  # steps, more than the clock leaves time for


@dataclasses.dataclass(frozen=True)
class Settings:
    """Selection of cells; without filters all. Cells that have been measured are not measured again."""

    problems: tuple[str, ...] = ()
    """sparse, dense, pictures, teams or games."""
    tasks: tuple[str, ...] = ()
    """Tasks, with or without their family: drawer-open."""
    methods: tuple[str, ...] = ()
    """Methods, as the table calls them."""
    demonstrations: tuple[int, ...] = ()
    """Of the sparse problem: numbers of demonstrated episodes."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of everything."""
    steps: int | None = None
    """Environment steps of a cell; by default what the problem says. Such cells belong into another --out."""
    episodes: int = 100
    """Of each evaluation."""
    threads: int = 1
    """Of torch and of C MuJoCo, which take turns. Learning against the clock wants as many as there are cores."""
    smoke: bool = False
    """Cut everything down until it shows only that it runs: one task of each problem, one seed."""
    out: Path = table.RESULTS
    """Folder of the results."""
    work: Path = Path("runs/learners")
    """Folder of what cells share: demonstrations, advisers."""

    def __post_init__(self) -> None:
        if (self.smoke or self.steps is not None) and self.out == table.RESULTS:
            raise EmbodiedError("--smoke and --steps make no results for the table; give them another --out FOLDER")


def main(settings: Settings) -> None:
    """Measure cell by cell, and print the table."""
    join_content()
    chosen = list(cells(settings))
    for number, (problem, cell) in enumerate(chosen, 1):
        path = cell.path(settings.out)
        if path.exists():
            continue
        cli.say(f"{number} of {len(chosen)}: {cell.problem} {cell.task} {cell.name}")
        steps = UNLIMITED if cell.task in problem.clock else problem.steps
        budget = Budget(
            steps=SMOKE_STEPS if settings.smoke else settings.steps or steps,
            episodes=SMOKE_EPISODES if settings.smoke else settings.episodes,
            threads=settings.threads,
            work=settings.work,
            seconds=problem.clock.get(cell.task, math.inf),
            smoke=settings.smoke,
        )
        cli.write_result(path, command(cell, settings), run(problem, cell, budget))
        jax.clear_caches()
    cli.show(table.markdown(table.read(settings.out)))


def command(cell: Cell, settings: Settings) -> str:
    """Command that measures this cell alone."""
    words = ["python -m benchmarks.learners", "--problems", cell.problem, "--tasks", cell.task.split("/")[-1]]
    words += ["--methods", cell.method, "--seeds", str(cell.seed)]
    words += ["--demonstrations", str(cell.demonstrations)] if cell.demonstrations else []
    words += ["--threads", str(settings.threads)] if settings.threads != 1 else []
    words += ["--steps", str(settings.steps)] if settings.steps is not None else []
    return " ".join([*words, *(["--smoke"] if settings.smoke else [])])


def cells(settings: Settings) -> Iterator[tuple[Problem, Cell]]:
    """Cells to measure: seed by seed, and for each few demonstrations first, so that a run cut short shows most.

    Raises:
        UnknownNameError: a filter names what there is not.
    """
    problems = [one for one in PROBLEMS if not settings.problems or one.name in settings.problems]
    known_tasks = [task.split("/")[-1] for one in problems for task in one.tasks]
    _check("problem", settings.problems, [one.name for one in PROBLEMS])
    _check("task", [task.split("/")[-1] for task in settings.tasks], known_tasks)
    _check("method", settings.methods, [method for one in problems for method in one.methods])
    wanted = [task.split("/")[-1] for task in settings.tasks]
    for seed in settings.seeds[: 1 if settings.smoke else None]:
        for problem in problems:
            tasks = [task for task in problem.tasks if not wanted or task.split("/")[-1] in wanted]
            numbers = [n for n in problem.demonstrations if not settings.demonstrations or n in settings.demonstrations]
            for number in numbers[: 1 if settings.smoke else None]:
                for task in tasks[: 1 if settings.smoke else None]:
                    for method in problem.methods:
                        if not settings.methods or method in settings.methods:
                            yield problem, Cell(problem.name, task, method, seed, number)


def _check(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UnknownNameError(what, name, known)


def parsed(arguments: Sequence[str] | None = None) -> Settings:
    return tyro.cli(Settings, args=arguments)


if __name__ == "__main__":
    main(parsed())
