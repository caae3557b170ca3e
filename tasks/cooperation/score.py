"""`python -m tasks.cooperation.score ANSWERS.jsonl BENCHMARK`: scores of answers to the cooperation benchmark.

A line of `ANSWERS.jsonl` is {"id": ..., "answer": ...}, the answer as the question's `format` says: as JSON, or as text
that holds it. A question without an answer that can be read counts as answered wrongly.

`who`: share that names one of the smallest teams. `order`: share of plans that reach the goal, and that are as short as
the shortest (`right`); `possible`, the share of a plan's steps before the first that fails. `path`: share of paths that
are clear and lead from S to E (`success`); `rmse`, `hausdorff`, `frechet` in pixels from the shortest path; `length`
over the shortest one's. `ask`: share that asks where it must, and takes the right object where it need not. `answered`:
share that takes the right object after the user's answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import guard
from tasks.cooperation.actions import check
from tasks.cooperation.distances import discrete_frechet, hausdorff, rmse
from tasks.cooperation.facts import Facts, Goal
from tasks.cooperation.paths import LEVEL, clear, path_length
from tasks.cooperation.pictures import pixels_of
from tasks.cooperation.plans import length, of_rows
from tasks.cooperation.questions import Kind
from tasks.cooperation.scenes import VIEW
from tasks.questions.answers import parsed
from tasks.questions.scoring import Benchmark, Measure, Report, Scores, score_answers, score_command

FORMAT = 1  # of the files; counted up when they change
NAME = "cooperation"
SLACK = 0.015  # m, by which an answer's path may cut obstacles' corners: some pixels
ENDS = 0.04  # m, by which it may miss S and E
MOST = 256  # corners of a path that are read
DIAGONAL = math.hypot(VIEW.width, VIEW.height)  # pixels: as far as anything is from anything


def _score_who(answer: Any, row: Mapping[str, Any]) -> Scores:
    team = parsed(answer, "[", "]")
    if not isinstance(team, list) or not all(isinstance(name, str) for name in team):
        raise ValueError(f"no list of robots; expected some of {', '.join(row['robots'])}")
    if strangers := set(team) - set(row["robots"]):
        raise ValueError(f"there is no {min(strangers)[:40]!r}; expected some of {', '.join(row['robots'])}")
    right = [set(found) for found in row["teams"]] or [set()]
    return {"right": float(set(team) in right)}


def _score_order(answer: Any, row: Mapping[str, Any]) -> Scores:
    plan = of_rows(parsed(answer, "[", "]"))
    verdict = check(Facts.of_document(row["facts"]), Goal.of_document(row["goal"]), plan)
    short = length(plan) <= (row["steps"], row["actions"])
    return {
        "right": float(verdict.reached and short),
        "reached": float(verdict.reached),
        "possible": verdict.possible / max(len(plan), 1),
    }


def _score_path(answer: Any, row: Mapping[str, Any]) -> Scores:
    found = parsed(answer, "[", "]")
    pixels = _pixels(found)
    shortest = np.array(row["path"])
    drawn = pixels_of(shortest)
    points = VIEW.onto_level(pixels, LEVEL)[:, :2]
    ends = np.linalg.norm(points[[0, -1]] - shortest[[0, -1]], axis=1)
    obstacles = [np.array(polygon) for polygon in row["obstacles"]]
    # A pixel above the horizon is nowhere on the level: nan, which no comparison holds for.
    success = bool(np.isfinite(points).all() and (ends <= ENDS).all() and clear(points, obstacles, SLACK))
    return {
        "success": float(success),
        "rmse": min(rmse(pixels, drawn), DIAGONAL),
        "hausdorff": min(hausdorff(pixels, drawn), DIAGONAL),
        "frechet": min(discrete_frechet(pixels, drawn), DIAGONAL),
        "length": path_length(pixels) / path_length(drawn) if success else 0.0,
    }


def _pixels(value: Any) -> np.ndarray:
    """(n, 2) of an answer."""
    if not isinstance(value, list) or not 2 <= len(value) <= MOST:
        raise ValueError(f"the path is not a list of 2 to {MOST} pixels")
    for pair in value:
        numbers = isinstance(pair, list) and len(pair) == 2 and all(type(n) in (int, float) for n in pair)
        if not numbers or not all(abs(n) < 10 * DIAGONAL for n in pair):
            raise ValueError(f"the path holds {str(pair)[:40]!r}; expected [X, Y] in pixels")
    return np.array(value, float)


def _score_ask(answer: Any, row: Mapping[str, Any]) -> Scores:
    found = parsed(answer, "{", "}")
    if not isinstance(found, dict) or set(found) & {"ask", "take"} == set():
        raise ValueError('neither "ask" nor "take"')
    asks = bool(found.get("ask"))
    taken = None if asks else _number(found.get("take"))
    return {"right": float(({"ask": True} if asks else {"take": taken}) == row["answer"]), "asked": float(asks)}


def _score_answered(answer: Any, row: Mapping[str, Any]) -> Scores:
    return {"right": float(_number(answer) == row["answer"])}


def _number(value: Any) -> int:
    """A mark's number; digits in text count, too."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is no number of a mark")
    return value


MEASURES: Mapping[str, Measure] = {
    Kind.WHO.value: Measure(_score_who, {"right": 0.0}),
    Kind.ORDER.value: Measure(_score_order, {"right": 0.0, "reached": 0.0, "possible": 0.0}),
    Kind.PATH.value: Measure(
        _score_path, {"success": 0.0, "rmse": DIAGONAL, "hausdorff": DIAGONAL, "frechet": DIAGONAL, "length": 0.0}
    ),
    Kind.ASK.value: Measure(_score_ask, {"right": 0.0, "asked": 0.0}),
    Kind.ANSWERED.value: Measure(_score_answered, {"right": 0.0}),
}

BENCHMARK = Benchmark(NAME, FORMAT, MEASURES, group="case")


def score_file(answers: Path, folder: Path) -> Report:
    """Score a file of answers.

    Raises:
        EmbodiedError: the file cannot be read, or the folder is not an undamaged benchmark of this format.
    """
    return score_answers(answers, folder, BENCHMARK)


@guard
def main() -> None:
    """Score and print."""
    score_command("tasks.cooperation.score", BENCHMARK)


if __name__ == "__main__":
    main()
