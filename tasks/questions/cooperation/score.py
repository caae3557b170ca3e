"""`python -m tasks.questions.cooperation.score ANSWERS.jsonl BENCHMARK`: scores of answers.

A line of `ANSWERS.jsonl` is {"id": ..., "answer": ...}, the answer in the question's `format`: JSON, or text that
contains it. `path` is scored by the three measures of VIKI (arXiv:2506.09049, trajectory perception): root mean
squared, Hausdorff and discrete Frechet distance, in the units of the paths. Paths are compared as `POINTS` points each,
spread evenly along their lengths, so that it does not matter how many corners an answer gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.questions.cooperation.actions import check
from tasks.questions.cooperation.facts import Facts, Goal
from tasks.questions.cooperation.paths import LEVEL, clear, path_length
from tasks.questions.cooperation.pictures import pixels_of
from tasks.questions.cooperation.plans import length, of_rows
from tasks.questions.cooperation.questions import Kind
from tasks.questions.cooperation.scenes import VIEW
from tasks.questions.scoring import Benchmark, Measure, Scores, parse_json, score_command

POINTS = 64  # along each path, our choice


def resampled(path: np.ndarray, count: int = POINTS) -> np.ndarray:
    """(count, k) points evenly along a path of corners (n, k); all the same where it has no length."""
    path = np.asarray(path, float)
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    wanted = np.linspace(0.0, along[-1], count)
    return np.column_stack([np.interp(wanted, along, column) for column in path.T])


def rmse(first: np.ndarray, second: np.ndarray) -> float:
    """Root of the mean squared distance between points at the same share of the way."""
    off = resampled(first) - resampled(second)
    return float(np.sqrt((off**2).sum(-1).mean()))


def hausdorff(first: np.ndarray, second: np.ndarray) -> float:
    """Largest distance from a point of one path to the nearest of the other."""
    apart = _apart(first, second)
    return float(max(apart.min(0).max(), apart.min(1).max()))


def discrete_frechet(first: np.ndarray, second: np.ndarray) -> float:
    """Least maximum distance of two points that move along the paths without turning back.

    Source: Eiter and Mannila, "Computing discrete Frechet distance", CD-TR 94/64, TU Vienna, 1994.
    """
    apart = _apart(first, second)
    leash = np.empty_like(apart)
    leash[0] = np.maximum.accumulate(apart[0])
    leash[:, 0] = np.maximum.accumulate(apart[:, 0])
    for i in range(1, len(apart)):
        for j in range(1, len(apart)):
            leash[i, j] = max(min(leash[i - 1, j], leash[i - 1, j - 1], leash[i, j - 1]), apart[i, j])
    return float(leash[-1, -1])


def _apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.linalg.norm(resampled(first)[:, None] - resampled(second)[None], axis=-1)


FORMAT = 1  # of the files; counted up when they change
NAME = "cooperation"
SLACK = 0.015  # m, by which an answer's path may cut obstacles' corners: some pixels
ENDS = 0.04  # m, by which it may miss S and E
MOST = 256  # corners of a path that are read
DIAGONAL = math.hypot(VIEW.width, VIEW.height)  # pixels: as far as anything is from anything


def _score_who(answer: Any, row: Mapping[str, Any]) -> Scores:
    team = parse_json(answer, "[", "]")
    if not isinstance(team, list) or not all(isinstance(name, str) for name in team):
        raise ValueError(f"no list of robots; expected some of {', '.join(row['robots'])}")
    if strangers := set(team) - set(row["robots"]):
        raise ValueError(f"there is no {min(strangers)[:40]!r}; expected some of {', '.join(row['robots'])}")
    right = [set(found) for found in row["teams"]] or [set()]
    return {"right": float(set(team) in right)}


def _score_order(answer: Any, row: Mapping[str, Any]) -> Scores:
    plan = of_rows(parse_json(answer, "[", "]"))
    verdict = check(Facts.of_document(row["facts"]), Goal.of_document(row["goal"]), plan)
    short = length(plan) <= (row["steps"], row["actions"])
    return {
        "right": float(verdict.reached and short),
        "reached": float(verdict.reached),
        "possible": verdict.possible / max(len(plan), 1),
    }


def _score_path(answer: Any, row: Mapping[str, Any]) -> Scores:
    found = parse_json(answer, "[", "]")
    pixels = _pixels(found)
    shortest = np.array(row["path"])
    drawn = pixels_of(shortest)
    points = VIEW.onto_level(pixels, LEVEL)[:, :2]
    ends = np.linalg.norm(points[[0, -1]] - shortest[[0, -1]], axis=1)
    obstacles = [np.array(polygon) for polygon in row["obstacles"]]
    # A pixel above the horizon has no point on the level: nan, for which no comparison holds.
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
    found = parse_json(answer, "{", "}")
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


if __name__ == "__main__":
    score_command("tasks.questions.cooperation.score", BENCHMARK)
