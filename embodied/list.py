"""`python -m embodied.list`: the tasks that exist, what they sense and do, and where they run."""

from __future__ import annotations

import dataclasses
import inspect
import json as jsonlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from embodied import cli
from embodied.env.registry import REGISTRY, Registry, Suite, join_content
from embodied.errors import EmbodiedError, UnknownNameError, guard
from embodied.storage import task_names
from embodied.storage.paths import shipped

if TYPE_CHECKING:
    from embodied.core.randomization import Term

Row = dict[str, Any]
"""Of a listing: `summary`, and the name first."""
EXPERIMENTAL = "experimental"
"""Key of a row: whether only `--all` lists it."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """List tasks; with the name of one, everything about it.

    Examples:

        python -m embodied.list
        python -m embodied.list go1
        python -m embodied.list drone formation
        python -m embodied.list mt10
        python -m embodied.list swarm/hover
        python -m embodied.list --learners
    """

    words: tyro.conf.Positional[tuple[str, ...]] = ()
    """A task to describe in full (of your own: FILE.py:CLASS), a suite whose tasks to list, or words: what has all of
    them in its name or its summary is listed."""
    suites: bool = False
    """List suites: several tasks under one name."""
    learners: bool = False
    """List the algorithms that train."""
    engines: bool = False
    """List physics engines."""
    robots: bool = False
    """List the robots whose models come with the package."""
    all: bool = False
    """List what is experimental, too: tasks that no policy has learned so far, algorithms that have shown no gain. On a
    terminal also variants of tasks, which a pipe always gets."""
    robot: Path | None = None
    """With a task that takes a robot from a file: the MJCF or URDF file of the robot that it is described for."""
    json: bool = False
    """Print JSON."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "list")
    registry = join_content()
    named = settings.words[0] if len(settings.words) == 1 else ""
    asked = [what for what in LISTINGS if getattr(settings, what)]
    if settings.robot is not None and named not in registry:
        raise EmbodiedError(f"--robot {settings.robot}: of which task? python -m embodied.list TASK --robot FILE")
    if len(asked) > 1:
        raise EmbodiedError(f"--{' --'.join(asked)}: expected one of them")
    if asked:
        print_listing(asked[0], LISTINGS[asked[0]](registry), settings)
    elif named in registry or task_names.own_file(named):  # a file that does not exist is named as one
        print_description(describe(named, settings.robot), settings)
    elif named in registry.suites:
        print_suite(registry.suites[named], settings)
    else:
        print_tasks(registry, settings)
    return 0


def suites(registry: Registry) -> list[Row]:
    """Suites; those of a single task, which are as many as tasks, are represented by the first of each kind."""
    shown = {name.partition(":")[0]: suite for name, suite in reversed([*registry.suites.items()])}
    return [
        {
            "suite": name if name == suite.name else f"{name}:TASK",
            "summary": suite.summary,
            "tasks": len(suite.tasks),
            EXPERIMENTAL: suite.experimental,
        }
        for name, suite in reversed(shown.items())
    ]


def learners(_: Registry) -> list[Row]:
    """Algorithms of `train`."""
    from policies.registry import ALGORITHMS  # with torch, which the names of tasks do without

    return [
        {"learner": entry.name, "summary": entry.summary, EXPERIMENTAL: entry.experimental}
        for entry in ALGORITHMS.values()
    ]


def engines(registry: Registry) -> list[Row]:
    """Physics engines, and how many tasks each runs."""
    from embodied.engines import SUMMARIES

    return [
        {"engine": name, "summary": summary, "tasks": sum(name in registry[task].engines for task in registry)}
        for name, summary in SUMMARIES.items()
    ]


def robots(_: Registry) -> list[Row]:
    """Robots by name, as `--robot` and `Robot.load` take them, each with the introduction of its file."""
    from embodied.robot.named import named_robots

    return [
        {"robot": name, "summary": introduction(file), "file": f"robots/{name}/{file.name}"}
        for name, file in sorted(named_robots().items())
    ]


def introduction(file: Path) -> str:
    """The first sentence of the comment with which an MJCF file begins."""
    comment = re.match(r"\s*<!--(.*?)-->", file.read_text(encoding="utf-8"), re.DOTALL)
    text = re.sub(r"\s+\([^)]*\)", "", comment[1]) if comment else ""  # without where it was published
    return " ".join(text.split()).partition(". ")[0] + "."


LISTINGS: Mapping[str, Callable[[Registry], list[Row]]] = {
    "suites": suites,
    "learners": learners,
    "engines": engines,
    "robots": robots,
}
"""Flag -> its listing."""


def print_listing(what: str, rows: list[Row], settings: Settings) -> None:
    """Print a flag's listing, or the rows of it that have the words."""
    listed = [row for row in rows if settings.all or not row.pop(EXPERIMENTAL, False)]
    kept = [row for row in listed if has_words(" ".join(map(str, row.values())), settings.words)]
    if not kept:
        raise UnknownNameError(
            what.removesuffix("s"), " ".join(settings.words), [next(iter(row.values())) for row in rows]
        )
    if settings.json:
        print(jsonlib.dumps(kept, indent=2))
        return
    headings = tuple(name for name in kept[0] if name not in ("file", EXPERIMENTAL))
    lines = tuple(tuple(str(row[name]) for name in headings) for row in kept)
    cli.show(cli.Table("", lines, headings, prose=(1,), right=(2,) if "tasks" in headings else ()))


def has_words(text: str, words: Sequence[str]) -> bool:
    """Whether a text contains every word, in any case."""
    return all(word.casefold() in text.casefold() for word in words)


