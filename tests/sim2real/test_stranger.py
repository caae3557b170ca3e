"""Somebody with nothing but a bundle wires it: numpy, onnxruntime and json give the targets that we would send."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim2real.bundles import bundle
from sim2real.graphs.golden import advance, begin
from tests.kit.bundles import shipped_bundle
from tests.kit.stranger import stranger

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def made() -> bundle.Bundle:
    return bundle.load(shipped_bundle("locomotion/go1-getup"))


def test_a_stranger_sends_what_we_do(made: bundle.Bundle, tmp_path: Path) -> None:
    """Step by step, with what the policy remembers; `tests/journeys/test_stranger.py` shuts a drawer."""
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


def test_a_bundle_is_whole_and_says_how_to_be_wired(made: bundle.Bundle) -> None:
    contract, text = made.contract, (made.path / "README.md").read_text()
    for one in (*contract.step.sources, *contract.actuators, *contract.joints):
        assert f"| {one.name} |" in text
    assert "| state.target |" in text
    assert "to be given" in text
    assert "nan" not in text.replace("finance", "")
    header = (made.path / "policy.h").read_text()
    assert "float joint_pos[12]; /* rad: positions of `joints`, in their order */" in header


@pytest.mark.parametrize(
    "edit", [lambda d: d["step"]["sources"][0].update(size=5), lambda d: d["step"]["remembered"].pop()]
)
def test_an_edited_contract_is_refused(made: bundle.Bundle, tmp_path: Path, edit: Callable[[Any], object]) -> None:
    file = Path(shutil.copytree(made.path, tmp_path / "bundle")) / "contract.json"
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document, indent=2) + "\n")
    with pytest.raises(bundle.BundleError, match=r"contract\.json"):
        bundle.load(file.parent)


def test_inputs_that_are_not_finite_give_no_target(made: bundle.Bundle) -> None:
    shapes = {entry.name: np.zeros(entry.shape, np.float32) for entry in made._session.get_inputs()}
    assert np.isfinite(made.step(shapes)["target"]).all()
    shapes["joint_pos"][3] = np.inf
    assert np.isnan(made.step(shapes)["target"]).all()
    with pytest.raises(bundle.BundleError, match="input 'gyro' has shape"):
        made.step({**shapes, "gyro": np.zeros(2)})
