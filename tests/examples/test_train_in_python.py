"""The example runs as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import embodied
from embodied.storage.configs import run_document
from embodied.storage.runs import Run
from examples import train_in_python as example
from policies.training import launch
from tests.kit.commands import run
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import build_toy

DIFFERENCE = "they differ in {'algorithm_config.learning_rate': ('0.008', '0.001')}"


def trained(settings: Any, **_: Any) -> launch.Trained:
    """Stands for `launch.start`: a run whose policy does nothing."""
    made = Run.create(settings.out.parent, settings.task, run_document(settings), settings.out)
    for step in (settings.steps // 2, settings.steps):
        made.log(step, {"success": 0.5, "return": 1.0})
    result = {"success": 0.5, "return": settings.algorithm_config.learning_rate}
    made.write_result(result)
    made.close()
    return launch.Trained(made, lambda obs: torch.zeros(8, 3), result, stopped=False)  # pyright: ignore[reportArgumentType]


def test_its_calls_are_right_and_it_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start", trained)
    monkeypatch.setattr(embodied, "make", lambda *_: build_toy(Speck, "rigid", 8), raising=False)
    done = run(example.main, "--steps", "4096", "--num-envs", "64", "--out", str(tmp_path))
    assert done.code == 0
    assert DIFFERENCE in done.out
    assert "rewards of its first step: [" in done.out
    assert Run.open(tmp_path / "gentle").config["num_envs"] == 64
    assert "<polyline" in (tmp_path / "two-rates.html").read_text()


@pytest.mark.slow
def test_once_through(tmp_path: Path) -> None:
    done = run(example.main, "--steps", "4096", "--num-envs", "64", "--out", str(tmp_path))
    assert done.code == 0
    assert DIFFERENCE in done.out
    assert "rewards of its first step: [" in done.out
    assert "<polyline" in (tmp_path / "two-rates.html").read_text()
