"""Delays come back from noisy logs within half a millisecond, and within the error they state."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.signal import cont2discrete, lfilter

from embodied.errors import EmbodiedError
from sim2real.logs.delay import Clock, clock, shift
from sim2real.logs.log import XYZ, Channel, LogError
from sim2real.logs.resample import Interpolation
from sim2real.logs.servo_delay import delay_of, response

DELAYS = (0.0, 0.0013, 0.0084, 0.02, 0.03)  # s
CASES = [(200.0, delay) for delay in DELAYS] + [
    pytest.param(500.0, delay, marks=() if delay == 0.0084 else pytest.mark.slow) for delay in DELAYS
]
NOISE = 0.002  # rad, a 12-bit encoder's


def signal(time: np.ndarray) -> np.ndarray:
    """(t, 2) rad, chirps from .1 to 10 Hz within 20 s, slower than 3 rad/s."""
    k = np.log(100.0) / 20.0
    frequency = 0.1 * np.exp(k * np.clip(time, 0, 20))
    phase = 2 * np.pi * (frequency - 0.1) / k
    return (0.3 / np.maximum(1, frequency / 1.5) * np.stack([np.sin(phase), np.cos(phase)])).T


def channel(time: np.ndarray, values: np.ndarray, rng: np.random.Generator, noise: float = NOISE) -> Channel:
    return Channel(time, values + noise * rng.normal(size=values.shape), ("a", "b"), "rad")


def two_sensors(rate: float, delay: float, seed: int) -> tuple[Channel, Channel]:
    """One motion as two noisy sensors see it, whose rows do not coincide."""
    rng = np.random.default_rng(seed)
    first = np.arange(0, 20, 1 / rate)
    second = first + rng.uniform(0, 1 / rate)
    return channel(first, signal(first), rng), channel(second, signal(second - delay), rng)


def servo(rate: float, delay: float, seed: int, w: float = 40.0, z: float = 0.7) -> tuple[Channel, Channel]:
    """A staircase of targets, and what a second-order servo makes of it `delay` later. Discretised by scipy."""
    rng = np.random.default_rng(seed)
    told = np.arange(0, 20, 1 / rate)
    targets = signal(told)
    fine = np.arange(0, 20, 1e-4)
    held = targets[np.clip(np.searchsorted(told, fine - delay + 1e-9, side="right") - 1, 0, None)]
    start = targets[0]
    discrete: Any = cont2discrete(([w * w], [1, 2 * z * w, w * w]), 1e-4, "zoh")
    followed = np.asarray(lfilter(discrete[0][0], discrete[1], held - start, axis=0))
    seen = told + rng.uniform(0, 1 / rate)
    seen = seen[seen < fine[-1]]
    values = np.stack([np.interp(seen, fine, column) for column in followed.T], 1) + start
    return Channel(told, targets, ("a", "b"), "rad"), channel(seen, 0.9 * values + 0.05, rng)


@pytest.mark.parametrize(("rate", "delay"), CASES)
def test_a_shift_is_found_within_half_a_millisecond(rate, delay):
    for seed in range(2):
        found = shift(*two_sensors(rate, delay, seed))
        assert found.seconds == pytest.approx(delay, abs=2e-4)
        assert abs(found.seconds - delay) < 5 * found.stderr + 1e-5
        assert found.stderr < 1e-4
        assert found.explained > 0.99
        assert str(found).startswith(f"{1e3 * found.seconds:.2f} ms ±")


@pytest.mark.parametrize(("rate", "delay"), CASES)
def test_a_delay_is_told_from_the_servo_behind_it(rate, delay):
    command, measured = servo(rate, delay, seed=1)
    servos = response(command, measured)
    found = delay_of(servos)
    assert found.seconds == pytest.approx(delay, abs=5e-4)
    assert abs(found.seconds - delay) < 5 * found.stderr + 5e-5
    assert found.explained > 0.99
    for one in servos:
        assert one.frequency == pytest.approx(40.0, rel=0.05)
        assert one.damping == pytest.approx(0.7, rel=0.05)
        assert one.gain == pytest.approx(0.9, rel=0.01)
        assert one.offset == pytest.approx(0.05, abs=0.002)
    # A shift takes the servo's lag, 2 z / w = 35 ms at low frequencies, for delay: that is what the fit is for.
    assert shift(command, measured, kind=Interpolation.HOLD).seconds > delay + 0.005


def test_stated_errors_hold():
    errors = np.array(
        [((found := shift(*two_sensors(200.0, 0.0084, seed))).seconds - 0.0084) / found.stderr for seed in range(30)]
    )
    assert 0.4 < errors.std() < 1.8
    assert (np.abs(errors) < 1.96).mean() >= 0.8


def test_sign_and_scale_do_no_harm_and_order_turns_the_sign():
    first, second = two_sensors(200.0, 0.0123, 3)
    mirrored = dataclasses.replace(second, values=-3 * second.values)
    assert shift(first, mirrored).seconds == pytest.approx(0.0123, abs=2e-4)
    assert shift(second, first).seconds == pytest.approx(-0.0123, abs=2e-4)


def test_a_periodic_signal_is_said_to_be_ambiguous():
    rng = np.random.default_rng(0)
    time = np.arange(0, 20, 0.005)
    wave = np.stack([np.sin(2 * np.pi * 15 * time), np.cos(2 * np.pi * 15 * time)], 1)
    late = np.stack([np.sin(2 * np.pi * 15 * (time - 0.01)), np.cos(2 * np.pi * 15 * (time - 0.01))], 1)
    found = shift(channel(time, wave, rng), channel(time, late, rng))
    assert found.rival > 0.8
    assert shift(*two_sensors(200.0, 0.01, 0)).rival < 0.5


def test_rows_of_nan_and_gaps_move_nothing():
    first, second = two_sensors(200.0, 0.0084, 0)
    values = second.values.copy()
    values[:30] = np.nan
    values[1000:1020] = np.nan
    assert shift(first, dataclasses.replace(second, values=values)).seconds == pytest.approx(0.0084, abs=2e-4)
    told, seen = servo(200.0, 0.0084, 0)
    holed = dataclasses.replace(
        seen, time=np.delete(seen.time, slice(1000, 1200)), values=np.delete(seen.values, slice(1000, 1200), 0)
    )
    assert delay_of(response(told, holed)).seconds == pytest.approx(0.0084, abs=5e-4)


def test_a_clock_that_is_off_and_drifts_is_found_and_corrected():
    rng = np.random.default_rng(0)
    time = np.arange(0, 60, 0.005)
    motion = np.cumsum(rng.normal(size=(len(time), 3)), 0) * 0.02  # a body that is shaken at random
    motion -= np.stack([np.convolve(column, np.ones(200) / 200, "same") for column in motion.T], 1)
    mine = Channel(time, motion + 0.002 * rng.normal(size=motion.shape), XYZ)
    stamps = 0.015 + time * (1 + 2e-4)
    theirs = Channel(stamps, motion + 0.002 * rng.normal(size=motion.shape), XYZ)
    found = clock(mine, theirs)
    assert found.offset == pytest.approx(0.015, abs=max(5e-4, 4 * found.offset_stderr))
    assert found.drift == pytest.approx(2e-4, abs=max(2e-5, 4 * found.drift_stderr))
    assert found.offset_stderr < 1e-3
    assert np.abs(found.corrected(theirs).time - time).max() < 1e-3
    exact = Clock(0.015, 2e-4, 0.0, 0.0, 1)
    np.testing.assert_allclose(exact.corrected(theirs).time, time, atol=1e-12)


def jumping(one: Channel) -> Channel:
    return dataclasses.replace(one, time=np.append(one.time[:-1], 1e9))


def test_what_cannot_be_compared_is_said():
    rng = np.random.default_rng(0)
    first, second = two_sensors(200.0, 0.01, 0)
    other = dataclasses.replace(second, names=("c", "d"))
    with pytest.raises(LogError, match="columns a, b and c, d have no name in common"):
        shift(first, other)
    with pytest.raises(LogError, match=r"channels share 0\.\d+ s; expected at least 1\.00 s"):
        shift(first, second.between(3.0, 3.5))
    noise = channel(second.time, np.zeros_like(second.values), rng)
    with pytest.raises(LogError, match="no motion in common"):
        shift(dataclasses.replace(first, values=np.zeros_like(first.values)), noise)
    with pytest.raises(LogError, match=r"channels share .* s, .* steps of .* s; up to 50000000 are compared"):
        shift(jumping(first), jumping(second))
    with pytest.raises(LogError, match="expected at least 2 of each"):
        shift(first, second.between(50, 60))
    with pytest.raises(LogError, match=r"'a': .* too little to fit a servo to"):
        response(first, second.between(3.0, 3.2))
    with pytest.raises(LogError, match=r"0 windows of 5\.0 s show the same motion"):
        clock(first, channel(second.time, rng.normal(size=second.values.shape), rng))
    with pytest.raises(EmbodiedError, match="no joints to take a delay from"):
        delay_of(())
