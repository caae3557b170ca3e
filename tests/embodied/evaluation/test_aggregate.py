"""Means over seeds and their intervals: what they are of a few numbers, and how often they hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from embodied.evaluation.aggregate import Interval, aggregate, performance_profile, probability_of_improvement


def test_the_interquartile_mean_leaves_out_a_seed_that_failed():
    found = aggregate([[0.9], [0.9], [0.9], [0.1]])
    assert found.mean.value == pytest.approx(0.7)
    assert found.iqm.value == pytest.approx(0.9)


def test_of_fewer_than_four_scores_none_is_left_out():
    found = aggregate([[0.97], [0.95], [0.99]])
    assert found.iqm.value == pytest.approx(found.mean.value)
    assert (found.mean.low, found.mean.high) == pytest.approx(
        (0.95, 0.99)
    )  # the lowest and the highest seed drawn three times


def test_one_seed_has_no_interval():
    found = aggregate([[0.5, 0.7]])
    assert found.mean.value == pytest.approx(0.6)
    assert math.isnan(found.mean.low)


def test_tasks_are_strata():
    """Tasks that differ widely, but whose seeds are alike, leave no doubt: no task is drawn in place of another."""
    found = aggregate([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert (found.mean.low, found.mean.value, found.mean.high) == (0.5, 0.5, 0.5)


def test_the_same_scores_give_the_same_interval():
    scores = np.random.default_rng(0).random((5, 4))
    assert aggregate(scores).iqm == aggregate(scores).iqm


@pytest.mark.parametrize(("seeds", "least"), [(10, 0.85), (30, 0.9)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(seeds, least):
    random = np.random.default_rng(0)
    held = []
    for _ in range(100):
        interval = aggregate(random.normal(size=(seeds, 1)), resamples=999).mean
        held.append(interval.low <= 0 <= interval.high)
    assert np.mean(held) >= least


def test_a_learner_that_always_wins_improves_for_certain_and_one_that_ties_by_half():
    low, high = np.array([[0.1], [0.2], [0.3]]), np.array([[0.7], [0.8], [0.9]])
    assert probability_of_improvement(high, low, resamples=200) == Interval(1.0, 1.0, 1.0)
    assert probability_of_improvement(low, high, resamples=200) == Interval(0.0, 0.0, 0.0)
    same = np.full((3, 1), 0.5)
    assert probability_of_improvement(same, same, resamples=200) == Interval(0.5, 0.5, 0.5)


def test_the_probability_of_improvement_is_the_share_of_pairs_that_are_won_on_the_mean_task():
    one, other = np.array([[0.5, 0.9], [0.7, 0.1]]), np.array([[0.6, 0.2], [0.4, 0.2], [0.8, 0.2]])
    found = probability_of_improvement(one, other, resamples=200)
    assert found.value == pytest.approx(((1 + 2) / 6 + 3 / 6) / 2)
    assert found.low <= found.value <= found.high
    assert math.isnan(probability_of_improvement(one[:1], other).low)


def test_a_profile_falls_from_all_runs_to_none():
    scores = np.array([[0.0, 0.5], [0.5, 1.0], [0.5, 1.0]])
    found = performance_profile(scores, (0.0, 0.5, 0.75, 1.1))
    assert [one.value for one in found] == pytest.approx([1.0, 5 / 6, 2 / 6, 0.0])
    assert all(one.low <= one.value <= one.high for one in found)