def print_suite(suite: Suite, settings: Settings) -> None:
    """A suite's tasks, and those that are held out of training."""
    if settings.json:
        row = {"suite": suite.name, "summary": suite.summary}
        print(jsonlib.dumps(row | {"tasks": list(suite.tasks), "held_out": list(suite.held_out)}, indent=2))
        return
    cli.say(f"{suite.name}: {suite.summary}")
    cli.show(task_table([outline(name) for name in suite.tasks]))
    if suite.held_out:
        cli.say(f"{len(suite.held_out)} held out of training:")
        cli.show(task_table([outline(name) for name in suite.held_out]))


def print_tasks(registry: Registry, settings: Settings) -> None:
    """Tasks whose names or summaries have the words; on a terminal variants only on request.

    Raises:
        UnknownNameError: there are none.
        EmbodiedError: all of them are experimental.
    """
    found = [name for name in registry if has_words(f"{name} {registry[name].summary}", settings.words)]
    if not found:
        raise UnknownNameError("task", " ".join(settings.words), [*registry, *registry.suites])
    names = [name for name in found if settings.all or not registry[name].experimental]
    if not names:
        words = " ".join(settings.words)
        raise EmbodiedError(f"only experimental tasks have {words!r} in their names or summaries; --all lists them")
    if settings.json:
        print(jsonlib.dumps([outline(name) for name in names], indent=2))
        return
    standard = [name for name in names if registry[name].variant_of is None]
    brief = cli.output().is_terminal and not (settings.all or settings.words)
    cli.show(task_table([outline(name) for name in (standard if brief else names)]))
    if not settings.words:
        others = [f"{len(names) - len(standard)} of them are variants (--all)"] if brief else []
        others += [] if settings.all else [f"besides, {len(found) - len(names)} experimental ones (--all)"]
        cli.say(
            f"{len(names)} tasks; * with a trained policy",
            *(["; ".join(others)] if others else []),
            "python -m embodied.list TASK   describes one",
            "python -m embodied.list WORD ...   those that have the words",
            "python -m embodied.list --suites, --learners, --engines, --robots",
        )


def task_table(rows: list[Row]) -> cli.Table:
    """A line for each task: name, whether a policy is shipped, summary."""
    lines = tuple((row["task"], "*" if row["shipped"] else "", row["summary"]) for row in rows)
    return cli.Table("", lines, prose=(2,))


def outline(name: str) -> Row:
    """Properties of a task that the registry has without importing it."""
    entry = REGISTRY[name]
    return {
        "task": task_names.label(entry.name),
        "summary": entry.summary,
        "engines": list(entry.engines),
        "trained": entry.training is not None,
        "shipped": name in shipped(),
    }


def describe(name: str, robot: Path | None = None) -> Row:
    """Everything about a task, with its default robot or the user's: it is built, but not simulated."""
    from embodied.env.factory import make

    own: dict[str, Any] = {} if robot is None else {"robot": str(robot)}
    env = make(name, **own)
    task = env.task
    return outline(name) | {
        "description": " ".join((inspect.getdoc(task.unwrapped) or "").split()),
        "instruction": list(task.language.instructions) if task.language else [],
        "action_size": task.action_size,
        "observations": {
            group: {term: list(shape) for term, shape in terms.items()}
            for group, terms in env.observation_terms.items()
        },
        "reward_weights": dict(task.reward_weights),
        "variations": {term.name: variation(term) for term in task.terms},
        "without_effect": [term.name for term in task.declared_terms() if not term.varies(task.model)],
        "commands": {**task.operator.commands, **task.operator.first_commands} if task.operator else {},
        "physics_dt": task.timing.physics_dt,
        "control_dt": task.timing.control_dt,
        "episode_seconds": task.timing.episode_seconds,
        "bodies": int(task.model.nbody),
        "joints": int(task.model.njnt),
    }


def variation(term: Term) -> dict[str, Any]:
    """Ranges of a variation, of JSON's types."""
    ranges = [dataclasses.asdict(drawn) | {"distribution": drawn.distribution.value} for drawn in term.ranges]
    return {"summary": term.summary, "ranges": ranges, "no_range": "" if ranges else term.no_range}


def print_description(row: Row, settings: Settings) -> None:
    """One task in full."""
    if settings.json:
        print(jsonlib.dumps(row, indent=2))
        return
    facts = {
        "what": row["description"] or row["summary"],
        "engines": ", ".join(row["engines"]),
        "action": f"{row['action_size']} numbers in [-1, 1], every {1e3 * row['control_dt']:g} ms",
        "physics": f"every {1e3 * row['physics_dt']:g} ms, {row['bodies']} bodies, {row['joints']} joints",
        "episode": f"{row['episode_seconds']:g} s",
        "instruction": row["instruction"][0] if row["instruction"] else "-",
    }
    tables = [cli.table(f"{row['task']}: {row['summary']}", facts)]
    for group, terms in row["observations"].items():
        sizes = {name: " x ".join(map(str, shape)) or "1" for name, shape in terms.items()}
        tables.append(cli.table(f"observation group {group!r}", sizes))
    tables.append(cli.table("reward weights per step", {k: f"{v:g}" for k, v in row["reward_weights"].items()}))
    if row["commands"]:
        tables.append(cli.table("told to a robot, not measured", row["commands"]))
    drawn = {name: one["summary"] for name, one in row["variations"].items()}
    drawn |= dict.fromkeys(row["without_effect"], "none: it scales what is zero in this robot's model")
    tables.append(cli.table("drawn anew for every episode", drawn or {"-": "no variation is declared"}))
    for table in tables:
        cli.show(table, "")


if __name__ == "__main__":
    sys.exit(main())
