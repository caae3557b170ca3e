"""The example runs as it stands."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_in_python.py"


def test_once_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("train_in_python", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main(["--steps", "4096", "--num-envs", "64", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "they differ in {'algorithm_config.learning_rate': ('0.008', '0.001')}" in said
    assert "rewards of its first step: [" in said
    assert "<polyline" in (tmp_path / "two-rates.html").read_text()
