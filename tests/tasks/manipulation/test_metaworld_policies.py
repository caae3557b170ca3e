"""Meta-World's own scripted policies, unchanged, on our tasks; they need a Python of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[3] / ".venv-metaworld/bin/python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(),
        reason="python3 -m venv .venv-metaworld && .venv-metaworld/bin/pip install metaworld==3.1.1 packaging",
    ),
]


def test_policies_written_for_metaworld_work_here(tmp_path: Path) -> None:
    """What is pressed, pulled by a handle, pushed along the table, grasped in a bin, and put together."""
    tasks = ("button-press", "drawer-open", "push", "bin-picking", "assembly", "door-unlock")
    command = [sys.executable, "-m", "benchmarks.metaworld_policies", "--tasks", *tasks, "--policies", "metaworld"]
    options = ["--episodes", "10", "--metaworld", str(PYTHON), "--json", str(tmp_path / "found.json")]
    subprocess.run([*command, *options], check=True, timeout=600)
    rows = json.loads((tmp_path / "found.json").read_text())["results"]
    found = {row["task"]: row["metaworld"]["success_any"] for row in rows}
    assert min(found.values()) >= 0.6, found


def test_the_hand_goes_where_metaworlds_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.metaworld_motion", "--metaworld", str(PYTHON)]
    subprocess.run([*command, "--json", str(tmp_path / "found.json")], check=True, timeout=600)
    assert json.loads((tmp_path / "found.json").read_text())["worst"] < 0.02
