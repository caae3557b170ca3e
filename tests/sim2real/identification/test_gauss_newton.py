"""Estimates are right, their intervals hold the truth, and what a log cannot tell is named."""

import dataclasses
import sys

import numpy as np
import pytest

from sim2real.identification import gauss_newton as gn
from sim2real.identification import search
from sim2real.identification import simulate as sm
from sim2real.identification.parameters import CalibrationError
from tests.kit import twins as toys

FREE = [0, 1, 3]


def begun(log, twin):
    """Where each window begins, and the windows."""
    windows = sm.cut(log, twin, 0.5, 0.5)
    return twin.starts(log, windows.begin), windows


def fitted(log, twin=None):
    twin = twin or toys.Toy()
    starts, windows = begun(log, twin)
    return twin, windows, gn.fit(twin, windows, starts, settings=gn.Settings())


def test_without_noise_the_truth_is_found():
    _, _, fit = fitted(toys.log_of(0, noise=1e-9))
    np.testing.assert_allclose(fit.values, toys.TRUTH[FREE], rtol=1e-4)
    assert fit.converged


def test_the_noise_is_found():
    _, _, fit = fitted(toys.log_of(1))
    np.testing.assert_allclose(fit.noise * 0.01, toys.NOISE, rtol=0.1)
    assert np.mean(fit.residual**2) == pytest.approx(1.0, rel=0.05)


TRIALS = [10, pytest.param(30, marks=pytest.mark.slow)]


def inside(logs):
    """Share of intervals that hold the truth, over all parameters."""
    held = []
    for log in logs:
        twin, windows, fit = fitted(log)
        sd = np.sqrt(np.diag(gn.covariance(twin, windows, fit)))
        held.append(np.abs(fit.values - toys.TRUTH[FREE]) < 1.96 * sd)
    return np.mean(held)


@pytest.mark.parametrize("trials", TRIALS)
def test_intervals_hold_the_truth(trials):
    assert 0.89 <= inside(toys.log_of(seed) for seed in range(trials)) <= 1.0


@pytest.mark.parametrize("trials", [12, *TRIALS[1:]])
def test_intervals_grow_with_the_noises_memory(trials):
    # Those for white noise would hold the truth in two of three cases.
    assert inside(toys.log_of(seed, correlation=0.8) for seed in range(trials)) >= 0.87


@pytest.mark.parametrize("trials", TRIALS)
def test_intervals_grow_with_what_comes_and_goes_with_the_motion(trials):
    """Errors that are large where the command is: noise that knows nothing of the motion would explain them away."""

    def log_of(seed):
        log = toys.log_of(seed, noise=1e-9)
        pos = log["joint_pos"]
        size = np.abs(pos.values) / np.abs(pos.values).mean()
        noise = toys.NOISE * size * np.random.default_rng(seed).normal(size=pos.values.shape)
        noisy = dataclasses.replace(pos, values=pos.values + noise)
        return dataclasses.replace(log, channels={**log.channels, "joint_pos": noisy})

    assert inside(map(log_of, range(trials))) >= 0.89


def test_what_was_assumed_makes_uncertain_what_depends_on_it():
    """The toy's second gain is assumed to be 0, with a prior of 3: the first is anywhere about their sum."""
    twin = toys.Toy()
    assumed = tuple(dataclasses.replace(p, known=False) for p in twin.parameters)
    twin, windows, fit = fitted(toys.log_of(6), dataclasses.replace(twin, parameters=assumed))
    alone = gn.covariance(twin, windows, fit)
    whole = gn.with_assumed(twin, fit, alone)
    # Of two with one sum, each with the prior s: sqrt(1/2) s.
    assert np.sqrt(whole[1, 1]) == pytest.approx(3 / np.sqrt(2), rel=0.02)
    assert np.sqrt(whole[0, 0]) == pytest.approx(np.sqrt(alone[0, 0]), rel=0.02)
    assert gn.told(fit) == [True, False, True]
    (direction,) = gn.unidentified(twin, fit)
    assert set(direction.names) == {"x.strength", "y.strength"}


