"""The map finds what makes a policy fail, is silent where nothing does, and proposes starts that cover failures."""

import numpy as np
import pytest

from embodied.core.initial_states import first_reset_states, load
from embodied.env.registry import join_content
from sim2real import twin
from sim2real.failures.failure_map import Features, demonstrations, failure_map, features_of, resampling_weights
from sim2real.failures.failure_page import page
from tests.kit.task_file import mass
from tests.kit.worlds import task_of

COUNT = 600


def features(seed=0, columns=20):
    values = np.random.default_rng(seed).normal(size=(COUNT, columns)) * 10.0 ** np.arange(-3, columns - 3)
    return Features(tuple(f"f{i}" for i in range(columns)), values)


@pytest.mark.parametrize("cause", [0, 7, 19])
def test_the_cause_of_failures_is_found_among_many_features_whatever_its_unit(cause):
    table = features()
    level = table.ranks()[:, cause]
    failed = np.random.default_rng(1).random(COUNT) < np.where(level > 0.7, 0.8, 0.05)
    found = failure_map(table, failed)
    assert found.telling[0] == cause
    rates = [rate for _, _, rate in found.rates(cause)]
    assert rates[0] < 0.15 < 0.6 < rates[-1]
    assert found.risk[level > 0.85].mean() > 0.6 > 0.2 > found.risk[level < 0.5].mean()


def test_failures_in_the_middle_are_found_too():
    table = features()
    failed = np.abs(table.ranks()[:, 3] - 0.5) < 0.1
    found = failure_map(table, failed)
    assert found.telling[0] == 3
    assert found.risk[failed].mean() > 2 * found.risk[~failed].mean()


@pytest.mark.parametrize(("seeds", "most"), [(5, 0), pytest.param(10, 1, marks=pytest.mark.slow)])
def test_of_failures_by_chance_nothing_is_said(seeds, most):
    told = [failure_map(features(), np.random.default_rng(seed).random(COUNT) < 0.3).telling for seed in range(seeds)]
    assert sum(map(len, told)) <= most
    assert failure_map(features(), np.zeros(COUNT, bool)).telling == ()
    assert failure_map(features(), np.ones(COUNT, bool)).telling == ()


def test_demonstrations_cover_both_places_where_a_policy_fails():
    table = features(columns=2)
    ranks = table.ranks()
    corners = [np.array([0.1, 0.1]), np.array([0.9, 0.9])]
    failed = np.any([np.abs(ranks - corner).max(1) < 0.12 for corner in corners], axis=0)
    found = failure_map(table, failed)
    chosen = demonstrations(found, 2)
    assert {int(np.argmin([np.abs(ranks[row] - corner).max() for corner in corners])) for row in chosen} == {0, 1}
    assert failed[demonstrations(found, 50)].all()
    assert demonstrations(failure_map(table, np.zeros(COUNT, bool)), 3) == []


def test_risky_starts_are_drawn_more_often_and_none_is_forgotten():
    weights = resampling_weights(np.array([0.0, 0.5, 1.0]))
    assert weights.sum() == pytest.approx(1.0)
    assert 0 < weights[0] < weights[1] < weights[2]


@pytest.fixture(scope="module")
def walking():
    """What differs between initial states of a walking task."""
    task = task_of("locomotion/go1-joystick-rough")
    return features_of(first_reset_states(task, 0, 64), task.model)


def test_features_are_named_and_those_that_never_differ_left_out(walking):
    found = walking
    names = found.names
    assert {"qpos.root.x", "qpos.FR_hip", "task_state.command.0", "task_state.level", "task_state.latency"} <= set(
        names
    )
    assert not any(name.startswith("task_state.air_time") for name in names), "always zero at the start"
    assert len(set(names)) == len(names)
    labels = [found.label(feature) for feature in range(len(names))]
    assert {"qpos.root.x, m", "qpos.FR_hip, rad", "task_state.level"} <= set(labels)


def test_the_page_is_one_file_that_says_what_was_found():
    table = features(columns=2)
    failed = table.ranks()[:, 0] > 0.8
    found = failure_map(table, failed)
    text = page("a <task>", found, demonstrations(found, 2))
    assert "a &lt;task&gt;" in text
    assert "f0" in text
    assert "src=" not in text
    assert text.count("<circle") == COUNT + 2


def test_the_command_writes_a_map_and_starts_to_train_from(tmp_path):
    out, name = tmp_path / "map", mass(tmp_path)
    assert twin.main([name, "--policy", "zero", "--falls", "--episodes", "64", "--out", str(out)]) == 0
    buffer = load(out / twin.INITIAL_STATES, join_content()[name].load()())
    assert len(buffer) == 64
    assert (out / twin.PAGE).read_text().startswith("<!doctype html>")
    assert '"episodes": 64' in (out / twin.MAP).read_text()
