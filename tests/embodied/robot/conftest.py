"""What tests of robots share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embodied.robot import NAME, Description, Robot
from embodied.robot.derivation import pose


@pytest.fixture
def any_pose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Home poses are searched from one beginning instead of 25: for tests to which the pose does not matter."""
    monkeypatch.setattr(pose, "PATTERNS", (0.5,))
    monkeypatch.setattr(pose, "BENT", (1.0,))


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Robot]:
    """Loads a robot of a model's text, a `robot.toml` beside it, and a description in its place."""

    def loaded(text: str, toml: str = "", description: Description | None = None) -> Robot:
        file = tmp_path / ("robot.xml" if text.startswith("<mujoco") else "robot.urdf")
        file.write_text(text)
        if toml:
            (tmp_path / NAME).write_text(toml)
        return Robot.load(file, description)

    return loaded
