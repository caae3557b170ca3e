"""The ONNX model of a bundle computes what torch does, and nothing else passes for one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.storage.configs import from_json
from policies.networks.mlp import Activation
from policies.policy import Policy
from sim2real import export
from sim2real.bundles.contents import contents
from sim2real.bundles.files import ONNX, ExportError
from sim2real.contract.contract import Contract
from sim2real.graphs import onnx_check
from tests.kit.bundles import inputs_of, observations, small_contract, small_described, small_policy, target_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

CONTRACT = small_contract()


def written(policy: Policy) -> bytes:
    return contents(small_described(policy), policy)[0][ONNX]


def built(policy: Policy):
    return onnx.load_model_from_string(written(policy))


def run(policy: Policy, seen):
    """(count, 3) actions and targets of observations (count, 9), by ONNX Runtime."""
    running = onnxruntime.InferenceSession(written(policy), providers=["CPUExecutionProvider"])
    rows = [running.run(["action", "target"], inputs_of(row)) for row in seen]
    return tuple(np.array(part) for part in zip(*rows, strict=True))


@pytest.mark.parametrize("activation", Activation)
def test_actions_and_targets_are_torchs(activation):
    policy = small_policy(activation)
    seen = observations(policy)
    action, target = run(policy, seen)
    expected = policy(torch.from_numpy(seen)).numpy()
    assert 0 < (np.abs(expected) == 1).sum() < expected.size
    np.testing.assert_allclose(action, expected, atol=1e-5)
    np.testing.assert_allclose(target, target_of(CONTRACT, expected), atol=1e-5)
    assert (target >= -0.5).all()
    assert (target[:, 1] == -0.5).any(), "no target reached its limit"


@pytest.mark.parametrize("hidden", [(), (16,), (1, 40, 3)])
def test_any_number_of_layers(hidden):
    policy = small_policy(hidden=hidden)
    seen = observations(policy, 20)
    np.testing.assert_allclose(run(policy, seen)[0], policy(torch.from_numpy(seen)), atol=1e-5)


def test_what_is_not_a_number_stays_so_and_infinities_are_clipped_as_in_torch():
    policy = small_policy(Activation.ELU)
    seen = np.tile(observations(policy, 1)[:1], (3, 1))
    seen[:, 4] = [np.nan, np.inf, -np.inf]
    action, target = run(policy, seen)
    assert np.isnan(action[0]).all()
    assert np.isnan(target[0]).all()
    np.testing.assert_allclose(action[1:], policy(torch.from_numpy(seen[1:])), atol=1e-5)


def test_the_contract_is_inside_at_full_precision():
    text = {entry.key: entry.value for entry in built(small_policy()).metadata_props}["contract"]
    assert from_json(Contract, json.loads(text)) == CONTRACT
    assert "-0.123456789" in text


def test_the_same_policy_gives_the_same_bytes_and_another_does_not():
    first, second = (written(small_policy()) for _ in range(2))
    assert first == second
    assert first != written(small_policy(Activation.ELU))


def test_a_diverged_policy_is_refused():
    policy = small_policy()
    actor: Any = policy.network.actor  # whose layers torch says little of
    actor.mean.linears[0].weight.data[0, 0] = float("nan")
    with pytest.raises(ExportError, match="not finite"):
        export.nodes_of(policy)


def outside(model):
    entry = model.graph.initializer[0]
    entry.ClearField("raw_data")
    entry.data_location = onnx.TensorProto.EXTERNAL
    entry.external_data.add(key="location", value="../../etc/passwd")


def narrower(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8


def unreadable(model):
    text = model.SerializeToString().replace(b"joint_pos", b"joint_\xff\xfe\xff")
    model.ParseFromString(text)


def endless(model):
    model.graph.node.extend([model.graph.node[0]] * 17_000)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (outside, "constants lie in other files"),
        (narrower, r"it maps gyro\[8\].*the contract says gyro\[3\]"),
        (unreadable, "not text|not an ONNX model"),
        (endless, "at most 16384"),
    ],
)
def test_only_exported_models_pass(damage, message):
    """Of foreign operators `test_bundle.py` tells."""
    model = built(small_policy())
    assert onnx_check.inspect(model.SerializeToString(), CONTRACT)["producer"].startswith("embodied")
    damage(model)
    with pytest.raises(ValueError, match=message):
        onnx_check.inspect(model.SerializeToString(), CONTRACT)
    with pytest.raises(ValueError, match="not an ONNX model"):
        onnx_check.inspect(b"\x80\x04 nonsense", CONTRACT)


def test_a_missing_package_is_named_with_the_way_to_get_it_before_anything_is_traced(monkeypatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(export, "describe", lambda *_, **__: pytest.fail("it traced the task"))
    with pytest.raises(EmbodiedError, match=r'pip install "embodied-sim\[sim2real\]"'):
        export.write(tmp_path / "bundle", small_policy(), None, "family/task")  # type: ignore[arg-type]


def test_digests_tell_networks_and_contracts_apart():
    another = small_contract("family/other")
    made = (small_described(), small_described(contract=another), small_described(small_policy(Activation.RELU)))
    assert len({contents(one)[1] for one in made}) == 3
