"""What tests of robots share."""

from __future__ import annotations

import pytest

from embodied.robot.derivation import pose


@pytest.fixture
def any_pose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Home poses are searched from one beginning instead of 25: for tests to which the pose does not matter."""
    monkeypatch.setattr(pose, "PATTERNS", (0.5,))
    monkeypatch.setattr(pose, "BENT", (1.0,))