def test_white_residuals_give_the_usual_covariance():
    twin, windows, fit = fitted(toys.log_of(2, seconds=30))
    covariance = gn.covariance(twin, windows, fit)
    hessian = np.einsum("wmp,wmq->pq", fit.jacobian, fit.jacobian) + np.eye(3)
    spread = np.array([twin.parameters[i].spread for i in fit.free])
    usual = np.linalg.inv(hessian) * np.outer(spread, spread)
    np.testing.assert_allclose(np.diag(covariance), np.diag(usual), rtol=0.35)
    assert (np.linalg.eigvalsh(covariance) > 0).all()


def test_measured_starts_alone_would_mislead():
    log, twin = toys.log_of(3), toys.Toy()
    stiff = type("Stiff", (toys.Toy,), {"start_spread": property(lambda self: np.array([1e-6]))})()
    _, _, free = fitted(log, twin)
    _, _, held = fitted(log, stiff)
    assert np.sum(held.residual**2 * held.noise**2) > 1.02 * np.sum(free.residual**2 * free.noise**2)


def test_values_stay_within_bounds():
    twin = toys.Toy()
    low = dataclasses.replace(twin.parameters[0], upper=2.0)
    twin = dataclasses.replace(twin, parameters=(low, *twin.parameters[1:]))
    _, _, fit = fitted(toys.log_of(4), twin)
    assert fit.values[0] == pytest.approx(2.0, abs=1e-6)


def test_what_shows_only_together_is_named():
    twin = toys.Toy()
    both = dataclasses.replace(twin, parameters=tuple(dataclasses.replace(p, free=True) for p in twin.parameters))
    twin, _, fit = fitted(toys.log_of(5), both)
    (direction,) = gn.unidentified(twin, fit)
    assert set(direction.names) == {"x.strength", "y.strength"}
    assert direction.shares[0] == pytest.approx(-direction.shares[1], rel=0.01)
    assert fit.values[1] + fit.values[2] == pytest.approx(2.0, rel=0.02)
    twin, _, fit = fitted(toys.log_of(5))
    assert gn.unidentified(twin, fit) == ()


def test_a_simulation_that_diverges_is_reported():
    class Broken(toys.Toy):
        def simulate(self, values, starts, windows):
            return (super().simulate(values, starts, windows)[0] + np.inf,)

    with pytest.raises(CalibrationError, match="'toy' diverges"):
        fitted(toys.log_of(6), Broken())


def test_the_scan_finds_the_delay():
    twin, values = toys.Toy(), np.array([3.0, 2.0, 0.0, 0.04])
    starts, windows = begun(toys.log_of(7), twin)
    found = search.scan_delay(twin, values, starts, windows)
    assert found[3] == pytest.approx(0.011, abs=1.5e-3)
    np.testing.assert_array_equal(found[:3], values[:3])
    delay = dataclasses.replace(twin.parameters[3], free=False)
    fixed = dataclasses.replace(twin, parameters=(*twin.parameters[:3], delay))
    assert search.scan_delay(fixed, values, starts, windows) is values


def test_evolution_comes_near_and_repeats():
    twin = toys.Toy()
    starts, windows = begun(toys.log_of(8), twin)
    begin = np.array([9.0, 9.0, 0.0, 0.045])
    settings = search.Settings(generations=25, population=16)
    first, second = (search.evolve(twin, begin, starts, windows, settings) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first[[0, 1]], toys.TRUTH[[0, 1]], rtol=0.25)
    assert first[2] == begin[2]
    assert search.scores(twin, first[None], starts, windows) < search.scores(twin, begin[None], starts, windows) / 50


def test_without_cmaes_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmaes", None)
    starts, windows = begun(toys.log_of(9), toys.Toy())
    with pytest.raises(CalibrationError, match=r'pip install "embodied-sim\[sim2real\]"'):
        search.evolve(toys.Toy(), toys.TRUTH, starts, windows, search.Settings(generations=1))
