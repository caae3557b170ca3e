"""Shapley values of games whose values are known."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.evaluation.contributions import contributions, exact_value, most_coalitions

WORTH = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def additive(coalition: frozenset[int]) -> float:
    return float(sum(WORTH[agent] for agent in coalition))


def glove(coalition: frozenset[int]) -> float:
    """One has a left glove, two have a right one; a pair is worth 1."""
    return float(0 in coalition and len(coalition) > 1)


@pytest.mark.parametrize("agents", [3, 6])
def test_where_nobody_needs_the_others_each_adds_what_it_is_worth(agents: int):
    found = contributions(additive, agents, orders=8)
    np.testing.assert_allclose([one.value for one in found], WORTH[:agents])
    np.testing.assert_allclose([one.half for one in found], 0, atol=1e-9)


def test_the_glove_game():
    found = contributions(glove, 3, orders=1)
    np.testing.assert_allclose([one.value for one in found], [2 / 3, 1 / 6, 1 / 6])


def test_drawn_orders_agree_with_all_orders_and_add_up_to_the_whole_team():
    def majority(coalition: frozenset[int]) -> float:
        return float(WORTH[sorted(coalition)].sum() > 20) if coalition else 0.0

    found = contributions(majority, 6, orders=400, seed=1)
    assert sum(one.value for one in found) == pytest.approx(1.0)
    for agent, one in enumerate(found):
        assert abs(one.value - exact_value(majority, agent, 6)) < 0.02 + 1.5 * one.half


@pytest.mark.parametrize(("agents", "orders"), [(3, 1), (6, 2), (6, 100)])
def test_no_more_coalitions_are_asked_for_than_is_said(agents: int, orders: int):
    asked: list[frozenset[int]] = []
    contributions(lambda coalition: asked.append(coalition) or 0.0, agents, orders)
    assert len(asked) <= most_coalitions(agents, orders)


def test_each_coalition_is_evaluated_once():
    asked: list[frozenset[int]] = []

    def value(coalition: frozenset[int]) -> float:
        asked.append(coalition)
        return 0.0

    contributions(value, 4, orders=1)
    assert len(asked) == len(set(asked)) == 16
