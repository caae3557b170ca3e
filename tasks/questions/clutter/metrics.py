"""Scores of an answer about an obstruction graph, as UNOGrasp defines them (arXiv:2511.23186).

SR-P, SR-R, SR-F1: precision, recall and their harmonic mean of the objects to remove now. OP, OR, OF1: the same of the
graph's edges. MP-NED: how far the paths lie from the true ones, by normalised edit distance of the best matching.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Sequence

import numpy as np

Path = Sequence[Hashable]


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
    """Of an answer's elements. Two empty sets agree; of one empty set, nothing is right."""
    right = len(set(answer) & set(truth))
    if not answer and not truth:
        return Score(1.0, 1.0)
    return Score(right / len(set(answer)) if answer else 0.0, right / len(set(truth)) if truth else 0.0)


def edit_distance(first: Path, second: Path) -> int:
    """Levenshtein's: insertions, deletions and replacements that turn one path into the other."""
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        above, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (left != right))
    return row[-1]


def path_distance(answer: Sequence[Path], truth: Sequence[Path]) -> float:
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
