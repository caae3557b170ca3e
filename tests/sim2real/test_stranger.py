"""Somebody with nothing but a bundle wires it: numpy, onnxruntime and json; the robot is C MuJoCo here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import pytest

import embodied  # noqa: F401
from embodied.registry import join_content
from sim2real import export
from sim2real.bundles import bundle
from sim2real.graphs.control import nominal

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.timeout(300)

WIRING = """
import json, sys
import numpy as np
import onnxruntime

folder, pipe = sys.argv[1], sys.stdin.buffer
step = json.load(open(folder + "/contract.json"))["step"]
session = onnxruntime.InferenceSession(folder + "/policy.onnx", providers=["CPUExecutionProvider"])
outputs = [entry.name for entry in session.get_outputs()]

def begin(measured):
    state = {}
    for one in step["remembered"]:
        parts = [part["scale"] * measured[part["source"]][part["place"]] + part["offset"] for part in one["measured"]]
        state["state." + one["name"]] = np.array(parts or one["begin"], np.float32)
    return state

state = None
for line in sys.stdin:
    given = {name: np.array(value, np.float32) for name, value in json.loads(line).items()}
    state = state or begin(given)
    result = dict(zip(outputs, session.run(outputs, {**given, **state})))
    state = {name: result[name + ":next"] for name in state}
    print(json.dumps(result["target"].tolist()), flush=True)
assert not {"embodied", "sim2real", "jax", "torch", "mujoco"} & set(sys.modules)
"""
"""The README's, with lines of JSON for sensors and motors; it imports nothing of ours."""


def test_a_stranger_shuts_a_drawer_with_the_bundle_alone(tmp_path: Path) -> None:
    """The robot is a plain MuJoCo simulation that is stepped here without our engines."""
    name = "manipulation/drawer-close"
    assert export.main([name, "--out", str(tmp_path / "bundle")]) == 0
    contract = json.loads((tmp_path / "bundle" / "contract.json").read_text())
    task: Any = nominal(join_content()[name].load()())
    successes = 0
    for seed in range(3):
        start = jax.jit(task.reset)(jax.random.PRNGKey(seed))
        model = task.model.__copy__()
        model.opt.timestep = 1 / contract["physics_hz"]
        data = mujoco.MjData(model)
        data.qpos, data.mocap_pos = start.qpos, start.mocap_pos
        mujoco.mj_forward(model, data)
        goal = np.asarray(start.task_state.goal)
        stranger = subprocess.Popen(
            [sys.executable, "-c", WIRING, str(tmp_path / "bundle")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
        assert stranger.stdin
        assert stranger.stdout
        with stranger:
            for _ in range(round(5 * contract["control_hz"])):
                measured = {"joint_pos": [data.joint(joint["name"]).qpos[0] for joint in contract["joints"]]}
                for source in contract["step"]["sources"][1:]:
                    measured[source["name"]] = data.sensor(source["name"]).data.tolist()
                measured["command.goal"] = goal.tolist()
                stranger.stdin.write(json.dumps(measured) + "\n")
                stranger.stdin.flush()
                data.ctrl = json.loads(stranger.stdout.readline())
                mujoco.mj_step(model, data, nstep=round(contract["physics_hz"] / contract["control_hz"]))
                mujoco.mj_forward(model, data)  # sensors of this instant
            stranger.stdin.close()
            assert stranger.wait(30) == 0
        successes += np.linalg.norm(data.sensor("object1_pos").data - goal) <= task.reached
    assert successes == 3


def test_a_bundle_of_a_step_is_whole_and_says_how_to_be_wired(tmp_path: Path) -> None:
    assert export.main(["locomotion/go1-getup", "--out", str(tmp_path / "bundle")]) == 0
    made = bundle.load(tmp_path / "bundle")
    assert made.contract.step is not None
    text = (tmp_path / "bundle" / "README.md").read_text()
    for one in (*made.contract.step.sources, *made.contract.actuators, *made.contract.joints):
        assert f"| {one.name} |" in text
    assert "| state.target |" in text
    assert "to be told" in text
    assert "nan" not in text.replace("finance", "")
    header = (tmp_path / "bundle" / "policy.h").read_text()
    assert "float joint_pos[12]; /* rad: positions of `joints`, in their order */" in header


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d["step"]["sources"][0].update(size=5), "contract.json"),
        (lambda d: d["step"]["remembered"].pop(), "contract.json"),
    ],
)
def test_an_edited_contract_is_refused(tmp_path: Path, edit, said: str) -> None:
    assert export.main(["locomotion/go1-getup", "--out", str(tmp_path / "bundle")]) == 0
    file = tmp_path / "bundle" / "contract.json"
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document, indent=2) + "\n")
    with pytest.raises(bundle.BundleError, match=said):
        bundle.load(tmp_path / "bundle")


def test_inputs_that_are_not_finite_give_no_target(tmp_path: Path) -> None:
    assert export.main(["locomotion/go1-getup", "--out", str(tmp_path / "bundle")]) == 0
    made = bundle.load(tmp_path / "bundle")
    assert made.contract.step is not None
    shapes = {entry.name: np.zeros(entry.shape, np.float32) for entry in made._session.get_inputs()}
    assert np.isfinite(made.step(shapes)["target"]).all()
    shapes["joint_pos"][3] = np.inf
    assert np.isnan(made.step(shapes)["target"]).all()
    with pytest.raises(bundle.BundleError, match="input 'gyro' has shape"):
        made.step({**shapes, "gyro": np.zeros(2)})
