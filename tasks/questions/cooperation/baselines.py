"""`python -m tasks.questions.cooperation.baselines BENCHMARK ANSWERS.jsonl --by oracle|random`: baseline answers.

`oracle` repeats the truth. `random` knows the rules and nothing else: any team; a plan of possible actions at random;
S and E joined through a random point; a coin for asking, any object.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard, reason
from embodied.storage.files import write_atomic
from tasks.questions.cooperation.actions import State, apply_step
from tasks.questions.cooperation.facts import Facts, Goal
from tasks.questions.cooperation.pictures import pixels_of
from tasks.questions.cooperation.plans import possible_steps, rows
from tasks.questions.cooperation.questions import Kind
from tasks.questions.cooperation.scenes import VIEW
from tasks.questions.cooperation.score import FORMAT, NAME
from tasks.questions.scoring import load_truth, read
from tasks.questions.writing import jsonl_bytes


@dataclasses.dataclass(frozen=True)
class Settings:
    """Benchmark, answers and baseline."""

    benchmark: Annotated[Path, tyro.conf.Positional]
    """Folder that `python -m tasks.questions.cooperation.write` made."""
    answers: Annotated[Path, tyro.conf.Positional]
    """File to write."""
    by: Literal["oracle", "random"] = "random"
    """Baseline."""
    seed: int = 0
    """Of random answers."""


@guard
def main() -> None:
    settings = cli.parse(Settings, None, "tasks.questions.cooperation.baselines")
    count = answer_all(settings)
    cli.show(f"{count} answers: {settings.answers}")


def answer_all(settings: Settings) -> int:
    """Write the answers; returns their number."""
    known = load_truth(settings.benchmark, FORMAT, NAME)
    asked = {row["id"]: row for row in map(json.loads, read(settings.benchmark / "questions.jsonl").splitlines())}
    random = np.random.default_rng(settings.seed)
    oracle = settings.by == "oracle"
    found = [
        {"id": name, "answer": row["answer"] if oracle else guess(row, asked[name]["objects"], random)}
        for name, row in known.items()
    ]
    try:
        write_atomic(settings.answers, jsonl_bytes(found))
    except OSError as error:
        raise EmbodiedError(f"cannot write '{settings.answers}': {reason(error)}") from error
    return len(found)


def guess(row: Mapping[str, Any], objects: Mapping[str, str], random: np.random.Generator) -> Any:
    """A random answer to one question, given its row of the truth for names and rules alone."""
    return GUESSES[Kind(row["kind"])](row, len(objects), random)


def _who(row: Mapping[str, Any], objects: int, random: np.random.Generator) -> list[str]:
    del objects
    return [name for name in row["robots"] if random.uniform() < 0.5]


def _order(row: Mapping[str, Any], objects: int, random: np.random.Generator) -> list[dict[str, Any]]:
    """As many possible steps as the shortest plan has."""
    del objects
    facts, goal = Facts.of_document(row["facts"]), Goal.of_document(row["goal"])
    state, plan = State.first(facts), []
    for _ in range(row["steps"]):
        steps = list(possible_steps(facts, goal, state, frozenset(facts.robots)))
        plan.append(steps[int(random.integers(len(steps)))])
        state = apply_step(facts, state, plan[-1])
    return rows(tuple(plan))


def _path(row: Mapping[str, Any], objects: int, random: np.random.Generator) -> list[list[float]]:
    del objects
    start, end = pixels_of(np.array(row["path"])[[0, -1]])
    return [start.tolist(), random.uniform([0, 0], [VIEW.width, VIEW.height]).tolist(), end.tolist()]


def _ask(row: Mapping[str, Any], objects: int, random: np.random.Generator) -> dict[str, Any]:
    return {"ask": True} if random.uniform() < 0.5 else {"take": _any(row, objects, random)}


def _any(row: Mapping[str, Any], objects: int, random: np.random.Generator) -> int:
    del row
    return int(random.integers(objects)) + 1


GUESSES: Mapping[Kind, Callable[[Mapping[str, Any], int, np.random.Generator], Any]] = {
    Kind.WHO: _who,
    Kind.ORDER: _order,
    Kind.PATH: _path,
    Kind.ASK: _ask,
    Kind.ANSWERED: _any,
}


if __name__ == "__main__":
    main()
