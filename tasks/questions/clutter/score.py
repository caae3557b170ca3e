"""`python -m tasks.questions.clutter.score ANSWERS.jsonl BENCHMARK`: scores of answers to the clutter benchmark.

A line of `ANSWERS.jsonl` is {"id": ..., "answer": ...}, the answer in the question's `format`: JSON, or text that
contains it. Objects are numbers of marks. A question without an answer that can be read counts as answered wrongly.

`reason`: SR-P, SR-R, SR-F1 of `remove_now`, OP, OR, OF1 of the paths' edges, MP-NED (a distance: 0 is best), means over
questions; `balanced` is the mean over the difficulties. `obstructors`: F1. `order`, `severity`: share that is right.
Definitions are those of UNOGrasp (arXiv:2511.23186).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tasks.grasping.clutter.graph import Severity
from tasks.questions.clutter.questions import Kind
from tasks.questions.scoring import Benchmark, Measure, Scores, parse_json, score_command

NodePath = Sequence[Hashable]


@dataclasses.dataclass(frozen=True)
class Score:
    """Precision and recall of a set."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean; 0 where nothing is right."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def score(answer: Collection[Hashable], truth: Collection[Hashable]) -> Score:
    """Score of an answer's elements. Two empty sets agree; with one empty set, nothing is right."""
    right = len(set(answer) & set(truth))
    if not answer and not truth:
        return Score(1.0, 1.0)
    return Score(right / len(set(answer)) if answer else 0.0, right / len(set(truth)) if truth else 0.0)


def edit_distance(first: NodePath, second: NodePath) -> int:
    """Levenshtein's: insertions, deletions and replacements that turn one path into the other."""
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        above, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (left != right))
    return row[-1]


def path_distance(answer: Sequence[NodePath], truth: Sequence[NodePath]) -> float:
    """MP-NED in [0, 1]: mean over the best matching of paths, each distance over the longer path's length.

    A path without a partner costs 1. Source: UNOGrasp, "multi-path normalised edit distance".
    """
    size = max(len(answer), len(truth))
    if not size:
        return 0.0
    from scipy.optimize import linear_sum_assignment

    costs = np.ones((size, size))
    for i, left in enumerate(answer):
        for j, right in enumerate(truth):
            costs[i, j] = edit_distance(left, right) / max(len(left), len(right), 1)
    rows, columns = linear_sum_assignment(costs)
    return float(costs[rows, columns].mean())


FORMAT = 1  # of the files; counted up when they change
NAME = "clutter"
LONGEST = 64  # objects in a path that is read; scenes have a dozen
MOST = 1000  # paths of an answer that are read: what more there are could not be matched
WORST: Mapping[Kind, Scores] = {
    Kind.REASON: dict.fromkeys(("sr_precision", "sr_recall", "sr_f1", "op", "or", "of1"), 0.0) | {"mp_ned": 1.0},
    Kind.OBSTRUCTORS: {"f1": 0.0},
    Kind.ORDER: {"right": 0.0},
    Kind.SEVERITY: {"right": 0.0},
}
"""Scores of a question without an answer; names of the scores of each kind."""


def _numbers(value: Any, what: str) -> list[int]:
    """A list of marks' numbers; digits in text count, too."""
    if not isinstance(value, list) or len(value) > LONGEST:
        raise ValueError(f"{what} is not a list of up to {LONGEST} numbers")
    found = []
    for entry in value:
        whole = isinstance(entry, int) and not isinstance(entry, bool)
        whole |= isinstance(entry, float) and entry.is_integer()
        if not whole and not (isinstance(entry, str) and entry.strip().isdecimal() and len(entry) < LONGEST):
            raise ValueError(f"{what} holds {str(entry)[:40]!r}; expected numbers of marks")
        found.append(int(entry))
    return found


def _score_reason(answer: Any, row: Mapping[str, Any]) -> Scores:
    found = parse_json(answer, "{", "}")
    if not isinstance(found, dict) or not isinstance(found.get("paths"), list):
        raise ValueError('no "paths"; expected {"paths": [...], "remove_now": [...]}')
    paths = [_numbers(path, "a path") for path in found["paths"][:MOST]]
    now = _numbers(found.get("remove_now"), "remove_now")
    expected = row["answer"]
    removal, edges = score(now, expected["remove_now"]), score(_edges(paths), _edges(expected["paths"]))
    return {
        "sr_precision": removal.precision,
        "sr_recall": removal.recall,
        "sr_f1": removal.f1,
        "op": edges.precision,
        "or": edges.recall,
        "of1": edges.f1,
        "mp_ned": path_distance(paths, expected["paths"]),
    }


def _edges(paths: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    return {pair for path in paths for pair in itertools.pairwise(path)}


def _score_obstructors(answer: Any, row: Mapping[str, Any]) -> Scores:
    return {"f1": score(_numbers(parse_json(answer, "[", "]"), "the answer"), row["answer"]).f1}


def _score_order(answer: Any, row: Mapping[str, Any]) -> Scores:
    """Any order counts that frees the target with as few removals, if each object is free when it goes."""
    order = _numbers(parse_json(answer, "[", "]"), "the answer")
    edges = {(behind, before) for behind, before in row["edges"]}
    if sorted(order) != sorted(row["answer"]):
        return {"right": 0.0}
    gone: set[int] = set()
    for number in order:
        if any(behind == number and before not in gone for behind, before in edges):
            return {"right": 0.0}
        gone.add(number)
    return {"right": 1.0}


def _score_severity(answer: Any, row: Mapping[str, Any]) -> Scores:
    if not isinstance(answer, str):
        raise ValueError(f"{str(answer)[:40]!r} is no severity; expected one of {', '.join(Severity)}")
    said = {level.value for level in Severity if level.value in answer.lower()}
    if len(said) != 1:
        raise ValueError(f"{answer[:40]!r} names {len(said)} severities; expected one of {', '.join(Severity)}")
    return {"right": float(said == {row["answer"]})}


SCORERS: Mapping[Kind, Callable[[Any, Mapping[str, Any]], Scores]] = {
    Kind.REASON: _score_reason,
    Kind.OBSTRUCTORS: _score_obstructors,
    Kind.ORDER: _score_order,
    Kind.SEVERITY: _score_severity,
}
MEASURES = {kind.value: Measure(SCORERS[kind], WORST[kind]) for kind in Kind}

BENCHMARK = Benchmark(NAME, FORMAT, MEASURES)


if __name__ == "__main__":
    score_command("tasks.questions.clutter.score", BENCHMARK)
