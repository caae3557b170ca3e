"""Obstruction graphs follow from depth images, and the scores of answers have the properties of their definitions."""

import itertools

import numpy as np
import pytest

from embodied.errors import EmbodiedError, UnknownNameError
from tasks.grasping.clutter.graph import (
    Difficulty,
    ObstructionGraph,
    Severity,
    graph_from_depths,
    removal_order,
    severity,
)
from tasks.questions.clutter.score import edit_distance, path_distance, score
from tasks.questions.scoring import balanced

INF = np.inf


def stack(*rows: list[float]) -> np.ndarray:
    """Depth images of one row of pixels."""
    return np.array(rows, float)[:, None, :]


def chain() -> ObstructionGraph:
    """c before b before a, each over half of the next."""
    return graph_from_depths("abc", stack([3, 3, INF, INF], [INF, 2, 2, INF], [INF, INF, 1, 1]))


def random_graph(rng: np.random.Generator, objects: int = 6) -> ObstructionGraph:
    """From random discs at random depths, each flat: such scenes have no cycles."""
    y, x = np.mgrid[0:24, 0:24]
    depths = []
    for _ in range(objects):
        (cx, cy), radius, depth = rng.uniform(6, 18, 2), rng.uniform(3, 6), rng.uniform(1, 2)
        depths.append(np.where((x - cx) ** 2 + (y - cy) ** 2 < radius**2, depth, INF))
    return graph_from_depths([str(i) for i in range(objects)], np.array(depths))


def test_a_chain() -> None:
    graph = chain()
    assert graph.edges == {("a", "b"), ("b", "c")}
    assert graph.ratios[0, 1] == 0.5
    assert graph.reachable("a") == {"b", "c"}
    assert graph.removable("a") == {"c"}
    assert graph.removable("c") == {"c"}
    assert graph.paths("a") == (("a", "b", "c"),)
    assert removal_order(graph, "a") == ("c", "b")
    assert [graph.difficulty(name) for name in "cba"] == [Difficulty.NONE, Difficulty.EASY, Difficulty.MEDIUM]


def test_ratios_are_what_removing_an_obstructor_alone_reveals() -> None:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:32, 0:32]
    pair = [np.where((x - c) ** 2 + (y - 16) ** 2 < 64, d + 0.01 * x, INF) for c, d in ((12, 2.0), (18, 1.0))]
    graph = graph_from_depths("ab", np.array(pair))
    together = np.argmin(pair, 0)
    visible = (np.isfinite(pair[0]) & (together == 0)).sum()
    assert 1 - visible / np.isfinite(pair[0]).sum() == pytest.approx(graph.ratios[0, 1])
    order = rng.permutation(2)
    turned = graph_from_depths([("a", "b")[i] for i in order], np.array(pair)[order])
    assert turned.edges == graph.edges


def test_removing_in_order_frees_the_target_and_each_is_free_when_it_goes() -> None:
    rng = np.random.default_rng(1)
    freed = 0
    for _ in range(50):
        graph = random_graph(rng)
        for target in graph.names:
            order, rest = removal_order(graph, target), graph
            for name in order:
                assert not rest.obstructors(name)
                rest = rest.without(name)
            assert not rest.obstructors(target)
            assert set(order) <= graph.reachable(target)
            freed += bool(order)
            ends = {path[-1] for path in graph.paths(target)}
            assert ends == graph.removable(target)
    assert freed > 50


def test_a_knot_cannot_be_freed() -> None:
    knot = ObstructionGraph(("a", "b", "c"), np.array([[0, 0.5, 0], [0, 0, 0.5], [0, 0.5, 0]]))
    assert knot.removable("a") == frozenset()
    assert removal_order(knot, "a") == ()
    assert knot.difficulty("a") is Difficulty.HARD


def test_what_is_hidden_by_less_than_a_hundredth_is_not_obstructed() -> None:
    wide, dot = np.full((1, 1000), 2.0), np.full((1, 1000), INF)
    dot[0, :9] = 1.0
    assert not graph_from_depths("ab", np.array([wide, dot])).edges
    dot[0, :11] = 1.0
    assert graph_from_depths("ab", np.array([wide, dot])).edges == {("a", "b")}


def test_severities() -> None:
    assert [severity(r) for r in (0.05, 0.1, 0.39, 0.4, 0.69, 0.7, 1.0)] == [
        Severity.SLIGHTLY, Severity.PARTIALLY, Severity.PARTIALLY, Severity.MOSTLY, Severity.MOSTLY, Severity.HEAVILY,
        Severity.HEAVILY,
    ]  # fmt: skip


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(EmbodiedError, match="the camera does not see b, even alone"):
        graph_from_depths("ab", stack([1, 1], [INF, INF]))
    with pytest.raises(EmbodiedError, match=r"shape \(1, 2\) for 2 objects"):
        graph_from_depths("ab", np.ones((1, 2)))
    with pytest.raises(UnknownNameError, match="object 'd'"):
        chain().removable("d")
    with pytest.raises(EmbodiedError, match="no object obstructs itself"):
        ObstructionGraph(("a",), np.ones((1, 1)))


def test_edit_distance_is_a_metric() -> None:
    rng = np.random.default_rng(2)
    words = ["".join(rng.choice(list("abc"), rng.integers(0, 6))) for _ in range(12)]
    for left, right in itertools.product(words, words):
        distance = edit_distance(left, right)
        assert distance == edit_distance(right, left)
        assert (distance == 0) == (left == right)
        assert abs(len(left) - len(right)) <= distance <= max(len(left), len(right))
        for between in words[:4]:
            assert distance <= edit_distance(left, between) + edit_distance(between, right)


def test_scores_of_answers() -> None:
    assert score({"a", "b"}, {"b", "c", "d"}).f1 == pytest.approx(0.4)
    assert score([], []).f1 == 1.0
    assert score(["a"], []).f1 == score([], ["a"]).f1 == 0.0
    paths = [("a", "b", "c"), ("a", "d")]
    assert path_distance(paths, paths[::-1]) == 0.0
    assert path_distance(paths, []) == 1.0
    assert path_distance([("a", "b")], paths) == pytest.approx((1 / 3 + 1) / 2)
    assert balanced({"none": [1.0, 1.0, 1.0], "hard": [0.0], "easy": []}) == 0.5
