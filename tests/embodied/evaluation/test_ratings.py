"""Ratings of the two sides of a game: known strengths are found again, in any order, and nobody is infinitely bad."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.evaluation.ratings import ELO, Ratings, maximum_likelihood, rate

FIRST, SECOND, ADVANTAGE = np.array([150.0, 30.0, -180.0]), np.array([-90.0, 90.0]), 60.0  # Elo points


def played(episodes: int, seed: int = 0) -> np.ndarray:
    chance = 1 / (1 + np.exp(-(ADVANTAGE + FIRST[:, None] - SECOND) / ELO))
    return np.random.default_rng(seed).random((episodes, *chance.shape)) < chance


def test_known_strengths_are_found_again():
    ratings = rate(played(2000))
    found = (*ratings.first, *ratings.second, ratings.advantage)
    for one, true in zip(found, (*FIRST, *SECOND, ADVANTAGE), strict=True):
        assert one.low < one.value < one.high
        assert abs(one.value - true) < one.high - one.low < 60  # four standard errors, of which the interval has two


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    held = [
        one.low < true < one.high
        for seed in range(60)
        for one, true in zip(rate(played(100, seed), resamples=300).first, FIRST, strict=True)
    ]
    assert 0.88 < np.mean(held) <= 1


def test_ratings_of_each_side_have_the_mean_nought_and_say_how_often_who_wins():
    wins = played(500)
    ratings = rate(wins)
    for side in (ratings.first, ratings.second):
        assert sum(one.value for one in side) == pytest.approx(0.0, abs=1e-6)
    expected = np.array([[ratings.expected(i, j) for j in range(2)] for i in range(3)])
    # The likelihood's maximum gives everybody the wins that he had, of the virtual draws a half each.
    np.testing.assert_allclose(501 * expected.sum(1), wins.sum((0, 2)) + 1.0, rtol=1e-6)
    np.testing.assert_allclose(501 * expected.sum(0), wins.sum((0, 1)) + 1.5, rtol=1e-6)


def test_the_order_of_policies_does_not_matter():
    wins = played(200)
    ratings, turned = rate(wins), rate(wins[:, [2, 0, 1]][:, :, [1, 0]])
    in_order = Ratings(tuple(turned.first[i] for i in (1, 2, 0)), turned.second[::-1], turned.advantage)
    for one, other in zip((*ratings.first, *ratings.second, ratings.advantage),
                          (*in_order.first, *in_order.second, in_order.advantage), strict=True):  # fmt: skip
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-4)


def test_sides_change_places():
    wins = played(200)
    ratings, other = rate(wins), rate(~wins.transpose(0, 2, 1))
    assert other.advantage.value == pytest.approx(-ratings.advantage.value, abs=1e-4)
    assert [one.value for one in other.first] == pytest.approx([one.value for one in ratings.second], abs=1e-4)


def test_who_never_wins_is_finite_and_last():
    wins = played(100)
    wins[:, 1] = False
    ratings = rate(wins)
    values = [one.value for one in ratings.first]
    assert np.isfinite([end for one in ratings.first for end in (one.value, one.low, one.high)]).all()
    assert min(values) == values[1]


@pytest.mark.parametrize("wins", [np.zeros((3, 4)), np.full((3, 4), 10_000), 10_000 * np.eye(4), np.tri(5) * 10_000])
def test_the_maximum_is_found_where_everything_is_lopsided(wins: np.ndarray):
    (strength,) = maximum_likelihood(wins[None], 10_000)
    first = len(wins)
    chance = 1 / (1 + np.exp(strength[None, first:] - strength[:first, None]))
    left = wins + 0.5 - 10_001 * chance
    np.testing.assert_allclose(left.sum(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(left.sum(1), 0.0, atol=1e-5)
