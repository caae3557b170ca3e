"""What tests of deployment share."""

from __future__ import annotations

from unittest import mock

import pytest


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """In place of the garbage collector, which before a deployment looks through what hundreds of tests left."""
    stand_in = mock.Mock()
    monkeypatch.setattr("sim2real.deploy.gc", stand_in)
    return stand_in
