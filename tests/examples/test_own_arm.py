"""The example runs as it stands, and is as short as it says."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_arm.py"
FEW = ("--steps", "256", "--num-envs", "16", "--ppo.unroll", "8", "--ppo.minibatches", "2", "--evaluate-episodes", "0")
MOST_LINES = 15


def test_it_has_at_most_15_lines_of_code() -> None:
    tree = ast.parse(EXAMPLE.read_text())
    docstring = tree.body[0]
    lines = {number for node in ast.walk(tree) if isinstance(node, ast.stmt) and node is not docstring
             for number in (node.lineno, node.end_lineno or node.lineno)}  # fmt: skip
    assert len(lines) <= MOST_LINES


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_once_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("own_arm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main(None, *FEW) == 0
    assert {"own_reach.py", "own_reach.xml", "test_own_reach.py", "own_reach_run"} <= {
        p.name for p in tmp_path.iterdir()
    }
    assert json.loads(Path("own_reach.json").read_text())["task"] == "own_reach.py:OwnReach"
