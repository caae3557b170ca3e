"""Logs that are compared to the last bit."""

from __future__ import annotations

import numpy as np

from sim2real.logs.log import Log


def assert_same_log(a: Log, b: Log) -> None:
    """Channels, names, units, times and values, signs of zero included."""
    assert dict(a.metadata) == dict(b.metadata)
    assert set(a.channels) == set(b.channels)
    for name in a.channels:
        assert (a[name].names, a[name].unit) == (b[name].names, b[name].unit)
        assert a[name].time.tobytes() == b[name].time.tobytes()
        np.testing.assert_array_equal(np.signbit(a[name].values), np.signbit(b[name].values))
        np.testing.assert_array_equal(a[name].values, b[name].values)
