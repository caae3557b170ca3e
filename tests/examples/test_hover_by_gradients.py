"""The example runs, and learns by gradients."""

import pytest

from examples.hover_by_gradients import Settings, main


def test_once_through(capsys: pytest.CaptureFixture[str]) -> None:
    result = main(Settings(steps=256, num_envs=8, horizon=16, hidden=(8,), episodes=4))
    assert 0.0 <= result["success"] <= result["success_any"] <= 1.0
    assert "reward" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hover_is_learned() -> None:
    assert main(Settings())["success"] > 0.75
