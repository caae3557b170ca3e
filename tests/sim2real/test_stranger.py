"""Somebody with nothing but a bundle wires it: numpy, onnxruntime and json give the targets that we would send."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sim2real.bundles import bundle
from sim2real.graphs.golden import advance, begin
from tests.kit.bundles import shipped_bundle
from tests.kit.stranger import stranger

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.timeout(300)


def test_a_stranger_sends_what_we_do(tmp_path: Path) -> None:
    """Step by step, with what the policy remembers; `tests/journeys/test_stranger.py` shuts a drawer."""
    made = bundle.load(shipped_bundle("locomotion/go1-getup"))
    step, state = made.contract.step, {}
    rng = np.random.default_rng(0)
    with stranger(made.path, tmp_path) as ask:
        for _ in range(5):
            measured = {one.name: rng.uniform(-0.3, 0.3, one.size).astype(np.float32) for one in step.sources}
            measured |= {f"command.{one.name}": np.array(one.example, np.float32) for one in step.commands}
            state = state or begin(step, measured)
            outputs = made.step({**measured, **state})
            state = advance(step, outputs)
            answer = ask({name: row.tolist() for name, row in measured.items()})
            np.testing.assert_allclose(answer, outputs["target"], atol=1e-5)
    assert re.search(r"\| state.target \|.*to be given", (made.path / "README.md").read_text(), re.DOTALL)
    header = (made.path / "policy.h").read_text()
    assert "float joint_pos[12]; /* rad: positions of `joints`, in their order */" in header
