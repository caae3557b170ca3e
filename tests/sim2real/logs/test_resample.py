"""Resampling invents nothing, and does to a part of a log what it does to the whole."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real.logs.log import WXYZ, XYZ, Channel, Log, LogError
from sim2real.logs.resample import Interpolation, resample, unbroken


def drawn(seed: int) -> Log:
    rng = np.random.default_rng(seed)

    def times(rate: float) -> np.ndarray:
        return np.cumsum(rng.uniform(0.2, 1.8, int(4 * rate)) / rate) + 0.3

    t, u, v = times(200), times(50), times(100)
    v[150:] += 0.5  # a gap
    quat = rng.normal(size=(len(v), 4)).cumsum(0)
    return Log(
        {
            "joint_pos": Channel(t, np.sin(np.outer(t, [1, 2, 3])), ("a", "b", "c"), "rad"),
            "command": Channel(u, rng.normal(size=(len(u), 2)), ("a", "b"), "rad"),
            "orientation": Channel(v, quat / np.linalg.norm(quat, axis=1, keepdims=True), WXYZ, "1"),
            "empty": Channel(np.zeros(0), np.zeros((0, 3)), XYZ),
        },
        {"robot": "go1"},
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [50.0, 333.0, 1000.0])
def test_resampling_commutes_with_parts(seed, rate):
    log = drawn(seed)
    start, end = np.random.default_rng(seed).uniform((0.3, 2.5), (2.0, 5.0))
    whole, part = resample(log, rate), resample(log.between(start, end), rate)
    for name, channel in log.between(start, end).channels.items():
        if not len(channel):
            continue
        first, last = channel.time[[0, -1]]
        expected = whole[name].between(first, np.nextafter(last, np.inf))
        np.testing.assert_array_equal(part[name].time, expected.time)
        np.testing.assert_array_equal(part[name].values, expected.values)
    assert part.metadata == log.metadata


def test_more_rows_than_memory_holds_are_refused():
    gyro = Channel(np.array([0.0, 1e9]), np.zeros((2, 3)), XYZ)
    with pytest.raises(LogError, match=r"lasts 1e\+09 s, 2e\+11 rows at 200 rows/s; up to 50000000 are made"):
        resample(Log({"gyro": gyro}), 200.0)


@pytest.mark.parametrize("seed", range(3))
def test_rows_on_the_grid_stay_as_they_are(seed):
    rng = np.random.default_rng(seed)
    time = np.arange(7, 300) / 200
    values = rng.normal(size=(len(time), 3))
    values[40] = np.nan
    channel = Channel(time, values, XYZ)
    same = resample(Log({"gyro": channel, "command": channel}), 200.0)
    for name in ("gyro", "command"):
        np.testing.assert_array_equal(same[name].time, time)
        np.testing.assert_array_equal(same[name].values, values)
    # NaN reaches as far as its own two intervals, no further.
    fine = resample(Log({"gyro": channel}), 1000.0)["gyro"]
    bad = fine.time[np.isnan(fine.values[:, 0])]
    assert time[39] < bad.min() < bad.max() < time[41]


def test_straight_lines_and_constant_turns_are_met_exactly():
    time = np.array([0.0, 0.013, 0.02, 0.05, 0.061, 0.1])
    line = Channel(time, np.outer(time, [2.0, -3.0]) + 1, ("a", "b"))
    half = 0.5 * 2.0 * time  # rad, half the angle of a turn at 2 rad/s about z
    sign = np.array([1, -1, 1, 1, -1, 1])[:, None]  # q and -q are one orientation
    turn = np.stack([np.sin(half), 0 * half, np.cos(half), 0 * half], 1) * sign
    fine = resample(Log({"gyro": line, "orientation": Channel(time, turn, ("z", "x", "w", "y"))}), 1000.0)
    t = fine["gyro"].time
    np.testing.assert_allclose(fine["gyro"].values, np.outer(t, [2.0, -3.0]) + 1, atol=1e-14)
    w, z = fine["orientation"].columns(("w", "z")).T
    np.testing.assert_allclose(np.abs(w * np.cos(t) + z * np.sin(t)), 1.0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(fine["orientation"].values, axis=1), 1.0, atol=1e-14)


def test_commands_hold_and_measurements_do_not():
    channel = Channel(np.array([0.0, 0.02, 0.04]), np.array([[0.0], [1.0], [5.0]]), ("a",))
    fine = resample(Log({"command": channel, "joint_pos": channel}), 100.0)
    np.testing.assert_array_equal(fine["command"].values[:, 0], [0, 0, 1, 1, 5])
    np.testing.assert_allclose(fine["joint_pos"].values[:, 0], [0, 0.5, 1, 3, 5], atol=1e-12)
    held = resample(Log({"joint_pos": channel}), 100.0, kinds={"joint_pos": Interpolation.HOLD})
    np.testing.assert_array_equal(held["joint_pos"].values, fine["command"].values)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_lies_outside_or_within_a_gap(seed):
    log = drawn(seed)
    for name, channel in resample(log, 400.0, max_gap=0.05).channels.items():
        old = log[name].time
        if not len(old):
            assert not len(channel)
            continue
        assert old[0] - 1e-9 <= channel.time[0]
        assert channel.time[-1] <= old[-1] + 1e-9
        before = np.searchsorted(old, channel.time, side="right") - 1
        gap = old[np.minimum(before + 1, len(old) - 1)] - old[before]
        assert ((gap <= 0.05) | (old[before] == channel.time)).all()
    orientation = resample(log, 400.0)["orientation"]
    assert np.diff(orientation.time).max() > 0.5
    assert len(unbroken(orientation.time)) == 2
    bridged = resample(log, 400.0, max_gap=1.0)["orientation"]
    assert np.diff(bridged.time).max() < 1 / 399


def test_rounding_moves_no_command():
    time = np.cumsum(np.full(400, 0.1)) - 0.1  # .1 + .2 is .30000000000000004: not one of k / 10
    assert (time != np.arange(400) / 10).any()
    channel = Channel(time, np.arange(400.0)[:, None], ("a",))
    log = resample(Log({"command": channel, "gyro": channel}), 10.0)
    for name in ("command", "gyro"):
        np.testing.assert_array_equal(log[name].values[:, 0], np.arange(400))
        np.testing.assert_array_equal(log[name].time, np.arange(400) / 10)


def test_equal_times_do_no_harm():
    channel = Channel(np.array([0.0, 0.01, 0.01, 0.02]), np.array([[0.0], [1.0], [2.0], [3.0]]), ("a",))
    np.testing.assert_array_equal(resample(Log({"gyro": channel}), 100.0)["gyro"].values[:, 0], [0, 2, 3])


def test_runs_without_a_gap():
    assert unbroken(np.array([0.0, 0.1, 0.5, 0.6, 1.0]), 0.2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert unbroken(np.zeros(0)) == []


def test_wrong_requests_are_named():
    with pytest.raises(EmbodiedError, match=r"resampling at 0\.0 Hz"):
        resample(drawn(0), 0.0)
    bad = Log({"orientation": Channel(np.zeros(1), np.zeros((1, 3)), XYZ)})
    with pytest.raises(LogError, match="'orientation' has columns x, y, z; expected a quaternion w, x, y, z"):
        resample(bad, 100.0)
